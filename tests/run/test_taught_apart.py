"""Teachers that read a task's examples by a tokenizer of their own: what they say, and refusals."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertc.api import check, estimate, points
from bertc.base.diagnostics import DataError, SpecError, StoppedError
from bertc.data.examples.task_data import TaskData
from bertc.ir.program.lessons import kept_by
from bertc.run.train import loop
from bertc.use.predict import predict
from tests.net.programs import TOY
from tests.run.conftest import text
from tests.run.test_training import stop_after

pytestmark = pytest.mark.usefixtures("in_the_farm")
TUNED = {**TOY, "recipe": "bert", "seq": "24", "steps": "2"}
RTE = 'glue(rte, "RTE", dropout=0)'
CHOOSE = 'choose("choose.train.tsv", "choose.dev.tsv", choices=["a", "b", "c"], dropout=0)'
SCORE = 'regress("score.train.tsv", "score.dev.tsv", dropout=0)'


@pytest.fixture
def taught(farm_run: Callable[[str], Path]) -> Callable[..., Path]:
    """A teacher of a task that reads bytes of text, in rows as long as it likes."""

    def trained(task: str, **changed: str) -> Path:
        own = {"vocab": "bpe(300)", "segments": "0", "seq": "96", "steps": "1"}
        own |= {"initializer": "normal(0.3)", **changed}
        return farm_run(text(TUNED, objective=task, **own))

    return trained


def student(task: str, terms: str, *teachers: Path, **changed: str) -> Any:
    told = " + ".join(f'"{each}"' for each in teachers)
    own = {"layers": "1", "teacher": told, **changed}
    return points(text(TUNED, **own, objective=f"{task} + {terms}"))[0]


@pytest.fixture
def kept(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Any], tuple[TaskData, dict[str, Any]]]:
    """A run's examples, with what its teachers say of them, and its lock."""
    starts = []
    with_lessons = loop.with_lessons

    def noted(*given: Any) -> Any:
        starts.append(with_lessons(*given))
        return starts[-1]

    def trained(resolved: Any) -> tuple[TaskData, dict[str, Any]]:
        monkeypatch.setattr(loop, "with_lessons", noted)
        run = tmp_path / f"run-{len(starts)}"
        loop.train(resolved, run, cache=cache, quiet=True)
        data = starts[-1].corpus.stages[0]
        assert isinstance(data, TaskData)
        return data, json.loads((run / "lock.json").read_text())

    return trained


def same_answers(logits: np.ndarray, run: Path, file: str = "RTE/train.tsv") -> None:
    """Hold that logits are those of a model's answers, up to what softmax takes no notice of."""
    found_nc = np.log(predict(run, Path(file), quiet=True).answers.probabilities)
    logits_nc = logits.reshape(found_nc.shape)
    logits_nc = logits_nc - logits_nc.max(1, keepdims=True)
    logits_nc = logits_nc - np.log(np.exp(logits_nc).sum(1, keepdims=True))
    assert np.abs(logits_nc - found_nc).max() < 1e-5
    assert np.ptp(found_nc, axis=0).max() > 0.1


@pytest.mark.parametrize(
    ("task", "file"),
    [(RTE, "RTE/train.tsv"), (CHOOSE, "choose.train.tsv"), (SCORE, "score.train.tsv")],
    ids=["pairs", "choices", "scores"],
)
def test_a_term_is_handed_what_the_teacher_itself_answers(
    task: str, file: str, taught: Callable[..., Path], kept: Callable[..., Any]
) -> None:
    teacher = taught(task)
    data, lock = kept(student(task, "kd(logits, loss=mse)", teacher))
    assert lock["plan"]["lessons"] == ["fp32"]
    ((said,),) = (each.files for each in data.lessons)
    if task == SCORE:
        scores_n = predict(teacher, Path(file), quiet=True).answers.given
        assert np.abs(said[:, 0] - np.array(scores_n)).max() < 1e-5
        assert np.ptp(said) > 0.1
    else:
        same_answers(said, teacher, file)


