"""The tokenizer of a run as C source and its tables, from its tokenizer.json."""

import base64
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer

from bertc.lab.c import unicode
from bertc.lab.c.patterns import alternatives, refusal

TEXTS = Path(__file__).with_name("tokenizing")
STEPS = tomllib.loads((TEXTS / "steps.toml").read_text("utf-8"))
MAGIC = 0x31746B62
Setting = Mapping[str, Any]


def tokenizer_parts(
    tokenizer_json: str, cut_left: bool = False, said: Callable[[int], str] | None = None
) -> tuple[str, bytes]:
    """C source and data of a tokenizer.json; ``cut_left``: long texts lose their begin.

    ``said`` has the text of a token as an answer, if it is not as it is spelled.

    Raises:
        DataError: if it has something that has no C source; names it.
    """
    tokenizer, parts = Tokenizer.from_str(tokenizer_json), _Parts()
    tokenizer.no_padding()
    tokenizer.no_truncation()
    written = json.loads(tokenizer.to_str())
    size = 1 + max(tokenizer.get_vocab().values(), default=-1)
    file, settings = parts.model(written["model"], tokenizer.get_vocab(False), size)
    normal = parts.normalise(_flat(written["normalizer"], "normalizers"))
    splits = [parts.calls(step) for step in _flat(written["pre_tokenizer"], "pretokenizers")]
    parts.tokens(tokenizer, written["added_tokens"])
    parts.texts(map(said or tokenizer.id_to_token, range(size)))
    if len(parts.classes) > 32:
        raise refusal(f"{len(parts.classes)} classes of characters in its patterns, more than 32")
    classes = sum(numbers << np.uint32(bit) for bit, numbers in enumerate(parts.classes.values()))
    parts.table("CLASSES", np.asarray(classes, np.uint32))
    settings |= {name: n for n, name in enumerate(parts.classes) if name[0].isupper()}
    settings |= {"VOCABULARY": size, "CUT_LEFT": cut_left, "MAGIC": MAGIC}
    settings["MOST_ITEMS"] = parts.most_items
    calls = {"normalise": normal, "split": sum(splits, [])}
    lines = {n: [f"    if (!failed) failed = {c};\n" for c in made] for n, made in calls.items()}
    used = ["patterns"] * bool(parts.patterns) + ["fallback"] * (file in ("unigram", "byte_pairs"))
    used += [path.stem for path in sorted(TEXTS.glob("*.c")) if f"{path.stem}(" in str(calls)]
    files = [TEXTS / f"{name}.c" for name in ("data", "text", *used, "steps", file, "row")]
    return Template("\n".join(path.read_text("utf-8") for path in files)).substitute(
        {name: "".join(made) for name, made in lines.items()},
        sections=",\n    ".join(parts.sections), checks=" &&\n           ".join(parts.checks),
        settings="".join(f"    {name} = {value:d},\n" for name, value in settings.items()),
        patterns="\n".join(parts.patterns), single=_row(tokenizer.encode("a")),
        inside=_quoted(written["model"].get("continuing_subword_prefix") or ""),
        pair=_row(tokenizer.encode("a", "b")),
    ), parts.data()  # fmt: skip


