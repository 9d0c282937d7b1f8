"""Every program is what it was: settings, weights, names in other systems' folders, what it costs.
A golden that differs on purpose is renewed by name, `python -m tests.net.goldens NAME`, and the
commit that does so says why. The names are those of the files in ``goldens/``: `compiled` for
programs, weight tables and Hugging Face folders; `parameters_and_flops`; `memory_and_time`, which
is apart because better estimates change it; `steps` for what tiny runs saw and learned.
"""

import contextlib
import re

import pytest

from bertc.ir.program.resolved import Resolved
from tests.kinds import UNIONS, kinds_of
from tests.net import compiled, goldens
from tests.net.programs import FARM, PROGRAMS, spec

UNTRIED = {
    *(("vocabulary", kind) for kind in ("extend", "trim", "characters", "kmers", "listed")),
    # tests/run/test_other_tokens.py
    *(("embeddings", kind) for kind in UNIONS["embeddings"]),
    ("corpus", "hf"),  # needs a network
    ("corpus", "prepared"), ("corpus", "fasta"),  # tests/text: test_prepared, test_sequences
    ("source", "run"), ("source", "none"),  # a teacher's folder; a stage without any says nothing
    ("prune", "none"), ("features", "last"),  # what is usual is left out of the JSON
    ("residual", "plain"), ("optimizer", "own"), ("schedule", "own"),  # both: test_own.py
    *((part, "own") for part in ("ffn", "attention", "residual", "objective", "unit")),  # its test
    ("init", "run"), ("init", "layers"), ("init", "embeddings"), ("grow", "generator"),
    ("vocabulary", "tokenizer"),  # begin with older runs
    ("positions", "bucketed"), ("positions", "own"),  # tests/model/test_positions.py, test_own.py
    ("optimizer", "muon"),  # bf16 sums differ between machines: tests/run/test_optimizers.py
    *(("scaled", kind) for kind in UNIONS["scaled"]),  # tests/hub/test_decoders.py
    ("average", "none"), ("average", "ema"),  # tests/run/test_average.py
    ("adapt", "none"),  # is left out too
    ("grow", "turned"),  # tests/run/test_two_directions.py
    ("negatives", "column"), ("negatives", "mined"),  # tests/text/test_copies.py
    ("init", "vectors"),  # begins with another file: tests/model/test_bilstm.py
    ("loss", "plain"), ("loss", "balanced"), ("loss", "weights"), ("loss", "focal"),  # kinds.py
    ("copies", "none"), ("copies", "edit"), ("copies", "replace"),  # tests/run/test_copies.py
    ("copies", "reverse_complement"),  # tests/text/test_sequences.py
}  # fmt: skip


@pytest.fixture(scope="module")
def programs():
    with contextlib.chdir(FARM):
        yield compiled.compiled()


@pytest.fixture(scope="module")
def figures(programs):
    return compiled.figures(programs)


def test_programs_weights_and_folders_are_what_they_were(programs):
    golden = goldens.read("compiled.json.xz")
    assert list(programs) == list(golden)
    changed = [
        (name, what, now)
        for name, resolved in programs.items()
        for what, now in compiled.texts(resolved).items()
        if now != golden[name][what]
    ]
    changes = (f"{n}, {w}:\n{goldens.difference(golden[n][w], now)}" for n, w, now in changed[:3])
    assert not changed, f"{len(changed)} texts differ\n\n" + "\n\n".join(changes)


@pytest.mark.parametrize(("at", "name"), list(enumerate(compiled.FIGURES)))
def test_figures_are_what_they_were(figures, at, name):
    golden = goldens.read(f"{name}.json")
    assert figures[at].keys() == golden.keys()
    assert not {n: (golden[n], now) for n, now in figures[at].items() if now != golden[n]}


def occurring(value, field=""):
    """Every (field, kind) in a dumped program."""
    if isinstance(value, list):
        return {pair for each in value for pair in occurring(each, field)}
    if not isinstance(value, dict):
        return {(field, value)} if field == "activation" else set()
    own = {(field, value["kind"])} if "kind" in value else set()
    return own.union(*(occurring(inner, name) for name, inner in value.items()))


def test_every_kind_occurs_in_a_tiny_program(programs):
    needed = kinds_of(Resolved)
    dumped = [programs[name].model_dump(mode="json") for name in PROGRAMS]
    found = {pair for program in dumped for pair in occurring(program)}
    # Shared weights are numbers in a resolved program, and corpora of their own in shipped ones.
    written = {m for name in PROGRAMS for m in re.findall(r"share=([a-z-]+)", spec(name))}
    assert UNIONS["share"] == written | {"none"}
    assert needed - found - UNTRIED - {("corpus", "docstrings")} == set()
