"""What goes out: a class that fits or a new one, what is kept or refused, and is read then."""

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import modeling_layers

import bertc
from bertc.api import resolve
from bertc.base.diagnostics import CannotWriteError, DataError, UsageError
from bertc.hub.families import family_for
from bertc.hub.leaving.exporting import TRANSFORMERS, TYPED, export_model
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import LearnedPositions
from bertc.ir.network.sharing import ShareAll, ShareAttention, ShareFfn, ShareGroups, ShareMap
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load
from bertc.run.models.runs import export_run, import_run
from bertc.use.source.code_folder import export_code
from tests.hub.hf_models import config_of, respell
from tests.hub.programs import Wordless, assert_same, leaves_with_code, objective, program, tensors
from tests.lab.onnx.conftest import TEXTS, run_of, table
from tests.predicted import predict

ROBERTA = {"positions": LearnedPositions(rows=18, offset=2), "segments": 1}
ALBERT = {"embedding": 16, "share": ShareAll()}

FITTING = [
    ({"objective": objective("mlm", "nsp")}, 0, "BertForPreTraining", ()),
    ({}, 0, "BertForMaskedLM", ()),
    ({"objective": objective("nsp")}, 0, "BertForNextSentencePrediction", ()),
    ({"pooler": True}, 0, "BertForMaskedLM", ("pooler",)),
    ({"objective": objective("mlm", "sop")}, 0, "BertForMaskedLM", ("pooler", "sop")),
    ({"objective": objective("span", "sbo")}, 0, "BertForMaskedLM", ("sbo",)),
    ({"objective": objective("span", "sbo", "nsp")}, 0, "BertForPreTraining", ("sbo",)),
    (ROBERTA, 1, "RobertaForMaskedLM", ()),
    ({**ROBERTA, "segments": 2, "objective": objective("mlm", "nsp")}, 1, "RobertaForMaskedLM",
     ("nsp", "pooler")),
    ({**ALBERT, "objective": objective("mlm", "sop")}, 0, "AlbertForPreTraining", ()),
    ({**ALBERT, "objective": objective("mlm", "nsp")}, 0, "AlbertForMaskedLM", ("nsp", "pooler")),
    ({"embedding": 16}, 0, "AlbertForMaskedLM", ()),
    ({"embedding": 16, "share": ShareMap(attention=(0, 0, 2))}, 0, "AlbertForMaskedLM", ()),
]  # fmt: skip

OBSTACLES = [
    ({"segments": 0, "embedding": 16}, 0, "embedding=16"),
    ({"heads": (3, 3, 2), "head_dim": 8}, 0, "heads=[3, 3, 2]"),
    ({"embedding": 16, "share": ShareAttention()}, 0, "share=attention"),
    ({"embedding": 16, "share": ShareFfn()}, 0, "share=ffn"),
    ({"embedding": 16, "share": ShareMap(attention=(0, 0, 2), ffn=(0, 1, 1))}, 0,
     "share=map([0, 0, 2], ffn=[0, 1, 1])"),
    ({"embedding": 16, "share": ShareMap(attention=(0, 1, 0))}, 0, "share=map([0, 1, 0])"),
    ({"embedding": 16, "layers": 18, "share": ShareGroups(groups=14)}, 0, "share=groups(14)"),
    ({**ALBERT, **ROBERTA}, 1, "positions=learned(18, offset=2)"),
    (ROBERTA, 0, "positions=learned(18, offset=2)"),
    ({**ROBERTA, "activation": "relu"}, 1, "activation=relu"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "pad", "cls", "beside"), FITTING)
