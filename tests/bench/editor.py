"""Answers of the language server: ``python -m tests.bench.editor [--rounds 20] [--json FILE]``.

One server, asked over its standard input and output as an editor asks it. Each round types another
text of 300 lines, so that nothing about it is known; asks everything while that is checked, and
everything again a second later; then a text with a mistake in every stage, for its fixes.
Milliseconds from question to answer: the median, the 95th percentile, the slowest, and the median
of the processor time of the thread that answers, which other work on the machine does not change.
"""

import argparse
import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

HEAD = "extends bert-base\nhidden = 384\nheads = 6\n"
STAGE = """# one of many
stage "part-{0}" {{
    steps = {1}
    seq = 128
    batch = 32
    objective = mlm(p=15%, unit=span) + sop
    layers = 12
}}
"""
WRONG = STAGE.replace("unit=span", "unit=spam")


def spec(round: int, stage: str = STAGE) -> str:
    """A spec of 300 lines, another one each round."""
    stages = "".join(stage.format(n, 1000 + round) for n in range(37))
    return HEAD + stages + "dropout = 0.1"


class Editor:
    """A client with one open document."""

    def __init__(self, folder: Path) -> None:
        self.client = LanguageClient("bench", "1")
        self.uri = (folder / "mine.bertc").as_uri()
        self.checked = asyncio.Event()
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda params: self.checked.set()
        )
        self.version = 0

    async def start(self, folder: Path) -> None:
        await self.client.start_io(sys.executable, "-m", "bertc.lab.editor")
        await self.client.initialize_async(
            types.InitializeParams(types.ClientCapabilities(), root_uri=folder.as_uri())
        )
        self.client.initialized(types.InitializedParams())
        document = types.TextDocumentItem(self.uri, "bertc", 0, "layers = 1\n")
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(document))
        await self.checked.wait()

    def processor_seconds(self) -> float:
        """Processor time of the server's first thread, which answers."""
        server = self.client._server
        assert server is not None
        told = Path(f"/proc/{server.pid}/schedstat").read_text().split()
        return int(told[0]) / 1e9

    async def timed(self, answer: Awaitable[Any]) -> tuple[float, float]:
        """Milliseconds until an answer comes, and those of the processor."""
        began, worked = time.perf_counter(), self.processor_seconds()
        await answer
        return 1e3 * (time.perf_counter() - began), 1e3 * (self.processor_seconds() - worked)

    async def asked(self, when: str) -> dict[str, tuple[float, float]]:
        """Every question once."""
        questions = self.questions().items()
        return {f"{each}, {when}": await self.timed(ask()) for each, ask in questions}

    def type(self, text: str) -> None:
        self.version += 1
        self.checked.clear()
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(self.version, self.uri),
                [types.TextDocumentContentChangeWholeDocument(text)],
            )
        )

    def questions(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        document, client = types.TextDocumentIdentifier(self.uri), self.client
        end, value = types.Position(299, 3), types.Position(296, 27)
        whole = types.Range(types.Position(0, 0), types.Position(300, 0))
        context = types.CodeActionContext([])
        return {
            "completion of a setting": lambda: client.text_document_completion_async(
                types.CompletionParams(document, end)
            ),
            "completion of arguments": lambda: client.text_document_completion_async(
                types.CompletionParams(document, value)
            ),
            "hover over a setting": lambda: client.text_document_hover_async(
                types.HoverParams(document, types.Position(1, 2))
            ),
            "hover over a kind": lambda: client.text_document_hover_async(
                types.HoverParams(document, types.Position(296, 17))
            ),
            "definition": lambda: client.text_document_definition_async(
                types.DefinitionParams(document, types.Position(0, 10))
            ),
            "outline": lambda: client.text_document_document_symbol_async(
                types.DocumentSymbolParams(document)
            ),
            "formatting": lambda: client.text_document_formatting_async(
                types.DocumentFormattingParams(document, types.FormattingOptions(4, True))
            ),
            "fixes": lambda: client.text_document_code_action_async(
                types.CodeActionParams(document, whole, context)
            ),
        }


async def measured(rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Milliseconds of every question in every round."""
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        editor = Editor(Path(name))
        await editor.start(Path(name))
        for round in range(-2, rounds):
            editor.type(spec(round))
            times = {"findings, with 150 of waiting": await editor.timed(editor.checked.wait())}
            editor.type(spec(-3 - round))
            times |= await editor.asked("while a text is checked")
            await asyncio.sleep(1)
            times |= await editor.asked("again")
            editor.type(spec(round, WRONG))
            fixes = editor.questions()["fixes"]
            times["fixes of 37 mistakes, while a text is checked"] = await editor.timed(fixes())
            await asyncio.sleep(1)
            times["fixes of 37 mistakes, again"] = await editor.timed(fixes())
            for question, milliseconds in times.items():
                if round >= 0:
                    found.setdefault(question, []).append(milliseconds)
        await editor.client.shutdown_async(None)
        editor.client.exit(None)
        await editor.client.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    gc.disable()  # the client's own pauses are not the server's
    found = asyncio.run(measured(options.rounds))
    for question, times in sorted(found.items()):
        waited, worked = zip(*times, strict=True)
        late = statistics.quantiles(waited, n=20, method="inclusive")[-1]
        figures = statistics.median(waited), late, max(waited), statistics.median(worked)
        print("".join(f"{figure:8.1f}" for figure in figures), f" {question}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
