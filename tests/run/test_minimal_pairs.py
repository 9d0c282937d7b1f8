"""Held-out text read in other manners than in training, and minimal pairs by their pipeline."""

import json
import math
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from bertc.base.diagnostics import BertcError, UsageError
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.manner import Manner
from bertc.run.train.loop import train
from bertc.use.card import export_with_card
from tests.net.programs import TOY
from tests.run.conftest import lines, text

MASKED, CAUSAL, SHIFTED = (text(TOY, objective=name, steps="20") for name in ("mlm", "clm", "mntp"))
ROWS = (
    {"good": "The hens cackle.", "bad": "The hens quack in the old red barn.", "phenomenon": "a"},
    {"good": "the old pond", "bad": "the old gate under the red barn", "context": "Ducks quack on"},
    {"good": "ducks hiss", "bad": "ducks hiss", "phenomenon": "a"},
    {"good": "geese and hens on the gate", "bad": "geese", "phenomenon": "a"},
)
pytestmark = pytest.mark.usefixtures("in_the_farm")


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
    at = (torch.tensor(read["offset_mapping"])[:, 1] > len(sentence) - len(end)).nonzero()[:, 0]
    ids, row = torch.tensor(read["input_ids"]), torch.arange(len(at))
    rows = ids.repeat(len(at), 1)
    if spec != CAUSAL:
        rows[row, at] = tokenizer.mask_token_id
    with torch.no_grad():
        logits = network(input_ids=rows).logits[row, at - int(spec != MASKED)]
    return logits.log_softmax(-1)[row, ids[at]].sum().item(), len(at)


@pytest.mark.usefixtures("own_modules")
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


def test_the_last_token_of_a_document_is_ranked_among_all(farm_run, tmp_path):
    run, folder, texts = farm_run(MASKED), tmp_path / "out", [row["good"] for row in ROWS]
    export_with_card(run, folder)
    (tmp_path / "texts").write_text("\n\n".join([*texts, "hens"]))
    manner = Manner(last=True, data=f"files('{tmp_path}/texts', sentences=lines)")
    evaluation = evaluate_run(run, manner, quiet=True).evaluation
    network = AutoModelForMaskedLM.from_pretrained(folder)
    tokenizer, ranks = AutoTokenizer.from_pretrained(folder), []
    for sentence in texts:
        ids = torch.tensor(tokenizer(sentence)["input_ids"])[None]
        right, ids[0, -2] = ids[0, -2].clone(), tokenizer.mask_token_id
        with torch.no_grad():
            scores = network(input_ids=ids).logits[0, -2]
        scores[[i for i in tokenizer.all_special_ids if i != tokenizer.unk_token_id]] = -math.inf
        ranks.append(int((scores >= scores[right]).sum()))
    (of_all,) = evaluation.scores["last token"].values()
    assert of_all["hit@10"] == sum(rank <= 10 for rank in ranks) / 4
    assert of_all["mrr"] == pytest.approx(sum(1 / rank for rank in ranks) / 4)
    gains = sum(1 / math.log2(1 + rank) for rank in ranks if rank <= 10) / 4
    assert of_all["ndcg@10"] == pytest.approx(gains)
    assert evaluation.examples == 4  # nothing is before "hens"
    with pytest.raises(UsageError, match="objective of its own"):
        evaluate_run(run, replace(manner, objective="mlm"), quiet=True)
    (tmp_path / "texts").write_text("hens\n\ngeese")
    with pytest.raises(BertcError, match="no row has two tokens"):
        evaluate_run(run, manner, quiet=True)


def test_layouts_of_the_pipeline(farm_run, tmp_path):
    blimp = {"sentence_good": "hens", "sentence_bad": "old hens", "UID": "x", "field": "syntax"}
    ewok = {"Context1": "Hens hiss.", "Target1": "Hens", "Target2": "Ducks", "Domain": "farm"}
    comps = {"prefix_acceptable": "Hens", "prefix_unacceptable": "A pond"}
    comps["property_phrase"] = "hiss"
    moved = {"input_prefix": "The hens are in the ", "numops": 2}
    moved["options"] = ["barn", "pond", "gate"]
    for name, row in {"b": blimp, "e": ewok, "comps_base": comps, "regular": moved}.items():
        pairs_in(tmp_path / "all", row, name=f"{name}.jsonl")
    report = evaluate_run(farm_run(MASKED), Manner(pairs=str(tmp_path / "all")), quiet=True)
    names = {"x", "farm", "comps_base", "regular_2_ops", "mean"}
    assert report.evaluation.scores["all"].keys() == names
    assert {*report.evaluation.scores["all by field"]} == {"syntax"}


