"""Every shipped table: its rows compile at each scale, and say what the paper printed."""

from pathlib import Path
from string import Template

import pytest

from bertc.cost.units import count_text
from bertc.ir.program.resolved import model_weights
from bertc.lab.reproduce.files import data_files
from bertc.lab.reproduce.programs import Jobs, shrunk
from bertc.lab.reproduce.reading import read_table, shipped_tables
from bertc.lab.reproduce.results import RowResult, TableResults
from bertc.lab.reproduce.showing import Shown

TOLERANCE = 0.03
"""Between printed and counted parameters; where they differ by more, the remark says why."""


def _texts(table):
    """All specs and settings of a table, in which names stand for files and runs."""
    yield from (each.spec for each in (table, *table.rows, *table.measures, *table.before))
    yield from (text for row in table.rows for text in (*row.at.values(), *row.tasks.values()))
    yield from (str(value) for measure in table.measures for value in measure.eval.values())
    yield from (need.otherwise for need in table.needs.values())


@pytest.mark.parametrize("name", shipped_tables())
def test_names_in_specs_are_those_of_needs_and_runs(name):
    table = read_table(name)
    named = {found for text in _texts(table) for found in Template(text).get_identifiers()}
    assert {*table.needs} <= named, "each need is one of a spec"
    for text in _texts(table):
        assert "files(" not in text, "needs lists the files"


@pytest.mark.parametrize("scale", ["full", "base", "small", "tiny"])
@pytest.mark.parametrize("name", shipped_tables())
def test_rows_compile_and_differ(name, scale):
    table = read_table(name)
    compiled = table.rows[-1:] if scale == "base" else table.rows  # widths are those of full
    firsts = Jobs(table, scale, data_files(table), Path("runs"), sketched=True).firsts()
    lacking = {name for name, first in firsts.items() if first.lacks}  # files
    programs = {r.name: firsts[r.name].program() for r in compiled if r.name not in lacking}
    rows = [table.row(name) for name in programs]
    ideas = {f"{programs[row.name].model_dump_json()} {dict(row.tasks)}" for row in rows}
    assert len(ideas) == len(rows), "a scale leaves the rows' ideas apart"
    if scale == "full":
        for row in table.rows:
            if row.name in programs and (printed := row.published.get("parameters")):
                counted = sum(weight.numel for weight in model_weights(programs[row.name]))
                both = f"{count_text(counted)} counted, {count_text(printed)} printed"
                if abs(counted - printed) > TOLERANCE * printed:
                    assert "parameters" in table.remark.lower(), f"{both}: say why in the remark"


SMALL = Path(__file__).with_name("small.toml").read_text()


def _table(folder, text):
    path = folder / "small.toml"
    path.write_text(text)
    return read_table(str(path))


def test_rows_shrink_by_the_ratio_of_the_scale_to_the_spec_of_all_and_are_never_enlarged(tmp_path):
    table = _table(tmp_path, SMALL)
    found = [job.program() for job in Jobs(table, "tiny", data_files(table), tmp_path).all([1])]
    assert [program.steps for program in found] == [1000, 200, 400, 200]
    stages = [program.stages[-1] for program in found]
    assert [stage.layers for stage in stages] == [3, 3, 2, 3]
    assert [stage.encoder.hidden for stage in stages] == [128, 128, 128, 256]
    assert {(stage.batch, stage.seq) for stage in stages} == {(16, 128)}


UNTOUCHED = "dropout=0.1 optimizer=adamw(1e-3, steps=4) data='steps=4 ' seq=20%"


@pytest.mark.parametrize(("text", "shorter"), [
    ("H=768 E=384 layers=2", "H=128 E=64 layers=1"),
    ("hidden=10 batch=2Ki steps=1M", "hidden=8 batch=1024 steps=500000"),
    *[(text, text) for text in ("dropout=0.1 optimizer=adamw(1e-3, steps=4)", "data='steps=4 '")],
    ("seq=20%", "seq=20%"),
])  # fmt: skip
def test_numbers_of_settings_shrink_but_for_those_inside_of_values(text, shorter):
    by = {"widths": 1 / 6, "layers": 0.5, "seq": 0.5, "batch": 0.5, "steps": 0.5}
    assert shrunk(text, by) == shorter


def test_evaluations_shrink_with_the_length_of_rows_and_base_takes_a_share_of_the_steps(tmp_path):
    text = SMALL.replace('score = "mlm"', 'score = "mlm", eval = { seq = 512 }')
    table = _table(tmp_path, text.replace("hidden=64 batch=8", "hidden=64 seq=512 steps=800"))
    jobs = Jobs(table, "tiny", data_files(table), tmp_path)
    assert {dict(job.eval)["seq"] for job in jobs.all([1]) if job.eval} == {128}
    base = Jobs(table, "base", data_files(table), tmp_path).firsts()
    assert [job.program().steps for job in base.values()] == [25, 50, 25]
    of_all = text.replace("batch=8", "steps=800").replace("steps=200", "").replace("steps=400", "")
    table = _table(tmp_path, of_all)
    base = Jobs(table, "base", data_files(table), tmp_path).firsts()
    assert [job.program().steps for job in base.values()] == [100, 100, 100]


def test_a_scale_arranges_all_rows_but_for_what_they_set(tmp_path):
    arrangement = 'arrangement = "positions=rotary layers=3 norm=pre"'
    table = _table(tmp_path, f"{SMALL}\n[scales.tiny]\n{arrangement}\n")
    jobs = Jobs(table, "tiny", data_files(table), tmp_path)
    programs = {job.row: job.program() for job in jobs.all([1])}
    encoders = {row: program.encoder.settings() for row, program in programs.items()}
    assert {str(each["positions"].kind) for each in encoders.values()} == {"rotary"}
    assert {str(each["norm"].kind) for each in encoders.values()} == {"pre"}
    layers = {row: each["layers"] for row, each in encoders.items()}
    assert layers == {"": 3, "short": 3, "long": 2, "wide": 3}
    assert programs["short"].steps == 200, "the usual settings of the scale are there too"
    row = RowResult("short", {"loss": {1: 2.0}}, None, None, 1.0)
    older = Shown(table, TableResults("small", "tiny", (row,), 4, 3)).as_text()
    assert "all rows at this scale: positions=rotary layers=3 norm=pre" in older
    assert "the runs above had the arrangement of the paper" in older
    assert "loss: of all predicted positions" in older
    had = table.scales["tiny"].arrangement
    results = TableResults("small", "tiny", (row,), 4, 3, masked=("loss",), arrangement=had)
    now = Shown(table, results).as_text()
    assert "loss: of masked positions" in now
    assert "the runs above" not in now
