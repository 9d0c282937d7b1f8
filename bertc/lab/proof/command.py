"""Any program as a target: it reads texts on standard input, and writes what it computes of them.

A request is a JSON object on a line: ``text``, ``pair`` if there are two, ``ids`` and ``segments``
for a program without a tokenizer, ``positions``, ``columns`` of the scores of a vocabulary, and
``batch`` where rows are to be read together. For each, in their order, it writes an object:
``tokens``, the ids it made; ``embeddings``, vectors at the positions; ``layers``, a list of such
lists; ``pooled``, one vector; ``scores``, by head or of the only one. Any may be absent.
"""

import json
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from typing import Any

from bertc import DataError, MissingInputError
from bertc.lab.proof.proof import EMBEDDINGS, POOLED, Answer, Proof, Row
from bertc.lab_api import escaped, several

SHOWN = 80


def request(proof: Proof, row: Row) -> dict[str, Any]:
    """The request for a row."""
    columns = {s.output: s.columns for s in proof.scores if len(s.columns) < s.width}
    fields = {
        "text": row.text, "pair": row.pair, "ids": row.ids, "segments": row.segments,
        "positions": row.positions, "columns": columns or None, "batch": row.batch,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value is not None}


def command_answers(command: str, proof: Proof) -> Iterator[Answer]:
    """Run a command once, and read its answers to all rows."""
    requests = "".join(f"{json.dumps(request(proof, row))}\n" for row in proof.rows)
    try:
        ran = subprocess.run(shlex.split(command), input=requests.encode(), stdout=subprocess.PIPE)
    except (OSError, ValueError) as error:
        help = "TARGET is a folder, an ONNX graph, or a command in quotes"
        raise MissingInputError(f"{command} cannot be started: {error}", help=help) from None
    lines = ran.stdout.splitlines()
    if ran.returncode or len(lines) != len(proof.rows):
        ended = f"ended with {ran.returncode} after" if ran.returncode else "wrote"
        answered = f"{several(len(lines), 'line')} for {several(len(proof.rows), 'request')}"
        raise DataError(f"the command {ended} {answered}", help="a JSON object a line, and no more")
    yield from read_answers(proof, lines)


def read_answers(proof: Proof, lines: Iterable[bytes]) -> Iterator[Answer]:
    """The vectors of each row by stage, from the lines that a program wrote."""
    for number, (row, line) in enumerate(zip(proof.rows, lines, strict=True), 1):
        yield _read(proof, row, line, f"answer {number}")


def _read(proof: Proof, row: Row, line: bytes, where: str) -> Answer:
    try:
        fields = json.loads(line)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        beginning = escaped(line[:SHOWN].decode(errors="replace"))
        raise DataError(f"{where} is no JSON object: {beginning}", help="a JSON object a line")
    tokens, layers = fields.get("tokens", [*row.ids]), fields.get("layers") or []
    if tokens != [*row.ids] and isinstance(tokens, list):
        return {"tokens": tokens}  # vectors of other tokens are at other positions
    for name, values, count in (("tokens", tokens, len(row.ids)), ("layers", layers, proof.depth)):
        if not isinstance(values, list) or len(values) not in (0, count):
            raise DataError(f"{where}: {name} is no list of {count}")
    scores = fields.get("scores")
    by_head = scores if isinstance(scores, dict) else {s.output: scores for s in proof.scores[:1]}
    answer = {name: fields.get(name) for name in ("tokens", EMBEDDINGS, POOLED)}
    answer |= {f"layer {number}": vectors for number, vectors in enumerate(layers, 1)}
    answer |= {stage.name: by_head.get(stage.output) for stage in proof.scores}
    return {name: value for name, value in answer.items() if value is not None}