@pytest.mark.parametrize(("rows", "manner", "message"), [
    ((), Manner(), "have no rows"),
    (({"good": "a b", "worse": "b"},), Manner(), "no layout of pairs has the columns good"),
    (({"good": "a", "bad": ""},), Manner(), "toy.jsonl:1: 'bad' is empty"),
    (({"good": "hens", "bad": "hens"},), Manner(), "are equal, as in all pairs of"),
    (({"good": "hens " * 40, "bad": "hens"},), Manner(), "the network reads 32 tokens"),
    (({"input_prefix": "a ", "options": "b"},), Manner(), "'options' is no list"),
    (ROWS, Manner(objective="clm"), "learned no clm, only mlm"),
    (ROWS, Manner(seq=5), "pairs are scored one by one"),
])  # fmt: skip
def test_what_is_no_pair(farm_run, tmp_path, rows, manner, message):
    folder = pairs_in(tmp_path / "toy", *rows)
    with pytest.raises(BertcError, match=message) as refused:
        evaluate_run(farm_run(MASKED), replace(manner, pairs=folder), quiet=True)
    assert refused.value.help


def test_what_scores_no_sentence(farm_run, tmp_path):
    (tmp_path / "none").mkdir()
    pairs_in(tmp_path / "p", *ROWS)
    for spec, folder, message in (
        (text(TOY, objective="sop"), "p", "predicts no tokens"),
        (MASKED, "none", r"has no \.jsonl file of pairs"),
        (MASKED, "nowhere", "there is no folder"),
    ):
        with pytest.raises(BertcError, match=message):
            evaluate_run(farm_run(spec), Manner(pairs=str(tmp_path / folder)))


@pytest.fixture(scope="module")
def read(tiny, tmp_path_factory, corpus_file, cache):
    """Train a small run with a memory, and evaluate it in some manner."""
    resolved = tiny(
        "objective=clm attention=relative memory=24 vocab=bytes steps=30 eval_every=30 holdout=10% "
        "batch=4 eval_examples=1000 optimizer=adamw(3e-3)",
        data=f"files('{corpus_file}', sentences=whole)",
    )
    run = tmp_path_factory.mktemp("read") / "run"
    train(resolved, run, cache=cache, quiet=True)
    return lambda **manner: evaluate_run(run, Manner(**manner), cache=cache, quiet=True)


def test_rows_and_memories_of_other_lengths_read_the_same_text(read):
    report, without = read(), read(seq=50, memory=0)
    assert report.evaluation.losses == lines(report.folder, "eval")[-1]["losses"]
    assert f"perplexity {math.exp(report.evaluation.loss):,.2f}" in report.summary()
    assert report.notes == ("read as a stream in rows of 24 tokens, with a memory of 24 tokens",)
    # Everything remembered: the length of pieces makes no difference.
    one, other = (read(seq=seq, memory=1000).evaluation for seq in (16, 50))
    assert one.loss == pytest.approx(other.loss, abs=1e-5)
    assert read(seq=8, memory=40, same_length=True, clamp=20).evaluation.loss > 0
    assert without.evaluation.loss != report.evaluation.loss
    assert "rows of 50 tokens, without memory" in without.summary()
    pytest.raises(UsageError, read, same_length=True, memory=0).match("needs a memory")


def test_other_text_is_read_whole(read, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("Der Hahn kräht früh.\n\nEin Hund schläft — lange.")
    found = read(data=str(other))
    text = other.read_text()
    # Each byte but the first is a token, and there is a separator at the end.
    assert found.reading.tokens == len(text.encode())
    assert found.evaluation.characters == len(text) - 1
    bits = found.evaluation.loss / math.log(2)
    assert found.reading.bits_per_token == bits
    assert found.reading.bits_per_character == bits * len(text.encode()) / (len(text) - 1)
    assert "bits a character" in found.summary()
    written = f"files('{other}', sentences=whole)"
    assert read(data=written).evaluation.losses == found.evaluation.losses
    with pytest.raises(UsageError, match="knows no language sw"):
        read(data=f"files('{other}', language='sw')")
    pytest.raises(UsageError, read, objective="mlm").match("has no head for mlm")


@pytest.mark.parametrize("learned", ["sop", "nsp"])
def test_a_run_answers_the_question_that_it_did_not_learn(tiny, tmp_path, learned, cache, go):
    run, trained = tmp_path / "run", go(tiny(objective=learned, steps=2))
    other = {"nsp": "sop", "sop": "nsp"}[learned]

    def ask(objective):
        return evaluate_run(run, Manner(objective=objective), cache=cache, quiet=True).evaluation

    assert ask(learned).losses == trained.evaluation.losses
    assert [*ask(other).losses] == [other]
    pytest.raises(UsageError, ask, "nsp+sop").match("makes pairs in 2 ways")
    with pytest.raises(UsageError, match="has no head for sbo") as refused:
        ask("sbo")
    assert f'init="{run}" objective=sbo' in refused.value.help