def test_the_fitting_class_loads_without_a_word(settings, pad, cls, beside, tmp_path, monkeypatch):
    rows = list[tuple[Any, ...]]()
    monkeypatch.setattr(Wordless, "save", lambda self, folder, *lengths: rows.append(lengths))
    resolved = program(**settings)
    weights = tensors(resolved)
    exported = export_model(resolved, weights, Wordless(pad), tmp_path / "m", strict=True)
    assert exported.architecture == cls
    segments = "as-it-came" if resolved.encoder.segments > 1 else "unread"
    assert set(rows) == {(resolved.stages[0].seq, resolved.encoder.room, segments)}
    told = [f"{cls} cannot hold {', '.join(beside)}"] if beside else []
    told += [TYPED.split(":")[0]] if cls.startswith("Albert") else []
    assert [note.split(":")[0] for note in exported.notes] == told
    assert "m: " in exported.summary()
    _, info = getattr(transformers, cls).from_pretrained(tmp_path / "m", output_loading_info=True)
    assert not any(info.values()), info
    back = import_model(tmp_path / "m")
    assert_same(back.tensors, weights)
    # No layout says the form of the initial draws, and the id of padding is another.
    change: dict[str, Any] = {"initializer": resolved.encoder.initializer}
    if resolved.encoder.positions.offset:
        change["positions"] = resolved.encoder.positions
    assert back.resolved.encoder.model_copy(update=change) == resolved.encoder
    before, after = ({t.objective.kind for t in r.terms()} for r in (resolved, back.resolved))
    assert before == after


@pytest.mark.parametrize(("settings", "pad", "named"), OBSTACLES)
def test_what_no_layout_says_is_refused_by_name(settings, pad, named, tmp_path):
    resolved = program(**settings)
    found = family_for(resolved, pad)
    assert found.setting == named
    with pytest.raises(DataError) as refused:
        export_model(resolved, tensors(resolved), Wordless(pad), tmp_path / "m", strict=True)
    assert refused.value.message.startswith(f"{named} stands in the way: ")
    assert refused.value.help.startswith(f"in a new run: {found.instead}")
    assert found.instead
    assert list(tmp_path.iterdir()) == []


def test_every_field_of_an_encoder_is_compared_with_its_layout():
    """By a setting of the network, or by name in ``families``; ``vocab_size`` goes as it is.
    Pairs of an adapter are merged before.
    """
    settings = {*program().encoder.settings(), *("languages", "pooler", "causal", "two_streams")}
    of_settings = {"ffn": "activation", "attention_owner": "share", "ffn_owner": "share"}
    fields = {of_settings.get(name, name) for name in Encoder.model_fields}
    assert fields - {"vocab_size", "adapt"} <= settings


def test_a_body_without_pooler_and_head_leaves_as_an_encoder(tmp_path):
    resolved = program()
    body = {n: t for n, t in tensors(resolved).items() if n.startswith("encoder.")}
    exported = export_model(resolved, body, Wordless(0), tmp_path / "m", strict=True)
    assert exported.architecture == "BertModel"
    assert exported.notes == ("BertModel draws a pooler when it is loaded: the model has none",)


def test_bertc_keeps_its_own_layout_where_none_fits(tmp_path):
    resolved = program(share=ShareAttention(), objective=objective("mlm", "sop"))
    weights = tensors(resolved)
    exported = export_model(resolved, weights, Wordless(0), tmp_path / "m")
    assert exported.layout == "bertc"
    note = (tmp_path / "m" / "note.txt").read_text()
    assert note.startswith("share=attention stands in the way")
    assert exported.notes == (note.strip(),)
    model = load(tmp_path / "m")
    assert not model.training
    assert model.resolved == resolved
    assert all(torch.equal(p, weights[name]) for name, p in model.named_parameters())


def test_tied_parameters_are_stored_once_each(tmp_path):
    """Two names of one memory, and a view, are written as tensors of their own."""
    resolved = program()
    weights = tensors(resolved)
    weights["encoder.attention.1.key.weight"] = weights["encoder.attention.0.key.weight"]
    weights["encoder.attention.2.key.weight"] = weights["encoder.attention.0.key.weight"].T
    export_model(resolved, weights, Wordless(0), tmp_path / "m")
    stored = load_file(tmp_path / "m" / "model.safetensors")
    for layer in range(3):
        key = stored[f"bert.encoder.layer.{layer}.attention.self.key.weight"]
        assert torch.equal(key, weights[f"encoder.attention.{layer}.key.weight"])
    (tmp_path / "any").touch()
    modes = {path.stat().st_mode for path in (tmp_path / "m").iterdir()}
    assert modes == {(tmp_path / "any").stat().st_mode}, "others may read them"


