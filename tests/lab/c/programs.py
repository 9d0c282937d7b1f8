"""Graphs as programs in C, compiled, and compared with bertc."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from bertc.lab.c.building import c_program
from bertc.lab.onnx.tracing import random_inputs
from bertc.model import build
from bertc.use.graph import Graph, graph_of
from tests.hub.programs import tensors

STRICT = "-std=c99 -Wall -Wextra -Wconversion -Werror -O1"
CHECKED = f"{STRICT} -fsanitize=address,undefined -fno-sanitize-recover=all"
LENGTHS = (1, 2, 7, 17)
NO_TOKENIZER = """
static int tokenizer_open(const unsigned char *data, size_t bytes) {
    return data && bytes ? DAMAGED : 0;
}
static long tokenizer_row(const char *text, size_t bytes, const char *pair, size_t pair_bytes,
                          int32_t *ids, int32_t *segments, long most, long stride, long *skipped) {
    (void)text, (void)bytes, (void)pair, (void)pair_bytes, (void)ids, (void)segments, (void)most;
    return (void)stride, (void)skipped, -NOT_A_REQUEST;
}
static int is_utf8(const unsigned char *text, size_t size) { return !size || *text < 128; }
static const char *tokenizer_token(int32_t id) { return id < 0 ? "" : NULL; }
"""


def small_graph(resolved) -> Graph:
    """The graph of a program with all its layers, and random weights."""
    merged = resolved.merged
    model = build(merged)
    model.load_state_dict(tensors(merged))
    return graph_of(model, layers=True)


def compiled(graph: Graph, folder: Path, flags: str = CHECKED, **how: bool) -> Path:
    """The program of a graph."""
    folder.mkdir()
    text, weights = c_program(graph, "model.weights", (NO_TOKENIZER, b""), **how)
    (folder / "model.c").write_text(text)
    (folder / "model.weights").write_bytes(weights)
    subprocess.run(["gcc", *flags.split(), "model.c", "-o", "model", "-lm"], check=True, cwd=folder)
    return folder / "model"


def answered(program: Path, *lines: str, mode: str = "--ids") -> tuple[int, list[str], str]:
    """The exit code, the lines, and what is said of an error."""
    command = [str(program), *filter(None, [mode]), *map(str, program.parent.glob("*.weights"))]
    sent = "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")
    ran = subprocess.run(command, input=sent, capture_output=True)
    return ran.returncode, ran.stdout.decode().splitlines(), ran.stderr.decode()


def largest_difference(graph: Graph, program: Path, lengths: Sequence[int] = LENGTHS) -> float:
    """The largest to bertc in rows of some lengths, of values above 1 in proportion."""
    lines, expected, body = list[str](), list[list[np.ndarray]](), graph.model.encoder.node
    for tokens in lengths:
        inputs = random_inputs(graph, 1, tokens, seed=tokens)
        if "language_ids" in inputs:
            inputs["language_ids"].fill_(len(body.languages))
        with torch.no_grad():
            expected.append([result[0].numpy() for result in graph(**inputs)])
        rows = (inputs[n][0].tolist() for n in ("input_ids", "token_type_ids") if n in inputs)
        lines.append("\t".join(" ".join(map(str, row)) for row in rows))
    code, answers, said = answered(program, *lines)
    assert not code, said
    largest = 0.0
    for line, results in zip(answers, expected, strict=True):
        found = json.loads(line)
        assert [*found] == [output.name for output in graph.outputs]
        for values, wanted in zip(found.values(), results, strict=True):
            got = np.array(values, dtype=np.float64)
            assert got.shape == wanted.shape
            finite = np.isfinite(wanted)
            away = np.abs(np.where(finite, got - wanted, 0)).max()
            largest = max(largest, float(away / max(1, np.abs(wanted[finite]).max())))
    return largest
