"""``bertc build RUN -o model.c``: a program in C, and the file of its weights."""

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import sympy
import torch
from torch._dynamo.exc import UserError
from torch.export import Dim, ExportedProgram

from bertc import DataError, Trained, load
from bertc.lab.c.expressions import INSTEAD, N, Value, c_text, literal
from bertc.lab.c.int8 import int8_bytes
from bertc.lab.c.kernels import KERNELS
from bertc.lab.c.layers import Function
from bertc.lab.c.tokenizer import tokenizer_parts
from bertc.lab.c.writing import PANEL, Statement, Tag, Writer, name_of
from bertc.lab.onnx.tracing import quiet, random_inputs
from bertc.lab_api import Graph, divide_by_temperatures, fit_of_head, units

TRACED = 6
"""Tokens of the row that is traced."""
MAGIC = b"bertc C\n"
HEADER = 64
"""Bytes before the tensors of a weights file: magic, digest, and sizes."""
BUILD = "cc -O3 -march=native model.c -lm; with -fopenmp on all cores"
READ = {"input_ids": "(model)->ids", "token_type_ids": "(model)->segments"}
MOST_INSIDE = 32 << 20
"""Bytes of weights in a program, for which compilers need forty times as much memory."""
MOST = 1 << 20
"""Token ids of a row, where positions set no limit."""
LONGEST_TEXT, LONGEST_ROW = 1 << 14, 1 << 11
"""Tokens of a text that is embedded, and of one with masks, as in bertc, without that limit."""
NO_IDS = {"MASK": -1, "FIRST": -1, "LAST": -1, "SPELLED_MASK": '""'}
ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def trace(graph: Graph) -> ExportedProgram:
    """The operations of a graph for one row of any length."""
    room = graph.model.encoder.node.room
    inputs = random_inputs(graph, 1, min(TRACED, room or TRACED))
    shapes = dict.fromkeys(inputs, {1: Dim("length", max=room)})
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(graph, (), kwargs=inputs, dynamic_shapes=shapes)
    except UserError as error:
        message = "C has no word for layers that read token by token, as those of bilstm"
        raise DataError(message, INSTEAD) from error


def write(graph: Graph, int8: bool = False) -> tuple[Function, Writer]:
    """The function of a network, which gives every result as soon as it is computed."""
    traced, body = trace(graph), graph.model.encoder.node
    signature = traced.graph_signature
    homes = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    homes |= signature.inputs_to_lifted_tensor_constants
    state = {**traced.state_dict, **traced.constants}
    known = {name: state[home].data.contiguous() for name, home in homes.items()}
    names = {known[n].data_ptr(): name_of(home, "") for n, home in homes.items()}
    letters = {N: "s", sympy.Integer(body.hidden): "h"}
    writer = Writer(KERNELS, letters, set(), names, values=known, int8=int8)
    nodes = [node for node in traced.graph.nodes if node.op == "call_function"]
    at = {"linear.default": 1, **({"embedding.default": 0} if int8 else {})}
    matrices = [n.args[at[n.target.__name__]] for n in nodes if n.target.__name__ in at]
    casts = (m for m in matrices if getattr(m.target, "__name__", "") == "to.dtype")
    matrices += [node.args[0] for node in casts]
    writer.packed |= {known[m.name].data_ptr() for m in matrices if m.name in known}
    for name in graph.inputs:
        read = lambda address, name=name: f"(long){name}[{c_text(address)}]"  # noqa: E731
        row = (sympy.Integer(1), N), (N, sympy.Integer(1))
        alike = {"attention_mask": 1, "language_ids": len(body.languages)}.get(name)
        writer.values[name] = Value(*row, torch.int64, read, early=False, constant=alike)
    for node in nodes:
        writer.read(node)
    output = next(node.args for node in traced.graph.nodes if node.op == "output")
    for number, node in enumerate(output[0]):
        _give(writer, number, writer.value(writer.values[node.name]))
    return Function(writer.early, writer.late, writer.tags), writer


def _give(writer: Writer, number: int, value: Value) -> None:
    """Give a result behind the statement that writes it last."""
    writer.name = f"result_{number}"
    (pointer, count), shape = writer.rows(value), value.shape
    buffer = re.search(r"\$b\d+\$", pointer)
    assert buffer, "results are computed"
    last = max(n for n, s in enumerate(writer.late) if s.writes == buffer[0])
    address, width = pointer.rpartition(", ")[0], c_text(shape[-1]) if shape else "1"
    line = f"receive(context, $r{number}$, {address}, {count}, {width});"
    writer.late.insert(last + 1, Statement(line, writer.late[last].about))