def test_an_earlier_export_is_replaced_and_nothing_else(tmp_path):
    folder = tmp_path / "m"
    own = program(segments=0, embedding=16)
    export_model(own, tensors(own), Wordless(0), folder)
    resolved = program()
    export_model(resolved, tensors(resolved), Wordless(0), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match=r"holds thesis\.txt"):
        export_model(resolved, tensors(resolved), Wordless(0), folder)
    assert (folder / "thesis.txt").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("fault", ["disk", "folder"])
def test_a_failed_write_leaves_nothing(fault, tmp_path, monkeypatch):
    resolved = program()
    place = tmp_path / "m"
    if fault == "folder":
        (tmp_path / "file").write_text("")
        place = tmp_path / "file" / "m"
    else:
        monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, os.strerror(28))))
    with pytest.raises(CannotWriteError) as refused:
        export_model(resolved, tensors(resolved), Wordless(0), place)
    assert ("disk is full" in refused.value.message) == (fault == "disk")
    assert {path.name for path in tmp_path.iterdir()} <= {"file"}


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
def probabilities(folder: Path, rows: list[Any], **told: Any) -> list[dict[str, float]]:
    """Those of transformers for each row alone, from all that the tokenizer puts out."""
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    found = list[dict[str, float]]()
    for row in rows:
        texts = (row,) if isinstance(row, str) else row
        scores = model(**tokenizer(*texts, return_tensors="pt", **told)).logits[0].softmax(0)
        found.append({model.config.id2label[n]: float(p) for n, p in enumerate(scores)})
    return found


def assert_pipelines_agree(folder: Path, others: tuple[Path, ...], rows: list[Any], **told: Any):
    found = probabilities(folder, rows, **told)
    for other in (folder, *others):
        for ours, reference in zip(bertc.load(other).predict(rows), found, strict=True):
            assert ours["probabilities"] == pytest.approx(reference, abs=1e-6)


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
    assert_pipelines_agree(exported.folder, (run,), rows)


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
    import_run(came, tmp_path / "run")
    left = export_run(tmp_path / "run", tmp_path / "left").folder
    assert_pipelines_agree(came, (tmp_path / "run", left), rows, truncation=True)


def test_an_imported_head_scores_any_number_of_choices(tmp_path):
    rows = [(text, "w9 w8", "w7", n % 2) for n, text in enumerate(TEXTS)]
    files = table(tmp_path / "rows.tsv", "question a b label", rows)
    run = run_of(tmp_path / "own", f"{SMALL} ffn=40 task=choose({files}, choices=['a', 'b'])")
    came = export_run(run, tmp_path / "came").folder
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(came)
    reference = transformers.AutoModelForMultipleChoice.from_pretrained(came).eval()
    asked = [("w5 w6", ["w7", "w8 w9"]), ("w6", [f"w{n}" for n in range(5, 11)])]
    file = tmp_path / "asked.jsonl"
    lines = [json.dumps({"question": question, "choices": texts}) for question, texts in asked]
    file.write_text("\n".join(lines) + "\n")
    found = bertc.load(came).predict(asked)
    for (question, texts), ours in zip(asked, found, strict=True):
        batch = tokenizer([question] * len(texts), texts, return_tensors="pt", padding=True)
        with torch.no_grad():
            scores = reference(**{name: ids[None] for name, ids in batch.items()}).logits[0]
        assert ours["probabilities"] == pytest.approx(scores.softmax(0).tolist(), abs=1e-6)
    from_file = [*predict(came, file, device="cpu").each()]
    assert [len(each["probabilities"]) for each in from_file] == [2, 6]


CLASSES = {
    "BertForPreTraining": "BertForPreTraining", "BertForMaskedLM": "BertForMaskedLM",
    "BertModel": "BertModel", "BertForNothing": "BertForPreTraining",
    "RobertaModel": "BertForPreTraining",
}  # fmt: skip


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
    assert export_run(tuned, tmp_path / "left").architecture == "CamembertForSequenceClassification"


