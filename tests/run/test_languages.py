"""A run over several languages: stopped, taken up again, evaluated by language, handed over."""

import random
from dataclasses import replace

import pytest
import torch
import transformers

from bertc.api import resolve
from bertc.base.diagnostics import UsageError
from bertc.ir.terms.masking import shown_figures
from bertc.run.models.loading import load
from bertc.use.fill_mask import fill
from tests.run.conftest import lines

WORDS = {
    "en": ["hens", "ducks", "quack", "in", "the", "old", "barn"],
    "fr": ["poules", "canards", "dans", "la"],
    "zh": list("鸡鸭鹅在旧谷仓里叫"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two directions of 80 pairs, and text in one language more."""
    folder, draw = tmp_path_factory.mktemp("tongues"), random.Random(5)
    for other in ("fr", "zh"):
        for language in ("en", other):
            rows = (" ".join(draw.choices(WORDS[language], k=7)) for _ in range(80))
            (folder / f"{other}.{language}").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "de.txt").write_text("Die Enten quaken im alten Stall.\n\n" * 40)
    pairs = (f'pairs(en="{folder}/{o}.en", {o}="{folder}/{o}.{o}")' for o in ("fr", "zh"))
    return "+".join([*pairs, f'files("{folder}/de.txt", language="de")'])


def program(data, **settings):
    toy = {
        "layers": 2, "hidden": 32, "heads": 2, "seq": 32, "batch": 8, "steps": 12, "dropout": 0.1,
        "vocab": "wordpiece(150, smoothing=0.5)", "objective": "mlm+tlm(unit=span)",
        "smoothing": 0.5, "mixing": "batches", "language_embeddings": "true", "segments": 0,
        "head": "linear", "initializer": "fan-in", "holdout": 0.2, "eval_every": 6,
        "save_every": 100, "log_every": 3, "device": "cpu", "precision": "fp32", "data": data,
        "optimizer": "adamw(lr=1e-2, warmup=2, schedule=inverse-sqrt)", **settings,
    }  # fmt: skip
    return resolve(" ".join(f"{name}={value}" for name, value in toy.items()))


@pytest.mark.parametrize("settings", [{}, {"mixing": "rows", "pack": "true"}], ids=["one", "mixed"])
def test_resuming_is_never_having_stopped(data, resumes, settings):
    resumes(program(data, **settings), 5)


def test_losses_by_language_and_the_model_as_transformers_reads_it(data, tmp_path, go):
    report = go(program(data, steps=40))
    assert {k: shown_figures(v) for k, v in report.evaluation.languages.items()} == {
        "de": ["mlm_masked"], "en-fr": ["tlm_masked"], "en-zh": ["tlm_masked"]
    }  # fmt: skip
    html = replace(report, notes=("<script>",))._repr_html_()  # as a notebook shows it
    for text in (report.summary(), html):
        assert "loss by language" in text
        assert "en-zh" in text
    assert "<script>" not in html
    evaluations = lines(tmp_path / "run", "eval")
    assert evaluations[-1]["languages"] == report.evaluation.languages
    for kind in shown_figures(evaluations[-1]["losses"]):
        assert evaluations[-1]["losses"][kind] < evaluations[0]["losses"][kind]

    theirs = transformers.AutoModel.from_pretrained(tmp_path / "run" / "model").eval()
    ours = load(tmp_path / "run")
    assert type(theirs).__name__ == "XLMModel"
    assert theirs.config.lang2id == {"de": 0, "en": 1, "fr": 2, "zh": 3}
    ids, tongues = torch.randint(5, 100, (2, 9)), torch.tensor([[1] * 4 + [3] * 5] * 2)
    places = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]] * 2)
    with torch.no_grad():
        expected = theirs(ids, langs=tongues, position_ids=places).last_hidden_state
        found = ours.encode(ids, language_ids=tongues, position_ids=places)
    assert (found - expected).abs().max() <= 1e-5


def test_masks_are_filled_in_a_language(data, tmp_path, go):
    go(program(data, steps=2, eval_every=2))
    one, other, none = (
        fill(tmp_path / "run", "hens [MASK] in the barn", language=name)
        for name in ("en", "zh", "")
    )
    assert one.masks != other.masks != none.masks
    assert not one.notes
    assert none.notes == ("read without a language; set --language to one of de, en, fr, zh",)
    with pytest.raises(UsageError, match="does not know sw") as refused:
        fill(tmp_path / "run", "hens [MASK]", language="sw")
    assert refused.value.help == "it knows de, en, fr, zh"
