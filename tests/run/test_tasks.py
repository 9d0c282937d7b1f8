"""Tasks from the file to the answer: learned, judged, resumed, chained, predicted."""

import csv
import json
import re
from statistics import fmean, stdev
from typing import get_args

import numpy as np
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import bertc
from bertc.base.diagnostics import DataError, MissingInputError, UsageError
from bertc.ir.learning.answer import Labels, NamedSpans, Several, Tags
from bertc.ir.learning.custom_task import AnyTask, Spans
from bertc.ir.learning.task import Task
from bertc.lab.results.evaluations import evaluate_runs
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.task_lookup import task_of
from bertc.run.train.loop import train
from bertc.tasks.layouts.parts import examples_of, read_examples
from bertc.tasks.layouts.table import DataPart
from bertc.tasks.metrics.metrics import judge
from bertc.use.card import export_with_card
from bertc.use.embed import export_static
from bertc.use.predict import predict_parts, write_answers
from bertc.use.preview import preview
from tests import predicted
from tests.net.programs import FARM, copied
from tests.predicted import predict
from tests.run.conftest import final_tensors, lines, weights

BIRDS, PLACES = ("hens", "ducks", "geese"), ("barn", "pond", "gate")
NETWORK = "layers=1 hidden=32 heads=2 dropout=0 vocab=wordpiece(120) precision=fp32 device=cpu "
NETWORK += "compile=off seq=24 batch=8 log_every=5 "
FAST = "optimizer=adam(lr=5e-3, warmup=2, bias_correction=true, schedule=polynomial) "


def sentences(part):
    """Texts of the farm, who sits there, and where."""
    rows = (FARM / f"birds.{part}.tsv").read_text().splitlines()[1:]
    return [(*row.split("\t"), row.split()[-2]) for row in rows]


@pytest.fixture
def farm(tmp_path, corpus_file):
    """Files of every kind of task about who sits where, and for each kind what names them."""
    copied(FARM, tmp_path)
    for part in ("train", "dev"):
        found = sentences(part)
        numbers = (f"{t}\t{BIRDS.index(b)}\t{PLACES.index(p) - 1}" for t, b, p in found)
        pairs = (f"{t}\t{of}\t{int(of == b)}" for t, b, _ in found for of in BIRDS)
        tables = {
            "both": ("text\ttopics", *(f"{t}\t{p}; {b}" for t, b, p in found)),
            "numbers": ("text\tx\ty", *numbers), "pairs": ("query\tpassage\tlabel", *pairs),
        }  # fmt: skip
        for name, rows in tables.items():
            (tmp_path / f"{name}.{part}.tsv").write_text("\n".join(rows) + "\n")
    at = tmp_path
    return {
        "glue": f"glue(rte, '{at}/RTE')", "sst2": f"glue(sst2, '{at}/SST-2')",
        "xnli": f"xnli('{at}/xnli')", "squad": f"squad('{at}', version=2)",
        "race": f"race('{at}/race')", "tagging": f"tagging('{at}/tags')",
        "classify": f"classify('{at}/birds.train.tsv', '{at}/birds.dev.tsv')",
        "several": f"classify('{at}/both.train.tsv', '{at}/both.dev.tsv', label=topics, "
        "labels=many(separator=';'))",
        "numbers": f"regress('{at}/numbers.train.tsv', '{at}/numbers.dev.tsv', label=[x, y])",
        "regress": f"regress('{at}/score.train.tsv', '{at}/score.dev.tsv')",
        "choose": f"choose('{at}/choose.train.tsv', '{at}/choose.dev.tsv', choices=['a','b','c'])",
        "tag": f"tag('{at}/tag.train.tsv', '{at}/tag.dev.tsv')",
        "spans": f"spans('{at}/tag.train.tsv', '{at}/tag.dev.tsv', units=32)",
        "read": f"read('{at}/read.train.tsv', '{at}/read.dev.tsv')",
        "embed": f"embed('{at}/birds.train.tsv', '{at}/birds.dev.tsv', positive=label)",
        "rerank": f"rerank('{at}/pairs.train.tsv', '{at}/pairs.dev.tsv')",
        "text": f"{NETWORK} data=files('{corpus_file}', sentences=lines) ",
    }  # fmt: skip