class _Parts:
    """Sections of data, what has to be true of them, and classes and patterns for C."""

    def __init__(self) -> None:
        self.sections, self.checks, self.patterns = dict[str, bytes](), list[str](), list[str]()
        named = STEPS["classes"].items()
        self.classes, self.most_items = {n: unicode.removed("Split", p) for n, p in named}, 1

    def numbers(self, name: str, numbers: Iterable[float], kind: str = "<u4") -> None:
        self.sections[name] = np.array([*numbers]).astype(kind).tobytes()
        self.checks += [check] if (check := STEPS["checks"].get(name)) else []

    def data(self) -> bytes:
        header, body = [MAGIC], bytearray(4 + 8 * len(self.sections))
        for content in self.sections.values():
            body += bytes(-len(body) % 8)
            header += [len(body), len(content)]
            body += content
        return np.array(header).astype("<u4").tobytes() + bytes(body[4 * len(header) :])

    def table(self, name: str, numbers: unicode.Numbers, texts: bytes | None = None) -> None:
        blocks = numbers.reshape(-1, unicode.BLOCK)
        blocks, places = np.unique(blocks, axis=0, return_inverse=True)
        self.numbers(name, places.ravel())
        self.numbers(f"{name}_BLOCKS", blocks.ravel())
        self.sections |= {} if texts is None else {f"{name}_TEXTS": texts}
        self.checks.append(f"is_{'table' if texts is None else 'map'}({name})")

    def trie(self, name: str, entries: Mapping[bytes, int], values: str) -> None:
        nodes = {key[:size] for key in [b"", *entries] for size in range(len(key) + 1)}
        ordered = sorted(nodes, key=lambda node: (len(node), node))
        children = Counter(node[:-1] for node in ordered[1:])
        self.numbers(name, 1 + np.cumsum([0, *(children[node] for node in ordered)]))
        self.sections[f"{name}_BYTES"] = bytes([0, *(node[-1] for node in ordered[1:])])
        self.numbers(f"{name}_VALUES", [entries.get(node, -1) for node in ordered], "<i4")
        self.checks.append(f"is_trie({name}, {values})")

    def what(self, atom: str) -> int:
        """A code point, or a class of characters as -1 - its number."""
        plain = atom.removeprefix("\\")
        if atom != "." and (len(atom) == 1 or (len(plain) == 1 and not plain.isalnum())):
            return ord(plain)
        if atom not in self.classes:
            by_name = atom == STEPS["patterns"]["punctuation"]
            self.classes[atom] = unicode.removed("Punctuation" if by_name else "Split", atom)
        return -1 - [*self.classes].index(atom)

    def pattern(self, pattern: str) -> str:
        items = [[(k, self.what(a), *n) for k, a, *n in items] for items in alternatives(pattern)]
        self.most_items = max(self.most_items, *map(len, items))
        rows = ["".join(f"{{{k}, {w}, {a}u, {z}u}}, " for k, w, a, z in row) for row in items]
        text = "{OR, 0, 0, 0},\n    ".join(rows) + "{END, 0, 0, 0},"
        name = f"pattern_{len(self.patterns)}"
        self.patterns.append(f"static const struct item {name}[] = {{\n    {text}\n}};")
        return name

    def calls(self, step: Setting) -> list[str]:
        """The calls of a step."""
        kind, strips, scheme = map(step.get, ("type", "strip_accents", "prepend_scheme"))
        if kind not in STEPS["calls"] or scheme == "first":
            raise refusal(f"step {kind} as it is set")
        if kind == "Precompiled":
            raw = base64.b64decode(step["precompiled_charsmap"])
            texts = 4 + int.from_bytes(raw[:4], "little")
            self.numbers("CHARSMAP", np.frombuffer(raw[4:texts], "<u4"))
            self.sections["CHARSMAP_TEXTS"] = raw[texts:] + b"\0"
            self.classes |= unicode.grapheme_classes()
        here = {
            **{name: {"Regex": pattern} for name, pattern in STEPS["patterns"].items()}, **step,
            "sign": {"String": step.get("replacement")}, "leads": scheme == "always",
            "strips": step.get("lowercase") if strips is None else strips,
        }  # fmt: skip
        parted = [call.rpartition(": ") for call in STEPS["calls"][kind]]
        wanted = [call for when, _, call in parted if not when or here[when]]
        written = [re.sub(r"<(\w+)>", lambda name: here[name[1]], call) for call in wanted]
        return [re.sub(r"\{(\w+)\}", lambda name: self.in_c(here[name[1]]), c) for c in written]

    def in_c(self, value: Any) -> str:
        """A setting as C has it: a pattern, a flag, or a text and its size."""
        if isinstance(value, dict):
            return self.pattern(value.get("Regex") or re.escape(value["String"]))
        return (
            f"{value:d}" if isinstance(value, bool) else f"{_quoted(value)}, {len(value.encode())}"
        )

    def normalise(self, steps: list[Setting]) -> list[str]:
        """The calls of a normaliser; neighbours that read characters alone become one table."""
        calls, waiting = list[str](), list[Setting]()
        for step in [*steps, {"type": ""}]:
            made = self.calls(step) if step["type"] else []
            if step["type"] in STEPS["letterwise"]:  # to compose is to take apart first
                waiting.append({**step, "type": step["type"].replace("C", "D")})
            if waiting and (made or step["type"] not in STEPS["letterwise"]):
                self.table(f"MAP_{len(calls)}", *unicode.rewritten(unicode.normaliser(*waiting)))
                calls, waiting = [*calls, f"map_characters(t, MAP_{len(calls)})"], []
            calls += made
        if any("order_marks" in call for call in calls):
            self.table("ORDERS", unicode.orders())
            self.numbers("PAIRS", unicode.pairs() if "order_marks(t, 1)" in calls else [])
        return calls

    def model(self, model: Setting, ids: dict[str, int], size: int) -> tuple[str, dict[str, int]]:
        """The file of a model, and its settings."""
        kind, unknown = model["type"], model.get("unk_id", ids.get(model.get("unk_token") or ""))
        unread = ["dropout", "end_of_word_suffix", *["continuing_subword_prefix"] * (kind == "BPE")]
        if any(model.get(name) for name in unread) or (unknown is None and kind != "BPE"):
            raise refusal(f"model {kind} as it is set")
        self.trie("WORDS", {token.encode(): number for token, number in ids.items()}, "VOCABULARY")
        codes = [f"<0x{byte:02X}>" * model.get("byte_fallback", False) for byte in range(256)]
        self.numbers("BYTE_IDS", [ids.get(code, size) if code else size for code in codes])
        if kind == "Unigram":
            scores = [score for _, score in model["vocab"]]
            self.numbers("SCORES", [*scores, *[0] * (size - len(scores)), min(scores) - 10], "<f8")
        if kind == "BPE":
            pairs = {(ids[a], ids[b]): (n, ids[a + b]) for n, (a, b) in enumerate(model["merges"])}
            self.numbers("MERGES", [number for pair in sorted(pairs) for number in pair])
            self.numbers("MERGED", [pairs[pair][1] for pair in sorted(pairs)])
            self.numbers("RANKS", [pairs[pair][0] for pair in sorted(pairs)])
        settings = {name: model.get(setting, 0) for name, setting in STEPS["settings"].items()}
        return STEPS["files"][kind], {"UNKNOWN": -1 if unknown is None else unknown, **settings}

    def tokens(self, tokenizer: Tokenizer, added: list[Setting]) -> None:
        """Add tries of added tokens, as written and as normalised."""
        tries = dict[bytes, int](), dict[bytes, int]()
        for number, token in enumerate(added):
            text, normal = token["content"], token["normalized"] and tokenizer.normalizer
            content = normal.normalize_str(text) if normal else text
            tries[token["normalized"]].update({content.encode(): number} if content else {})
        self.trie("ADDED_RAW", tries[0], "(uint32_t)count(ADDED)")
        self.trie("ADDED_NORMAL", tries[1], "(uint32_t)count(ADDED)")
        flags = ("single_word", "lstrip", "rstrip")
        self.numbers("ADDED", [token["id"] for token in added])
        self.numbers("ADDED_HOW", [sum(t[f] << bit for bit, f in enumerate(flags)) for t in added])

    def texts(self, tokens: Iterable[str | None]) -> None:
        """Add the texts of tokens as answers."""
        texts = [f"{token or ''}\0".encode() for token in tokens]
        self.numbers("TOKEN_STARTS", np.cumsum([0, *map(len, texts)])[:-1])
        self.sections["TOKEN_TEXTS"] = b"".join(texts)


def _quoted(text: str) -> str:
    return '"' + "".join(f"\\{byte:03o}" for byte in text.encode()) + '"'


def _flat(step: Setting | None, inner: str) -> list[Setting]:
    if step is None:
        return []
    return [s for part in step[inner] for s in _flat(part, inner)] if inner in step else [step]


def _row(encoding: Encoding) -> str:
    """Ids and segments of a row; its first text is -1, its second -2."""
    of = zip(encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True)
    rows = [(i if n is None else -1 - n, segment) for i, segment, n in of]
    runs = [(row, [*run] if row[0] >= 0 else [row]) for row, run in groupby(rows)]
    return ", ".join(f"{i}, {segment}" for _, run in runs for i, segment in run)
