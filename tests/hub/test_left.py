"""Exported folders in pipelines of transformers: what their configurations say is what is read."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import bertc
from bertc.base.diagnostics import UsageError
from bertc.hub.exporting import TRANSFORMERS
from bertc.run.models.runs import export_run, import_run
from bertc.use.predict import predict
from tests.hub.hf_models import config_of, respell
from tests.lab.onnx.conftest import TEXTS, run_of, table

SMALL = "layers=1 hidden=16 heads=2 seq=24 device=cpu precision=fp32 vocab=wordpiece(97)"
LABELS = [(text, "odd" if n % 2 else "even") for n, text in enumerate(TEXTS)]
PAIRS = [(text, TEXTS[n - 1], "odd" if n % 2 else "even") for n, text in enumerate(TEXTS)]
SPECS = {
    "bert": ("ffn=40", "BertForSequenceClassification", True),
    "xlm": ("ffn=64 segments=0 head=linear pooler=false", "XLMForSequenceClassification", False),
    "xlnet": (
        "ffn=40 attention=relative(untie=true,segments=true) positions=none segments=0 "
        "norm=post(embeddings=false) head=linear "
        "dropout=dropout(hidden=0.1,attention=0.1,ffn=0.1,last=0.1)",
        "XLNetForSequenceClassification", True,
    ),
    "roberta": (
        "ffn=40 positions=learned(26, offset=1) segments=1", "RobertaForSequenceClassification",
        False,
    ),
}  # fmt: skip


@torch.no_grad()
def as_pipelines_do(folder: Path, rows: list[Any], **told: Any) -> list[dict[str, float]]:
    """Probabilities by label of each row alone, from all that the tokenizer puts out."""
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    found = list[dict[str, float]]()
    for row in rows:
        texts = (row,) if isinstance(row, str) else row
        scores = model(**tokenizer(*texts, return_tensors="pt", **told)).logits[0].softmax(0)
        found.append({model.config.id2label[n]: float(p) for n, p in enumerate(scores)})
    return found


@pytest.mark.parametrize(
    ("name", "pairs"),
    [("bert", False), ("bert", True), ("xlm", True), ("xlnet", True), ("roberta", False)],
)
def test_a_pipeline_reads_what_the_run_reads(name, pairs, tmp_path):
    settings, architecture, segments = SPECS[name]
    columns = "text pair label" if pairs else "text label"
    files = table(tmp_path / "rows.tsv", columns, PAIRS if pairs else LABELS)
    task = f"task=classify({files}, labels=['even', 'odd']{', pair=pair' if pairs else ''})"
    run = run_of(tmp_path / "run", f"{SMALL} {settings} {task}")
    exported = export_run(run, tmp_path / "left")
    assert exported.architecture == architecture
    with pytest.raises(UsageError, match="the class of a task, which makes no vectors"):
        export_run(run, tmp_path / "vectors", "mean")
    config = config_of(exported.folder)
    assert config["transformers_version"] == TRANSFORMERS
    assert config.get("summary_type", "first") == "first"  # where [CLS] is
    told = json.loads((exported.folder / "tokenizer_config.json").read_text())
    assert ("token_type_ids" in told["model_input_names"]) == segments
    rows: list[Any] = [(a, b) for a, b, _ in PAIRS] if pairs else TEXTS
    expected = as_pipelines_do(exported.folder, rows)
    for folder in (run, exported.folder):
        found = [each["probabilities"] for each in bertc.load(folder).predict(rows)]
        for ours, theirs in zip(found, expected, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("side", ["left", "right"])
def test_long_texts_are_cut_where_the_tokenizer_cuts_them(side, tmp_path):
    files = table(tmp_path / "rows.tsv", "text label", LABELS)
    run = run_of(tmp_path / "own", f"{SMALL} ffn=40 task=classify({files})")
    came = export_run(run, tmp_path / "came").folder
    told = json.loads((came / "tokenizer_config.json").read_text())
    told |= {"truncation_side": side, "model_max_length": 9}
    (came / "tokenizer_config.json").write_text(json.dumps(told))
    long = ["a b c d e f g h i j k l", "l k j i h g f e d c b a", "a"]
    rows: list[Any] = [*long, (long[0], long[1]), (long[1], "a")]
    expected = as_pipelines_do(came, rows, truncation=True)
    import_run(came, tmp_path / "run")
    left = export_run(tmp_path / "run", tmp_path / "left").folder
    for folder in (came, tmp_path / "run", left):
        found = [each["probabilities"] for each in bertc.load(folder).predict(rows)]
        for ours, theirs in zip(found, expected, strict=True):
            assert ours == pytest.approx(theirs, abs=1e-6)


def test_an_imported_head_scores_any_number_of_choices(tmp_path):
    rows = [(text, "w9 w8", "w7", n % 2) for n, text in enumerate(TEXTS)]
    files = table(tmp_path / "rows.tsv", "question a b label", rows)
    run = run_of(tmp_path / "own", f"{SMALL} ffn=40 task=choose({files}, choices=['a', 'b'])")
    came = export_run(run, tmp_path / "came").folder
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(came)
    theirs = transformers.AutoModelForMultipleChoice.from_pretrained(came).eval()
    asked = [("w5 w6", ["w7", "w8 w9"]), ("w6", [f"w{n}" for n in range(5, 11)])]
    file = tmp_path / "asked.jsonl"
    lines = [json.dumps({"question": question, "choices": texts}) for question, texts in asked]
    file.write_text("\n".join(lines) + "\n")
    found = bertc.load(came).predict(asked)
    for (question, texts), ours in zip(asked, found, strict=True):
        batch = tokenizer([question] * len(texts), texts, return_tensors="pt", padding=True)
        with torch.no_grad():
            scores = theirs(**{name: ids[None] for name, ids in batch.items()}).logits[0]
        assert ours["probabilities"] == pytest.approx(scores.softmax(0).tolist(), abs=1e-6)
    from_file = [*predict(came, file, device="cpu", quiet=True).each()]
    assert [len(each["probabilities"]) for each in from_file] == [2, 6]


CLASSES = {
    "BertForPreTraining": "BertForPreTraining",
    "BertForMaskedLM": "BertForMaskedLM",
    "BertModel": "BertModel",
    "BertForNothing": "BertForPreTraining",
    "RobertaModel": "BertForPreTraining",
}


@pytest.mark.parametrize("came", CLASSES)
def test_a_folder_keeps_its_class(came, tmp_path):
    run = run_of(tmp_path / "own", f"{SMALL} ffn=40 objective=mlm+nsp pooler=true")
    folder = export_run(run, tmp_path / "came").folder
    respell(folder, architectures=[came])
    import_run(folder, tmp_path / "run")
    left = export_run(tmp_path / "run", tmp_path / "left")
    assert [left.architecture] == config_of(left.folder)["architectures"] == [CLASSES[came]]


def test_a_run_tuned_from_a_run_has_its_layout(tmp_path):
    spec = f"{SMALL} ffn=40 positions=learned(26, offset=1) segments=1 layout=camembert"
    run = run_of(tmp_path / "run", f"{spec} objective=mlm")
    files = table(tmp_path / "rows.tsv", "text label", LABELS)
    tuned = run_of(tmp_path / "tuned", f"init='{run}' task=classify({files})")
    exported = export_run(tuned, tmp_path / "left")
    assert exported.architecture == "CamembertForSequenceClassification"