ANSWERED = {
    "glue": "text pair label probabilities", "xnli": "text pair label probabilities",
    "squad": "question answer null_odds best", "race": "question choices choice probabilities",
    "tagging": "words tags probabilities", "tag": "words tags_in_file tags probabilities",
    "spans": "words tags spans",
    "classify": "text label_in_file label probabilities", "numbers": "text x y scores",
    "several": "text topics labels probabilities", "regress": "text label score",
    "choose": "question a b c label choice probabilities", "embed": "text label similarity",
    "read": "context question answer_in_file start answer null_odds best",
    "rerank": "query passage label score",
}  # fmt: skip
"""Members of a row of ``bertc predict`` by task: columns of the file, then the answer."""
LEARNED = {
    "classify": "accuracy", "tag": "span_f1", "read": "em", "choose": "accuracy",
    "regress": "pearson",
}  # fmt: skip
"""What is learned well in 40 steps: a word of the text, or a choice wherever it stands."""
KINDS = [node.model_fields["kind"].default for node in get_args(get_args(AnyTask)[0])]


@pytest.mark.parametrize("kind", [*KINDS, "several", "numbers"])
def test_every_kind_is_learned_judged_and_predicted(go, farm, tmp_path, kind, cache):
    spec = f"{farm['text']}{FAST}task={farm[kind]} steps={40 if kind in LEARNED else 20}"
    report = go(spec)
    ((title, parts),) = report.evaluation.scores.items()
    for scores in parts.values():
        assert all(-1 <= value <= 1 for value in scores.values())
        assert kind not in LEARNED or scores[LEARNED[kind]] > 0.9
    first, *_ = lines(tmp_path / "run")
    assert report.evaluation.losses[title] < first["losses"][title]
    assert (title in report.evaluation.accuracy) == (kind not in ("regress", "numbers"))
    again = evaluate_run(tmp_path / "run", cache=cache, quiet=True)
    assert again.evaluation.scores == report.evaluation.scores
    alone = evaluate_run(tmp_path / "run", task=_alone(tmp_path, kind), quiet=True)
    scored = [*alone.evaluation.scores[title].values()]
    assert scored == [pytest.approx(found) for found in parts.values()]
    task = bertc.resolve(spec).stages[0].tasks[0]
    assert bool(again.evaluation.classes) == isinstance(
        task.answer, Labels | NamedSpans | Several | Tags
    )
    answered = predict(tmp_path / "run", _a_file(tmp_path, kind), device="cpu")
    rows = [json.loads(line) for line in predicted.lines(answered, _a_file(tmp_path, kind))]
    assert len(rows) == len(answered.examples) > 0
    assert rows[0].keys() == {"id", *ANSWERED[kind].split()}
    assert answered.task.title == task.title


def test_thresholds_and_temperatures_of_dev_are_those_of_predictions(go, farm, tmp_path, cache):
    report = go(f"{farm['text']}{FAST}task={farm['several']} steps=40")
    run, file = tmp_path / "run", _a_file(tmp_path, "several")
    before = predict(run, file, device="cpu")
    assert "thresholds of 0.5" in before.notes[0]
    seen = evaluate_run(run, cache=cache, quiet=True)
    assert seen.evaluation.scores == report.evaluation.scores, "as they are without a fit"
    notes = "\n".join(seen.details)
    assert re.search(r"dev: calibration error 0.\d+, 0.\d+ with the temperature .* here", notes)
    after = predict(run, file, device="cpu")
    assert "that bertc eval fitted on dev" in after.notes[0]
    texts = [text for text, *_ in sentences("dev")]
    labels = [row["labels"] for row in bertc.load(run).predict(texts)]
    assert labels == after.answers.given, "in memory too"
    scores = judge(after.task, read_examples(after.task, DataPart(file)), after.answers.given)
    assert f"micro_f1 {scores['micro_f1']:.4f}, macro_f1 {scores['macro_f1']:.4f}" in notes
    assert scores["macro_f1"] >= report.evaluation.scores["classify"]["dev"]["macro_f1"]
    assert "of dev" in "\n".join(evaluate_run(run, task=f"classify('{file}')", quiet=True).details)
    exported = export_with_card(run, tmp_path / "left")
    said = exported.summary(), (tmp_path / "left" / "README.md").read_text()
    assert [all(note in text for text in said) for note in exported.notes] == [True, True]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "left")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "left")
    batch = tokenizer(texts, padding=True, truncation=True, max_length=24, return_tensors="pt")
    parts = theirs(**batch).logits.sigmoid().detach().numpy()
    np.testing.assert_allclose(parts, after.answers.probabilities, atol=1e-5)
    stored = json.loads((run / "calibration.json").read_text())
    stored["classify"]["head"] = "of other weights"
    (run / "calibration.json").write_text(json.dumps(stored))
    stale, old = predict(run, file, device="cpu").answers, before.answers
    assert (stale.given, stale.probabilities) == (old.given, old.probabilities)