def test_each_teacher_reads_by_its_own_and_a_run_goes_on_to_the_same_bits(
    taught: Callable[..., Path],
    kept: Callable[..., Any],
    cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    same_run: Callable[[Path, Path], None],
) -> None:
    bytes_, words = taught(RTE), taught(RTE, vocab="wordpiece(130)")
    same = taught(RTE, vocab="wordpiece(120)")
    copied = {"augment": "edit(mask=50%, ngram=0)", "steps": "4"}
    resolved = student(RTE, "kd(logits, T=2)", bytes_, words, same, **copied)
    data, _ = kept(resolved)
    (lessons,) = data.lessons
    examples = len(data.sets[0].train.owners) - len(data.sets[0].originals)
    assert len(data.sets[0].originals)
    for file, teacher in zip(lessons.files, (bytes_, words, same), strict=True):
        same_answers(file[:examples], teacher)
    with pytest.raises(StoppedError):
        stop_after(
            monkeypatch,
            2,
            lambda: loop.train(resolved, tmp_path / "run", cache=cache, quiet=True),
        )
    loop.train(resolved, tmp_path / "run", cache=cache, quiet=True, resume=True)
    same_run(tmp_path / "run-0", tmp_path / "run")


def test_states_of_first_tokens_are_whole_examples_and_their_step_has_no_teacher(
    taught: Callable[..., Path], kept: Callable[..., Any]
) -> None:
    teacher = taught(RTE)
    resolved = student(RTE, "kd(cls, layers=last)", teacher)
    (stage,) = resolved.stages
    assert kept_by(stage, 10**9) == "fp32"
    data, _ = kept(resolved)
    assert [each.shape for each in data.lessons[0].files] == [(48, 32)]
    told = estimate(resolved)
    assert told.stages[0].kept_bytes == 4 * 48 * 32
    assert told.parameters.frozen > 0
    step, without = (
        estimate(each).memory.peak_bytes
        for each in (resolved, points(text(TUNED, layers="1", objective=RTE))[0])
    )
    assert step - without < 4 * told.parameters.frozen


@pytest.mark.parametrize(
    ("task", "terms", "why"),
    [
        (RTE, "kd(hidden)", r"kd\(hidden\) compares tokens"),
        ('tagging("tags")', "kd(logits)", "the answers to ner are at tokens"),
        ('squad(".", version=2)', "kd(logits)", "the answers to squad are at tokens"),
        ("mlm", "kd(logits)", "text is compared token by token"),
    ],
)
def test_what_is_at_tokens_is_refused_with_the_reason(task: str, terms: str, why: str) -> None:
    with pytest.raises(SpecError, match=f"E283.*{why}.*learn what it says of whole examples"):
        student(task, terms, teacher='spec("roberta-base")')


def test_what_it_says_has_to_be_kept() -> None:
    spec = text(
        TUNED,
        teacher='spec("roberta-base")',
        objective=f"{RTE} + kd(logits)",
        teacher_cache="off",
    )
    with pytest.raises(SpecError) as refused:
        check(spec)
    (found,) = refused.value.diagnostics
    assert (found.code, found.help) == ("E283", "teacher_cache=auto")
    assert found.fix is not None
    assert check(spec.replace("teacher_cache=off", found.fix.replacement)) == 1


def test_other_tokens_of_the_same_number_are_known_at_the_start(
    taught: Callable[..., Path], kept: Callable[..., Any], cache: Path, tmp_path: Path
) -> None:
    teacher = taught(RTE, vocab="wordpiece(120, lower=false)")
    data, lock = kept(student(RTE, "kd(logits)", teacher))
    assert lock["plan"]["lessons"] == ["fp32"]
    same_answers(data.lessons[0].files[0], teacher)
    for terms, changed, why in (
        ("kd(hidden)", {}, r"token [0-9]+ is .* compares tokens"),
        ("kd(logits)", {"teacher_cache": "off"}, "if what it says is kept"),
    ):
        resolved = student(RTE, terms, teacher, **changed)
        with pytest.raises(DataError, match=why):
            loop.train(resolved, tmp_path / "refused", cache=cache, quiet=True)