def packed(tag: Tag) -> bytes:
    """The numbers of a weight in the order of the file."""
    assert tag.tensor is not None, "it is a weight"
    if tag.int8:
        return int8_bytes(tag.tensor)
    width = tag.tensor.shape[-1] if tag.packed else 1
    rows = tag.tensor if tag.packed else tag.tensor.as_strided((tag.tensor.numel(), 1), (1, 1))
    panels = torch.nn.functional.pad(rows.detach().float(), (0, 0, 0, -len(rows) % PANEL))
    return panels.reshape(-1, PANEL, width).swapaxes(1, 2).numpy().astype("<f4").tobytes()


def digest(content: bytes) -> int:
    """A hash of 64 bits: a sum of words, each mixed with its place by splitmix64's last steps."""
    words = np.frombuffer(content + bytes(-len(content) % 8), "<u8")
    of_place, *factors = map(np.uint64, ODD)
    with np.errstate(over="ignore"):
        mixed = words ^ (np.arange(1, len(words) + 1, dtype=np.uint64) * of_place)
        for shift, factor in zip(map(np.uint64, (30, 27)), factors, strict=True):
            mixed = (mixed ^ (mixed >> shift)) * factor
        return int((mixed ^ (mixed >> np.uint64(31))).sum(dtype=np.uint64))


def chosen(library: str, text: str) -> str:
    """The parts of a library that a text needs, which are apart by two blank lines."""
    parts, words = library.strip().split("\n\n\n"), {*re.findall(r"\w+", text)}
    define = re.compile(r"^(?:static [^\n(;]*?(\w+)\(|#define (\w+)\()", re.MULTILINE)
    names = [{name for pair in define.findall(part) for name in pair if name} for part in parts]
    needed = [{*re.findall(r"\w+", part)} for part in parts]
    taken = {number for number, defined in enumerate(names) if not defined}
    for _ in parts:
        words = words.union(*(needed[number] for number in taken))
        taken |= {number for number, defined in enumerate(names) if defined & words}
    return "\n\n".join(part for number, part in enumerate(parts) if number in taken)


def c_files(run: Path, out: Path, int8: bool = False, embed: bool = False) -> dict[Path, bytes]:
    """The program of a run, a header, and its weights, which ``embed`` has in the program."""
    model = load(run)
    graph, tasks = model.graph(layers=True), model.resolved.stages[-1].tasks
    least = fit_of_head(run, model, tasks[0].title).thresholds if tasks else ()
    model.load_state_dict(divide_by_temperatures(run, model.resolved, model.state_dict())[0])
    if len(tasks) > sum(head in tasks for head in graph.heads):
        model.graph()  # says why
    weights, header = out.with_suffix(".weights"), _library("model.h").encode()
    known = model.tokenizer.vocabulary
    spelled = _quoted(known.token(known.mask))
    ids = {"MASK": known.mask, "FIRST": known.cls, "LAST": known.sep, "SPELLED_MASK": spelled}
    parts = _tokenizer(model), ids, least, int8
    text, content = c_program(graph, "" if embed else weights.name, *parts)
    if len(content) > MOST_INSIDE and embed:
        size, most = map(units.bytes_text, (len(content), MOST_INSIDE))
        message = f"the weights have {size}, and a program has room for {most}"
        raise DataError(message, "leave --embed out" + ", or add --int8" * (not int8))
    files = {} if embed else {weights: content}
    return {**files, out.with_suffix(".h"): header, out: text.encode()}


def _tokenizer(model: Trained) -> tuple[str, bytes]:
    """The tokenizer of a run in C, and its tables."""
    with TemporaryDirectory() as folder:
        model.save_tokenizer(Path(folder, "saved"), {})
        names = ("tokenizer.json", "tokenizer_config.json")
        written, config = (Path(folder, "saved", n).read_text("utf-8") for n in names)
    left = json.loads(config).get("truncation_side") == "left"
    return tokenizer_parts(written, left, model.tokenizer.vocabulary.plain)