def test_a_run_without_a_dev_part_is_fitted_on_a_file_that_is_named_as_dev(go, farm, tmp_path):
    run, file = tmp_path / "run", _a_file(tmp_path, "several")
    task = re.sub(r" '[^']*dev.tsv',", "", farm["several"])
    go(f"{farm['text']}{FAST}task={task} steps=2")
    with pytest.raises(MissingInputError, match="no dev part") as refused:
        evaluate_run(run, quiet=True)
    assert "dev='FILE' in it as the dev part" in refused.value.help
    evaluate_run(run, task=f"classify('{file}', labels=many)", quiet=True)
    assert not (run / "calibration.json").exists()
    evaluate_run(run, task=f"classify(dev='{file}')", quiet=True)
    assert "that bertc eval fitted on dev" in predict(run, file).notes[0]


def test_answers_go_to_files_in_parts_with_columns_of_nested_rows(go, farm, tmp_path, monkeypatch):
    go(f"{farm['text']}{FAST}task={farm['several']} steps=4")
    nested = [{"doc": {"body": f"{t}\t", "n": 1}, "key": None} for t, _, _ in sentences("dev")]
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(map(json.dumps, nested)))
    asked = "classify(text='doc.body')"
    whole = predict(tmp_path / "run", file, asked, device="cpu")
    said = [json.loads(line) for line in predicted.lines(whole, file)]
    monkeypatch.setattr("bertc.use.predict.ROWS_OF_A_PART", 5)

    def write(name, source=file):
        parts = predict_parts(tmp_path / "run", source, asked, "cpu")
        assert write_answers(parts, source, tmp_path / name, print).startswith("classify: 12 rows")
        return tmp_path / name

    assert [json.loads(line) for line in write("a.jsonl").read_text().splitlines()] == said
    with write("a.csv").open(newline="") as opened:
        first, *_ = table = [*csv.DictReader(opened)]
    assert len(table) == 12
    assert (first["doc.body"], first["key"]) == (nested[0]["doc"]["body"], "")
    assert json.loads(first["labels"]) == said[0]["labels"]
    assert float(first["probabilities.hens"]) == said[0]["probabilities"]["hens"]
    rows = [line.split("\t") for line in write("a.tsv").read_text().splitlines()]
    assert {len(row) for row in rows} == {len(rows[0])}
    assert json.dumps(said[0]["labels"]) in rows[1]
    assert parquet.read_table(write("a.parquet")).to_pylist() == said
    twice = write("b.csv", tmp_path / "a.csv").read_text().split("\n", 1)[0]
    assert "probabilities.hens_in_file" in twice
    again = parquet.read_table(write("b.parquet", tmp_path / "a.parquet")).to_pylist()
    assert [row["labels"] for row in again] == [row["labels"] for row in said]
    pytest.raises(UsageError, write, "a.csv").match("is there already")
    file.write_text(file.read_text() + '\n{"doc": 3}')
    pytest.raises(DataError, write, "c.csv").match("in.jsonl:13: no column 'doc.body'")
    assert not [*tmp_path.glob("*c.csv")], "nothing is left of a file that is not whole"


def test_runs_of_several_seeds_are_one_row_of_an_evaluation(go, farm, tmp_path):
    spec = farm["text"] + FAST + f"task={farm['classify']} steps=6"
    for seed in (1, 2):
        go(f"{spec} seed={seed}", f"runs/seed-{seed}")
    folders = [tmp_path / "runs" / f"seed-{seed}" for seed in (1, 2)]
    asked = f"classify('{tmp_path}/birds.train.tsv')"
    reports = [evaluate_run(f, task=asked, quiet=True) for f in folders]
    alone = [report.evaluation for report in reports]
    values = [next(iter(e.scores["classify"].values()))["accuracy"] for e in alone]
    macro = [next(iter(e.classes["classify"].values())).macro_f1 for e in alone]
    results = evaluate_runs([tmp_path], task=asked)
    (group,) = json.loads(results.as_json())["groups"]
    assert group["seeds"] == [1, 2]
    accuracy, macro_f1, *_ = group["last"]
    names = ["accuracy", "macro_f1", "F1 of ducks", "F1 of geese", "F1 of hens"]
    assert [each["metric"] for each in group["last"]] == names
    found = (accuracy["mean"], accuracy["deviation"])
    assert found == pytest.approx((fmean(values), stdev(values)))
    assert macro_f1["mean"] == pytest.approx(fmean(macro))
    table = results.as_table()
    assert "mean over seeds ± half its 95% interval (Student's), best; of these" in table
    assert re.search(r"classify \S+ F1 of ducks +\d\.\d{4} ± \d\.\d{4}, \d", table)
    assert table.splitlines()[-1] == f"classify {tmp_path}/birds.train.tsv: 48 examples"
    assert re.search(r"ducks +\d\.\d{4} ", reports[0].as_table())
    (tmp_path / "empty").mkdir()
    pytest.raises(MissingInputError, evaluate_runs, [tmp_path / "empty"]).match("no run in")


