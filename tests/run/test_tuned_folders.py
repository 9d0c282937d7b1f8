"""A tuned run as a folder of transformers, that folder as a run, and what begins from both."""

import json
import random

import pytest
import torch
import transformers

import bertc
from bertc.base.diagnostics import DataError, MissingInputError, SpecError, UsageError
from bertc.run.beginning.init_from import source_of
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.loading import read_model
from bertc.run.models.runs import export_run, import_run
from bertc.tasks.examples.task_sets import draw_learned_examples
from bertc.tasks.layouts.parts import part_examples
from tests.predicted import predict
from tests.run.conftest import WORDS

NETWORK = "layers=2 hidden=32 heads=2 vocab=wordpiece(120) precision=fp32 device=cpu compile=off "
NETWORK += "seq=24 batch=8 optimizer=adam(lr=5e-3, warmup=2, bias_correction=true, "
NETWORK += "schedule=polynomial) steps=30 "
BIRDS = ("hens", "ducks", "geese")
KINDS = {
    "classify": ("AutoModelForSequenceClassification", ""),
    "regress": ("AutoModelForSequenceClassification", ""),
    "choose": ("AutoModelForMultipleChoice", ", choices=['a','b','c']"),
    "tag": ("AutoModelForTokenClassification", ""),
    "read": ("AutoModelForQuestionAnswering", ""),
}


@pytest.fixture
def rows(tmp_path):
    """A file with the columns of every task in files of one's own."""
    draw, lines = random.Random(1), []
    for _ in range(40):
        bird = draw.choice(BIRDS)
        text = f"the old {bird} {' '.join(draw.choices(WORDS, k=draw.randint(1, 9)))}"
        tags = ["B-BIRD" if word in BIRDS else "O" for word in text.split()]
        fields = {"a": "hens", "b": "ducks", "c": "geese", "words": text.split(), "tags": tags}
        fields |= {"text": text, "bird": bird, "number": BIRDS.index(bird), "context": text}
        fields |= {"question": "who is old", "answer": bird, "start": text.index(bird)}
        lines.append(json.dumps(fields))
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def tuned(corpus_file, rows, go):
    """Train a task, and begin where a folder says."""

    def make(task, name="run", init=""):
        begin = f"init='{init}' " if init else ""
        network = NETWORK.replace("vocab=wordpiece(120) ", "") if init else NETWORK
        text = f"data=files('{corpus_file}', sentences=lines) "
        resolved = bertc.resolve(begin + network + text + f"task={task}")
        if not init:
            go(resolved, name)
        return resolved

    return make


def spelled(kind, rows, more=""):
    label = {"classify": ", label=bird", "regress": ", label=number", "choose": ", label=number"}
    return f"{kind}('{rows}', '{rows}'{label.get(kind, '')}{KINDS[kind][1]}{more})"


