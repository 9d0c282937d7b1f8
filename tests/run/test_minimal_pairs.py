"""Minimal pairs: scores against those of the official pipeline, and what is no pair."""

import json
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from bertc.base.diagnostics import BertcError, DataError
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.manner import Manner
from bertc.use.card import export_with_card
from tests.net.programs import TOY
from tests.run.conftest import text

MASKED, CAUSAL, SHIFTED = (text(TOY, objective=name, steps="20") for name in ("mlm", "clm", "mntp"))
ROWS = (
    {"good": "The hens cackle.", "bad": "The hens quack in the old red barn.", "phenomenon": "a"},
    {"good": "the old pond", "bad": "the old gate under the red barn", "context": "Ducks quack on"},
    {"good": "ducks hiss", "bad": "ducks hiss", "phenomenon": "a"},
    {"good": "geese and hens on the gate", "bad": "geese", "phenomenon": "a"},
)


def pairs_in(folder, *rows, name="toy.jsonl"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder)


def score(folder, spec, before, end):
    """The log-likelihood of ``end`` after ``before``, and its tokens, by transformers.

    As babylm/evaluation-pipeline-2025 has it: dataset.py, compute_results.py.
    """
    kind = AutoModelForCausalLM if spec == CAUSAL else AutoModelForMaskedLM
    network, tokenizer = (
        auto.from_pretrained(folder, trust_remote_code=True) for auto in (kind, AutoTokenizer)
    )
    sentence = f"{before} {end}".strip()
    read = tokenizer(sentence, return_offsets_mapping=True)
    ends = torch.tensor(read["offset_mapping"])[:, 1]
    at = (ends > len(sentence) - len(end)).nonzero()[:, 0]
    ids, row = torch.tensor(read["input_ids"]), torch.arange(len(at))
    rows = ids.repeat(len(at), 1)
    if spec != CAUSAL:
        rows[row, at] = tokenizer.mask_token_id
    with torch.no_grad():
        logits = network(input_ids=rows).logits[row, at - int(spec != MASKED)]
    return logits.log_softmax(-1)[row, ids[at]].sum().item(), len(at)


@pytest.mark.usefixtures("in_the_farm", "own_modules")
@pytest.mark.parametrize("spec", [MASKED, CAUSAL, SHIFTED], ids=["masked", "causal", "shifted"])
def test_scores_are_those_of_the_pipeline_on_the_exported_folder(farm_run, tmp_path, spec):
    run, folder = farm_run(spec), tmp_path / "exported"
    export_with_card(run, folder)
    report = evaluate_run(run, Manner(pairs=pairs_in(tmp_path / "toy", *ROWS)), quiet=True)
    goods, bads = (
        [score(folder, spec, row.get("context", ""), row[name]) for row in ROWS]
        for name in ("good", "bad")
    )
    right = [good >= bad for (good, _), (bad, _) in zip(goods, bads, strict=True)]
    assert right[2]
    found = {name: values["accuracy"] for name, values in report.evaluation.scores["toy"].items()}
    of_a, of_toy = (right[0] + right[2] + right[3]) / 3, float(right[1])
    # A mean over phenomena, of which one has three pairs.
    assert found == {"a": of_a, "toy": of_toy, "mean": pytest.approx((of_a + of_toy) / 2)}
    low, high = report.evaluation.intervals["toy"]["a"]
    assert low < of_a <= high
    total, count = map(sum, zip(*goods, strict=True))
    assert report.evaluation.loss == pytest.approx(-total / count, rel=1e-5)
    assert "1 tie counted as right" in report.summary()
    assert "1 pair of equal sentences, the first at" in report.summary()
    assert "the run learned" not in report.summary()
    objective = {MASKED: "mlm", CAUSAL: "clm", SHIFTED: "mntp"}[spec]
    manner = Manner(pairs=str(tmp_path / "toy"), objective=objective)
    # A causal network leaves with its code, which bertc does not read.
    again = evaluate_run(run / "model" if spec == CAUSAL else folder, manner, quiet=True)
    assert again.evaluation.scores == report.evaluation.scores
    assert again.evaluation.loss == pytest.approx(report.evaluation.loss)
    if spec == SHIFTED:
        other = evaluate_run(run, replace(manner, objective="mlm"), quiet=True)
        assert "the run learned mntp, not mlm" in other.notes


@pytest.mark.usefixtures("in_the_farm")
def test_layouts_of_the_pipeline(farm_run, tmp_path):
    blimp = {"sentence_good": "hens", "sentence_bad": "old hens", "UID": "x", "field": "syntax"}
    ewok = {"Context1": "Hens hiss.", "Target1": "Hens", "Target2": "Ducks", "Domain": "farm"}
    comps = {
        "prefix_acceptable": "Hens",
        "prefix_unacceptable": "A pond",
        "property_phrase": "hiss",
    }
    moved = {
        "input_prefix": "The hens are in the ",
        "options": ["barn", "pond", "gate"],
        "numops": 2,
    }
    for name, row in {"b": blimp, "e": ewok, "comps_base": comps, "regular": moved}.items():
        pairs_in(tmp_path / "all", row, name=f"{name}.jsonl")
    report = evaluate_run(farm_run(MASKED), Manner(pairs=str(tmp_path / "all")), quiet=True)
    assert {*report.evaluation.scores["all"]} == {
        "x",
        "farm",
        "comps_base",
        "regular_2_ops",
        "mean",
    }
    assert {*report.evaluation.scores["all by field"]} == {"syntax"}


@pytest.mark.parametrize(
    ("rows", "manner", "message"),
    [
        ((), Manner(), "have no rows"),
        (({"good": "a b", "worse": "b"},), Manner(), "no layout of pairs has the columns good"),
        (({"good": "a", "bad": ""},), Manner(), "toy.jsonl:1: 'bad' is empty"),
        (({"good": "hens", "bad": "hens"},), Manner(), "are equal, as in all pairs of"),
        (({"good": "hens " * 40, "bad": "hens"},), Manner(), "the network reads 32 tokens"),
        (({"input_prefix": "a ", "options": "b"},), Manner(), "'options' is no list"),
        (ROWS, Manner(objective="clm"), "learned no clm, only mlm"),
        (ROWS, Manner(seq=5), "pairs are scored one by one"),
    ],
)
@pytest.mark.usefixtures("in_the_farm")
def test_what_is_no_pair(farm_run, tmp_path, rows, manner, message):
    folder = pairs_in(tmp_path / "toy", *rows)
    with pytest.raises(BertcError, match=message) as refused:
        evaluate_run(farm_run(MASKED), replace(manner, pairs=folder), quiet=True)
    assert refused.value.help


@pytest.mark.usefixtures("in_the_farm")
def test_what_scores_no_sentence(farm_run, tmp_path):
    with pytest.raises(DataError, match="predicts no tokens"):
        evaluate_run(
            farm_run(text(TOY, objective="sop")), Manner(pairs=pairs_in(tmp_path / "p", *ROWS))
        )
    (tmp_path / "none").mkdir()
    with pytest.raises(BertcError, match=r"has no \.jsonl file of pairs"):
        evaluate_run(farm_run(MASKED), Manner(pairs=str(tmp_path / "none")))
    with pytest.raises(BertcError, match="there is no folder"):
        evaluate_run(farm_run(MASKED), Manner(pairs=str(tmp_path / "nowhere")))