@pytest.mark.parametrize(("kind", "right"), [
    ("classify", r"label: (hens|ducks|geese)\n"),
    ("regress", r"label: [012]\n"),
    ("choose", r"label: this choice\n"),
    ("tag", r"the/O old/O (hens|ducks|geese)/B-BIRD sit/O in/O the/O \w+/B-PLACE\n"),
    ("spans", r"label: (hens|ducks|geese)/\S+, \w+/\S+\n"),
    ("read", r"label: (hens|ducks|geese)\n"),
    ("squad", r"label: no answer in this window\n"),
])  # fmt: skip
def test_a_preview_says_what_is_right(farm, kind, right, at_home):
    shown = preview(bertc.resolve(farm["text"] + f"task={farm[kind]} steps=1"), 8, color=False)
    assert re.search(right, shown + "\n"), shown
    assert "asked" not in shown, "there is nothing masked to explain"


def test_a_head_learned_from_one_layout_reads_another(go, farm, tmp_path, cache):
    names = "[contradiction, entailment, neutral]"
    rows = [line.split("\t") for line in (tmp_path / "xnli/train-en.tsv").read_text().splitlines()]
    table = "".join(f"{one}\t{two}\t{label}\n" for one, two, label in rows)
    (tmp_path / "nli.tsv").write_text("text\tpair\tlabel\n" + table)
    (tmp_path / "xnli/dev-de.tsv").write_text((tmp_path / "xnli/dev-en.tsv").read_text())
    asked = f"classify('{tmp_path}/nli.tsv', pair=pair, labels={names}, name=nli)"
    go(farm["text"] + f"task={asked} steps=5")
    report = evaluate_run(tmp_path / "run", task=f"xnli('{tmp_path}/xnli', name=nli)", cache=cache)
    assert set(report.evaluation.scores["nli"]) == {"dev-en", "dev-de"}


def _alone(folder, kind):
    """The task with its dev file alone; columns, versions and labels are those of the run."""
    file = _a_file(folder, kind)
    own = {
        "glue": f"glue(rte, '{file}')", "race": f"race('{folder}/race')",
        "several": f"classify('{file}')", "numbers": f"regress('{file}')",
    }  # fmt: skip
    return own.get(kind, f"{kind}('{file}')")


FILES = {
    "glue": "RTE/dev.tsv", "xnli": "xnli/dev-en.tsv", "squad": "dev-v2.0.json",
    "race": "race/dev", "tagging": "tags/dev.conll", "classify": "birds.dev.tsv",
    "several": "both.dev.tsv", "regress": "score.dev.tsv", "embed": "birds.dev.tsv",
    "rerank": "pairs.dev.tsv", "spans": "tag.dev.tsv",
}  # fmt: skip
"""Dev files that are not called by the kind of their task."""


def _a_file(folder, kind):
    return folder / FILES.get(kind, f"{kind}.dev.tsv")


@pytest.mark.parametrize("kind", ["classify", "tag", "regress"])
def test_documents_longer_than_a_row_are_answered_once(go, farm, tmp_path, kind):
    """In windows, of which the scores are pooled and each word has one tag."""
    spec = (farm["text"] + FAST).replace("seq=24", "seq=8 positions=16")
    report = go(f"{spec} task={farm[kind][:-1]}, stride=2) steps=20")
    file = _a_file(tmp_path, kind)
    answered = predict(tmp_path / "run", file, device="cpu")
    assert len(answered.answers.given) == len(answered.examples) == 12
    assert "12 of 12 examples are read in windows" in " ".join(answered.notes)
    if kind == "tag":
        assert all(len(tags) == 7 for tags in answered.answers.given)
    known = read_examples(answered.task, DataPart(file))
    scores = judge(answered.task, known, answered.answers.given)
    assert scores == report.evaluation.scores[kind]["dev"]