def c_program(
    graph: Graph, name: str, tokenizer: tuple[str, bytes], ids: Mapping[str, object] = NO_IDS,
    least: Sequence[float] = (), int8: bool = False,
) -> tuple[str, bytes]:  # fmt: skip
    """The program of a graph with all layers, and its weights file, which is in it without a name.

    ``ids`` are of special tokens; ``least`` are probabilities of several labels.
    """
    function, writer = write(graph, int8)
    states = len(graph.layers) + graph.states
    groups = [0] * states + [*range(1, len(graph.outputs) - states + 1)]
    tensors = b"".join(packed(tag) for key, tag in writer.tags.items() if key[1] == "w")
    content = tensors + tokenizer[1] + bytes(-len(tokenizer[1]) % 8)
    total, hashed = HEADER + len(content), digest(content)
    header = MAGIC + hashed.to_bytes(8, "little") + total.to_bytes(8, "little")
    body, inputs = graph.model.encoder.node, [n for n in graph.inputs if n in READ]
    answer, labels = _answer(graph, states, least)
    values = {
        "HEADER": HEADER, "INSIDE": int(not name), "DIGEST": f"UINT64_C({hashed:#x})",
        "FILE_BYTES": f"UINT64_C({total})", "TENSORS_END": HEADER + len(tensors), "TOP": 5,
        "WEIGHTS": _quoted(name), "LONGEST": body.room or MOST, "TOKENS": body.vocab_size,
        "RESULTS": len(graph.outputs), "SEGMENTS": max(1, body.kinds_of_segments), **ids,
        "TOKENIZES": int(bool(tokenizer[1])), "INPUTS(model)": ", ".join(READ[n] for n in inputs),
        **answer,
    }  # fmt: skip
    tables = {
        "char *const NAMES[RESULTS]": [_quoted(output.name) for output in graph.outputs],
        "int AXES[RESULTS]": [str(len(output.axes)) for output in graph.outputs],
        "int GROUPS[RESULTS]": [*map(str, groups)],
        "char *const LABELS[]": [*map(_quoted, labels)] or ["NULL"],
    }
    content = header + bytes(HEADER - 24) + content
    if not name:
        words = (f"\n{word:#x}" for word in np.frombuffer(content, "<u8"))
        tables["uint64_t CONTENT[FILE_BYTES / 8]"] = [*words]
    network = "\n".join([*function.memory(), "", *function.text(inputs, groups)])
    main = f"{_library('program.c')}\n\n\n{_library('main.c')}"
    parts = [
        f"/* {re.sub('[^ -)+-~]', '?', graph.model.resolved.name)}: {BUILD} */",
        _library("begin.c"), _library("model.h"),
        "\n".join(f"#define {name} {value}" for name, value in values.items()),
        "\n".join(f"static const {n} = {{{', '.join(v)}}};" for n, v in tables.items()),
        chosen(_library("kernels.c"), network + main), network, tokenizer[0], main,
    ]  # fmt: skip
    return "\n\n".join(part.strip() for part in parts) + "\n", content


def _answer(
    graph: Graph, states: int, least: Sequence[float]
) -> tuple[dict[str, object], Sequence[str]]:
    """The answer to a text and labels: of the first task, else masked tokens, else a vector."""
    heads, outputs = graph.heads, graph.outputs[states:]
    stage = graph.model.resolved.stages[-1]
    vectors = [o.name for o in outputs if o.axes == ("batch", "hidden")]
    roles = ["pv"[o.name in vectors[:-1]] if o.name in vectors else "s" for o in outputs]
    place, causal = len(graph.outputs) - (len(heads) or len(outputs) + 1), stage.encoder.causal
    kind = ("c" if causal else "f") if heads else "v"
    read, labels = stage.seq, graph.outputs[place].labels
    task = next(iter(stage.tasks), None)
    if task:
        plain = not (getattr(task.answer, "names", ()) or getattr(task.answer, "logistic", False))
        ways = {"labels": "l", "several": "m", "score": "rs"[plain], "tags": "t"}
        ways["vector"] = {"hidden": "v", "token": "i"}.get(graph.outputs[place].axes[-1], "n")
        kind = ways.get(task.answer.kind, "n")
    if not task or kind in "vi":  # a text is not a row of training
        most = stage.encoder.room or (LONGEST_TEXT if kind in "vi" else LONGEST_ROW)
        usual = most if stage.encoder.room or not task else read
        read = min(most, getattr(task, "longest", 0) or usual)
    limits = (literal(limit, floats=True) for limit in least or [0.5] * max(1, len(labels)))
    return {
        "ANSWER": place, "KIND": f"'{kind}'", "ROLES": _quoted("t" * states + "".join(roles)),
        "UNIT": int(getattr(task, "normalise", False)), "READS": read,
        "PROMPT": _quoted(getattr(task, "prompt", "")), "LETTERS": int(getattr(task, "letters", 0)),
        "STRIDE": getattr(task, "stride", 0) * (kind in "lmrst"),
        "RUNNING": int(stage.format.kind == "stream"),
        "LEAST": f"((const float[]){{{', '.join(limits)}}})",
    }, labels  # fmt: skip


def _quoted(text: str) -> str:
    """A string of C, whose letters beyond ASCII are octal bytes."""
    letters = (chr(b) if 31 < b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{"".join(letters)}"'


def _library(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