@pytest.mark.parametrize("kind", KINDS)
def test_a_tuned_run_goes_out_and_comes_back(tuned, rows, tmp_path, kind, cache):
    tuned(spelled(kind, rows))
    before = read_model(tmp_path / "run")[1]
    export_run(tmp_path / "run", tmp_path / "hf")
    auto = getattr(transformers, KINDS[kind][0])
    theirs, info = auto.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not any(info.values()), info
    import_run(tmp_path / "hf", tmp_path / "back")
    assert all(torch.equal(before[n], t) for n, t in read_model(tmp_path / "back")[1].items())
    there = predict(tmp_path / "run", rows, device="cpu")
    here = predict(tmp_path / "back", rows, spelled(kind, rows), device="cpu")
    if kind == "regress":  # an import may compute in bf16
        assert here.answers.given == pytest.approx(there.answers.given, abs=0.05)
    elif kind == "choose":  # and the scores of choices that differ little are close
        for one, other in zip(here.answers.probabilities, there.answers.probabilities, strict=True):
            assert one == pytest.approx(other, abs=0.02)
    else:
        assert here.answers.given == there.answers.given
    known = evaluate_run(tmp_path / "run", cache=cache, quiet=True)
    found = evaluate_run(tmp_path / "back", task=spelled(kind, rows), quiet=True)
    for metric, value in known.evaluation.scores[kind]["dev"].items():
        # The toy's numbers lie within 0.01 of each other, and bf16 has 1 / 128 between its own.
        near = 0.1 if kind == "regress" else 0.03
        assert found.evaluation.scores[kind]["dev"][metric] == pytest.approx(value, abs=near)
    if kind in ("classify", "regress"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
        texts = [json.loads(line)["text"] for line in rows.read_text().splitlines()]
        with torch.no_grad():
            scores = theirs.eval()(**tokenizer(texts, padding=True, return_tensors="pt")).logits
        ours = torch.tensor(there.answers.probabilities or there.answers.given)
        wanted = scores.softmax(1) if kind == "classify" else scores[:, 0]
        torch.testing.assert_close(ours.float(), wanted, atol=1e-5, rtol=0)


def test_a_head_is_kept_where_it_tells_the_same(tuned, rows, tmp_path):
    tuned(spelled("classify", rows))
    export_run(tmp_path / "run", tmp_path / "hf")
    import_run(tmp_path / "hf", tmp_path / "back")
    for source in ("run", "hf", "back"):
        again = source_of(tuned(spelled("classify", rows), init=tmp_path / source))
        assert again.places.copies["heads.classify.weight"] == "heads.classify.weight"
        assert not any("starts from random values" in line for line in again.lines())
        labels = ", labels=['geese','hens','ducks']"
        other = source_of(tuned(spelled("classify", rows, labels), init=tmp_path / source))
        assert "heads.classify.weight" not in other.places.copies
        assert other.places.copies["encoder.pooler.weight"] == "encoder.pooler.weight"
        assert other.lines()[-1].endswith(
            "its classify head predicts ducks, geese, hens, but this one geese, hens, ducks: it "
            "starts from random values"
        )
        renamed = spelled("classify", rows, ", name=birds")
        fresh = source_of(tuned(renamed, init=tmp_path / source))
        assert fresh.lines()[-1].endswith("no birds head: it starts from random values")


def test_a_run_outlives_the_folder_that_it_began_from(tuned, rows, tmp_path, cache, go):
    tuned(spelled("classify", rows))
    export_run(tmp_path / "run", tmp_path / "hf")
    resolved, second = tuned(spelled("classify", rows), init=tmp_path / "hf"), tmp_path / "second"
    go(resolved, "second")
    before = evaluate_run(second, cache=cache, quiet=True)
    (tmp_path / "hf").rename(tmp_path / "elsewhere")
    assert evaluate_run(second, cache=cache, quiet=True).evaluation == before.evaluation
    go(resolved, "second", resume=True)


def test_an_imported_head_has_no_files_of_its_own(tuned, rows, tmp_path, cache, go, call):
    tuned(spelled("tag", rows))
    export_run(tmp_path / "run", tmp_path / "hf")
    code, out, err = call("import", str(tmp_path / "hf"), "--out", str(tmp_path / "b"))
    assert code == 0, err
    said = " ".join((out + err).split())
    assert "becomes the task tag with labels O, B-BIRD, I-BIRD" in said
    with pytest.raises(MissingInputError, match="tag: no dev part to score"):
        evaluate_run(tmp_path / "b", cache=cache, quiet=True)
    spec = bertc.resolve(str(tmp_path / "b" / "spec.bertc"))
    assert spec.fingerprint() == read_model(tmp_path / "b")[0].fingerprint()
    pytest.raises(MissingInputError, go, spec, "c").match("no part 'train'")


def test_so_many_examples_are_learned_from(tuned, rows):
    (task,) = tuned(spelled("classify", rows, ", examples=30")).stages[0].tasks
    assert (task.examples, task.labels) == (30, ("ducks", "geese", "hens"))
    every = part_examples(task)
    learned = draw_learned_examples(task, every)
    assert len(learned) == 30
    assert {row.key for row in learned} < {row.key for row in every}
    with pytest.raises(DataError, match="classify has 40 training examples, not 41"):
        tuned(spelled("classify", rows, ", examples=41"), "more")


def test_a_task_is_asked_for_by_title_and_with_its_own_answers(tuned, rows, tmp_path, cache, call):
    tuned(spelled("classify", rows))
    run = tmp_path / "run"
    for named, message in (
        ("tag(words=words)", "no task tag here"),
        ("classify(labels=['a','b'])", "the answers of the task .* differ from those"),
        ("mlm(p=20%)", "is not a single task"),
        ("birds", "no task birds here"),
    ):
        pytest.raises(UsageError, predict, run, rows, named, device="cpu").match(message)
    pytest.raises(SpecError, predict, run, rows, "classify(txt=a)", device="cpu")
    with pytest.raises(MissingInputError, match="holds 1 run") as caught:
        predict(tmp_path, rows, device="cpu")
    assert str(run) in caught.value.help
    asked = predict(run, rows, "classify(text=question)", device="cpu")
    assert asked.examples[0].texts[0] == "who is old"
    own = evaluate_run(run, task="classify(label=bird)", quiet=True).evaluation
    code, out, err = call("eval", str(run), "--task", spelled("classify", rows), "--json")
    assert code == 0, err
    known = evaluate_run(run, cache=cache, quiet=True).evaluation
    assert json.loads(out)["evaluation"]["scores"] == known.scores == own.scores