RESUMED = "glue squad tag spans embed late mined rerank windows several glue+classify"


@pytest.mark.parametrize("kinds", RESUMED.split())
def test_resuming_is_never_having_stopped(resumes, go, farm, tmp_path, kinds):
    network = farm["text"].replace("dropout=0", "dropout=0.1")
    if kinds == "mined":
        go(f"{network} objective=mlm steps=1", "before")
    if kinds == "windows":
        network = network.replace("seq=24", "seq=8")
    more = {
        "late": ("embed", "pooling=tokens(4, query=8, skip=none)"),
        "mined": ("embed", f"negatives=mined('{tmp_path}/before', number=1, margin=1)"),
        "windows": ("classify", "stride=2"),
    }
    made = {name: f"{farm[kind][:-1]}, {given})" for name, (kind, given) in more.items()}
    tasks = "+".join((farm | made)[kind] for kind in kinds.split("+"))
    parts = "microbatch=2" if kinds in ("embed", "late", "several") else ""
    resumes(f"{network} task={tasks} steps=6 eval_every=3 save_every=100 {parts}", 2, 4)


def test_parts_of_like_length_add_up_to_the_batch(go, farm, tmp_path):
    task = farm["glue"].replace(")", ", dropout=0)")
    for rows in (8, 2):
        go(farm["text"] + f"task={task} steps=4 microbatch={rows}", f"by {rows}")
    one, other = (final_tensors(tmp_path / f"by {n}") for n in (8, 2))
    for name, tensor in one.items():
        if "key.bias" in name:  # of no consequence, so its gradient is rounding alone
            continue
        torch.testing.assert_close(tensor, other[name], rtol=1e-3, atol=1e-5)


def test_several_tasks_share_an_encoder(go, farm, tmp_path):
    tasks = f"task={farm['sst2']} + {farm['classify']} + {farm['tag']} "
    report = go(f"{farm['text']}{FAST.replace('5e-3', '3e-3')} norm=pre {tasks} steps=200")
    assert set(report.evaluation.scores) == {"sst2", "classify", "tag"}
    assert report.evaluation.scores["classify"]["dev"]["accuracy"] > 0.6, "a third by chance"
    assert report.evaluation.scores["tag"]["dev"]["span_f1"] > 0.8
    with pytest.raises(UsageError, match="several tasks"):
        predict(tmp_path / "run", tmp_path / "SST-2" / "dev.tsv")
    assert predict(tmp_path / "run", tmp_path / "SST-2" / "dev.tsv", "sst2").examples


CHAIN = """
%s
stage "text" { objective=mlm steps=6 }
stage "middle" { task=%s steps=6 optimizer=adam(lr=1e-3) }
stage "end" { task=%s steps=6 }
"""


def test_a_chain_goes_on_with_the_weights_and_a_new_optimiser(resumes, farm, tmp_path):
    spec = CHAIN % (farm["text"] + "save_every=6", farm["classify"], farm["glue"])
    resolved = bertc.resolve(spec)
    assert [stage.counted_from for stage in resolved.stages] == [0, 6, 12]
    assert resolved.stages[2].batch == 32, "its own recipe, not what stands outside"
    resumes(spec, 4, 9, 13)
    kept = tmp_path / "straight" / "checkpoints"
    middle, end = (load_file(kept / f"step-000000{n}" / "weights.safetensors") for n in (12, 18))
    assert torch.equal(middle["heads.classify.weight"], end["heads.classify.weight"])
    assert not torch.equal(middle["heads.rte.weight"], end["heads.rte.weight"])
    assert task_of(resolved, "")[1].title == "rte", "the one that it ends in"
    assert task_of(resolved, "classify")[0].name == "middle"


def test_other_files_are_read_as_the_head_learned():
    last = 'stage "b" { task=squad("a", head=conditioned(8), examples=9) }'
    first = 'recipe=roberta layers=1 hidden=64 stage "a" { task=race("a", examples=9) }'
    resolved = bertc.resolve(f"{first} {last}")
    (_, race), (_, squad) = (task_of(resolved, told) for told in ("race('b')", "squad('b')"))
    assert (race.data, race.first, race.keeps) == ("b", "choice", "beginning")
    assert squad.head.width == 8
    assert task_of(resolved, "race('b', first=passage)")[1].first == "passage"