TINY = "layers=3 hidden=24 vocab=wordpiece(97) seq=16 steps=1 objective=mlm"
IDS = torch.randint(5, 97, (2, 9))
PROGRAMS = {
    "widths by layer": "heads=[3,2,1] head_dim=8 ffn=[40,24,16] norm=pre(after_attention=true)",
    "a head without weights": "heads=3 head=linear(bias=false) norm=pre(last=false) segments=0",
    "pre-norm": "heads=3 norm=pre(function=rms) segments=0 activation=geglu positions=rotary",
}


@pytest.mark.parametrize("settings", PROGRAMS.values(), ids=PROGRAMS)
def test_a_folder_loads_as_its_program(settings, own_modules, tmp_path):
    assert leaves_with_code(resolve(f"{TINY} {settings}"), tmp_path / "m")


def loaded(folder: Path, kind: str = "", **more: Any) -> Any:
    """What transformers makes of a folder for a kind of use."""
    loader = getattr(transformers, f"AutoModel{kind}")
    return loader.from_pretrained(folder, trust_remote_code=True, **more)


def exported(settings: str, folder: Path) -> Path:
    resolved = resolve(settings)
    export_code(resolved, tensors(resolved), Wordless(0), folder)
    return folder


def test_a_folder_is_saved_resized_and_trained(own_modules, tmp_path):
    folder = exported(f"{TINY} heads=3 share=attention E=16 pooler=true", tmp_path / "m")
    network = loaded(folder, "ForMaskedLM")
    network.resize_token_embeddings(101)
    network.save_pretrained(tmp_path / "again")
    again = loaded(tmp_path / "again", "ForMaskedLM")
    assert torch.equal(again(IDS).logits, network.eval()(IDS).logits)
    assert again(IDS).logits.shape == (2, 9, 101)
    classes = loaded(folder, "ForSequenceClassification", num_labels=3).train()
    classes.activation_checkpointing_enable()
    assert modeling_layers.GradientCheckpointingLayer in type(classes.model.encoder.ffn[0]).__mro__
    classes(IDS, labels=torch.tensor([0, 2])).loss.backward()
    assert all(weight.grad is not None for weight in classes.parameters())
    assert not any("pooler" in name for name in network.state_dict()), "it reads none"
    assert loaded(tmp_path / "again")(IDS).pooler_output.shape == (2, 24)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "rotary attention=local(4)"])
def test_causal_rows_may_be_padded_in_front(positions, own_modules, tmp_path):
    causal = TINY.replace("mlm", "clm")
    folder = exported(f"{causal} heads=3 segments=0 positions={positions}", tmp_path / "m")
    mask = torch.ones_like(IDS)
    mask[0, :4] = 0
    for way in ("sdpa", "eager"):
        network = loaded(folder, attn_implementation=way)
        padded = network(IDS, mask).last_hidden_state
        assert torch.allclose(padded[:1, 4:], network(IDS[:1, 4:]).last_hidden_state, atol=1e-5)
        assert not padded.isnan().any()


def test_losses_are_those_that_trainer_expects(own_modules, tmp_path):
    folder = exported(f"{TINY.replace('mlm', 'clm')} heads=3", tmp_path / "m")
    network = loaded(folder, "ForCausalLM").eval()
    mean, total = (network(IDS, labels=IDS, **how).loss for how in ({}, {"num_items_in_batch": 4}))
    assert torch.allclose(total, mean * 16 / 4)
    moved = torch.nn.functional.pad(IDS[:, 1:], (0, 1), value=-100)
    assert torch.allclose(network(IDS, labels=IDS * 0, shift_labels=moved).loss, mean)
    assert network.accepts_loss_kwargs
    assert not loaded(folder, "ForSequenceClassification").accepts_loss_kwargs


def test_labels_of_mntp_are_at_their_own_places(own_modules, tmp_path):
    folder = exported(f"{TINY.replace('mlm', 'mntp')} heads=3", tmp_path / "m")
    network = loaded(folder, "ForMaskedLM").eval()
    assert "the one after it" in type(network).__doc__
    shown = network(IDS, labels=torch.where(torch.arange(9) == 4, IDS, -100))
    wanted = torch.nn.functional.cross_entropy(shown.logits[:, 3], IDS[:, 4])
    assert torch.allclose(shown.loss, wanted)