def test_a_task_without_a_part_to_be_judged_by_is_learned(go, farm, tmp_path):
    task = farm["classify"].replace(f", '{tmp_path}/birds.dev.tsv'", "")
    assert "dev" not in task
    assert go(CHAIN % (farm["text"], task, farm["glue"])).step == 18
    assert {line["stage"] for line in lines(tmp_path / "run", "eval")} == {"text", "end"}


def test_a_run_begins_where_another_ended_and_is_the_same_network(go, farm, tmp_path):
    network = farm["text"].replace("layers=1", "layers=2")
    go(f"{network} objective=mlm steps=6 norm=pre activation=relu", "text")
    spec = f"init='{tmp_path}/text' precision=fp32 task={farm['classify']} steps=2 "
    encoder = (resolved := bertc.resolve(spec)).encoder
    assert (len(encoder.layers), encoder.hidden, encoder.norm.kind) == (2, 32, "pre")
    assert encoder.ffn.activation == "relu"
    assert resolved.stages[0].seq == 24, "no longer than there are positions"
    go(spec + "freeze=2", "tuned")
    go(spec + "freeze=positions", "placed")
    one, other, placed = (weights(tmp_path / name) for name in ("text", "tuned", "placed"))
    frozen = {name for name, tensor in one.items() if torch.equal(tensor, placed.get(name, tensor))}
    learned = {name for name in placed if name.startswith("encoder.")} - frozen
    (place,) = (name for name in frozen if "embeddings" in name)
    assert place == "encoder.embeddings.position.weight"
    assert {"encoder.embeddings.token.weight", "encoder.ffn.0.inner.weight"} <= learned
    for name, tensor in other.items():
        if name.startswith(("encoder.attention", "encoder.ffn", "encoder.embeddings")):
            assert torch.equal(tensor, one[name]), f"{name} is frozen"
    assert not torch.equal(other["heads.classify.weight"], 0 * other["heads.classify.weight"])


def test_every_task_is_in_the_walk_and_has_names_for_its_examples():
    def kinds(base):
        below = {name for each in base.__subclasses__() for name in kinds(each)}
        return below | ({base.__name__} if "kind" in base.model_fields else set())

    assert kinds(Task) == {node.__name__ for node in get_args(get_args(AnyTask)[0])}


def test_a_missing_dev_file_is_reported_before_a_vocabulary_is_learned(tmp_path):
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "a hen\tyes\na duck\tno\n" * 8)
    task = f"classify('{tmp_path}/train.tsv', dev='{tmp_path}/trian.tsv')"
    program = bertc.resolve(f"{NETWORK} steps=2 task={task}")
    with pytest.raises(MissingInputError, match=r"no dev file .*trian.tsv") as refused:
        train(program, tmp_path / "run", cache=tmp_path / "own", quiet=True)
    assert refused.value.help == f"did you mean {tmp_path}/train.tsv?"
    assert not [each for each in (tmp_path / "own").rglob("*") if each.is_file()]


def test_names_that_were_never_learned_are_asked_for(go, farm, tmp_path):
    go(f"{farm['text']}task={farm['spans']} steps=1")
    file = _a_file(tmp_path, "spans")
    answered = predict(tmp_path / "run", file, labels="gate, hens , gate", precision="bf16")
    assert answered.task.labels == ("gate", "hens")
    assert {name for spans in answered.answers.named for name, *_ in spans} <= {"gate", "hens"}
    for labels in ("", "gate,, hens"):
        pytest.raises(UsageError, predict, tmp_path / "run", file, labels=labels).match("empty")
    assert "answers of spans" in export_static(tmp_path / "run", tmp_path / "table").summary()
    go(f"{farm['text']}task={farm['tag']} steps=1", "tagged")
    with pytest.raises(UsageError, match="--labels are names of spans, and tag is a task of tags"):
        predict(tmp_path / "tagged", file, labels="gate")
    listed = [[0, 0, "the"], [1, 2, "red hens"]], [], [[0, 1, "a"], [1, 2, "b"]]
    rows = [{"words": ["the", "red", "hens"], "tags": marks} for marks in listed]
    (theirs := tmp_path / "theirs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    read = examples_of(Spans(), DataPart(theirs))
    assert next(read).tags == ("B-the", "B-red hens", "I-red hens")
    assert next(read).tags == ("O", "O", "O")
    with pytest.raises(DataError, match=r"'tags' has \[1, 2, 'b'\], a span of words expected"):
        next(read)
    file.write_text("words\ttags\nthe hens\tO BIRD\n")
    with pytest.raises(DataError, match="dev.tsv:2: the tag 'BIRD' marks no span"):
        evaluate_run(tmp_path / "run", quiet=True)
