"""Heads of tasks, and adapters: classes of transformers come in, go out and say the same."""

from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bertc.base.diagnostics import DataError, UsageError
from bertc.hub.leaving.adapter_folder import export_adapter, merge
from bertc.hub.leaving.exporting import JOINED, TYPED, UNASKED, export_model
from bertc.hub.task_config import tasks_beside
from bertc.ir.learning.answer import Choice, Conditioned, Span, Tags
from bertc.ir.learning.custom_task import AnyTask, Choose, Classify, Read, Regress, Tag
from bertc.ir.learning.objective import Mlm, Nsp, Plm, Term
from bertc.ir.learning.task import Glue, Squad
from bertc.ir.methods.adapter import Lora
from bertc.ir.network import attention, positions
from bertc.ir.network.attention import DisentangledAttention, FullAttention, RelativeAttention
from bertc.ir.network.ffn import Glu
from bertc.ir.network.head import LinearHead, TransformHead
from bertc.ir.network.layer import Dropout
from bertc.ir.network.norm import PostNorm, PreNorm
from bertc.ir.network.sharing import ShareAll
from bertc.ir.program.resolved import Resolved, model_weights, trained_names
from bertc.ir.terms.node import weights_of_head
from bertc.ir.vocabulary import ByteBpe
from bertc.learn.objectives import TaskTargets
from bertc.learn.objectives.answers import answer_scores, span_scores
from bertc.model import Model, build
from bertc.model.weights import initial_values
from bertc.run.evaluation.task_lookup import task_of as asked_task
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load
from tests.hub import hf_models
from tests.hub.hf_models import DEBERTA, DISTIL, MODERN, MPNET, SMALL, XLM, XLNET, Case, case
from tests.hub.programs import Wordless, assert_same, program, tensors
from tests.hub.test_round_trip import close, encoded, inputs, stored

CHOICES = 3
BERT = {"classifier_dropout": 0.3}
THREE: dict[str, Any] = {
    "id2label": {0: "not at all", 1: 'a "bit"', 2: "yes"},
    "label2id": {"not at all": 0, 'a "bit"': 1, "yes": 2},
}
ONE: dict[str, Any] = {"num_labels": 1}
RELATIVE: dict[str, Any] = {
    "attention": RelativeAttention(untie=True, segments=True), "positions": positions.NoPositions(),
    "segments": 0, "norm": PostNorm(embeddings=False), "head": LinearHead(),
    "dropout": Dropout(hidden=0.1, attention=0.1, ffn=0.1, last=0.1),
}  # fmt: skip

GATED: dict[str, Any] = {
    "positions": positions.RotaryPositions(), "attention": FullAttention(bias=False),
    "activation": Glu(bias=False), "dropout": Dropout(hidden=0, attention=0), "segments": 0,
}  # fmt: skip
ROTARY = GATED | {"norm": PreNorm(eps=1e-5, bias=False, embeddings=True, first=False)}
ROTARY |= {"head": TransformHead(bias=False)}
RMS = GATED | {"head": LinearHead(bias=False, tied=False)}
RMS |= {"activation": Glu(kind="swiglu", bias=False), "norm": PreNorm(eps=1e-5, function="rms")}
ULTRA = RMS | {"attention": attention.LocalAttention(window=8, bias=False), "pooler": False}
DISENTANGLED: dict[str, Any] = {
    "attention": DisentangledAttention(buckets=8, distance=16), "segments": 0,
    "positions": positions.NoPositions(),
}  # fmt: skip

SC, TC = "ForSequenceClassification", "ForTokenClassification"
MC, QA = "ForMultipleChoice", "ForQuestionAnswering"


def cases(layout: str, sizes: dict[str, Any], *classes: str, **more: Any) -> list[Case]:
    """Classes of a layout with the same settings, on one layer: heads read what it hands on."""
    one = {name: 1 for name in sizes if name in ("num_hidden_layers", "n_layers", "n_layer")}
    return [case(layout + name, sizes | one, **more) for name in classes]


CASES = [
    *cases("Bert", SMALL, SC, MC, QA), *cases("Bert", SMALL, SC, TC, **THREE, **BERT),
    *cases("Bert", SMALL, SC, **ONE, problem_type="regression"),
    *cases("Bert", SMALL, SC, **THREE, problem_type="regression"),
    *cases("Bert", SMALL, SC, **THREE, problem_type="multi_label_classification"),
    *cases("Bert", SMALL, TC, tie_word_embeddings=False, problem_type="regression"),
    *cases("Roberta", SMALL, MC, QA), *cases("Roberta", SMALL, SC, TC, **THREE),
    *cases("Roberta", SMALL, SC, **ONE), *cases("XLMRoberta", SMALL, SC, TC, **THREE),
    *cases("Camembert", SMALL, MC, QA),
    *cases("Albert", SMALL, SC, TC, embedding_size=16, **THREE),
    *cases("Albert", SMALL, SC, embedding_size=16, **ONE),
    *cases("Albert", SMALL, MC, embedding_size=16, classifier_dropout_prob=0.2),
    *cases("Albert", SMALL, QA, embedding_size=16),
    *cases("XLM", XLM, SC, n_langs=2, **THREE), *cases("XLM", XLM, TC, **THREE),
    *cases("XLM", XLM, SC, **ONE, summary_first_dropout=0.0), *cases("XLM", XLM, f"{QA}Simple"),
    *cases("Electra", SMALL, SC, TC, embedding_size=16, **THREE),
    *cases("Electra", SMALL, SC, **ONE, summary_activation="tanh"),
    *cases("Electra", SMALL, MC, embedding_size=16, summary_activation="tanh"),
    *cases("Electra", SMALL, MC), *cases("Electra", SMALL, QA, embedding_size=24),
    *cases("Electra", SMALL, MC, summary_use_proj=False, summary_activation=""),
    *cases("XLNet", XLNET, SC, TC, **THREE), *cases("XLNet", XLNET, MC, f"{QA}Simple"),
    *cases("XLNet", XLNET, SC, **ONE, summary_last_dropout=0.4),
    *cases("DistilBert", DISTIL, SC, **THREE, seq_classif_dropout=0.3),
    *cases("DistilBert", DISTIL, TC, **THREE), *cases("DistilBert", DISTIL, SC, **ONE),
    *cases("DistilBert", DISTIL, MC), *cases("DistilBert", DISTIL, QA, qa_dropout=0.2),
    *cases("EuroBert", MODERN, SC, TC, num_attention_heads=6, **THREE),
    *cases("EuroBert", MODERN, SC, **ONE, classifier_pooling="mean"),
    *cases("EuroBert", MODERN, SC, num_labels=2, classifier_pooling="bos"),
    *cases("ModernBert", MODERN, MC, QA),
    *cases("ModernBert", MODERN, SC, **THREE, classifier_dropout=0.2),
    *cases("ModernBert", MODERN, SC, **ONE, classifier_pooling="mean", classifier_bias=True,
           norm_bias=True),
    *cases("ModernBert", MODERN, TC, **THREE, classifier_pooling="mean"),
    *cases("Ultrabert", hf_models.ULTRA, SC, TC, **THREE), *cases("Ultrabert", hf_models.ULTRA, QA),
    *cases("Ultrabert", hf_models.ULTRA, SC, **ONE, classifier_dropout=0.3),
    *cases("NomicBert", MODERN, SC, TC, **THREE), *cases("MPNet", MPNET, SC, TC, **THREE),
    *cases("MPNet", MPNET, SC, **ONE), *cases("MPNet", MPNET, MC, QA),
    *cases("DebertaV2", DEBERTA, SC, **THREE, cls_dropout=0.2),
    *cases("DebertaV2", DEBERTA, SC, **ONE, pooler_hidden_act="tanh"),
    *cases("DebertaV2", DEBERTA, MC, QA), *cases("DebertaV2", DEBERTA, TC, **THREE),
    *cases("Esm", hf_models.ROTARY_ESM, SC, TC, **THREE), *cases("Esm", hf_models.ESM, SC, **ONE),
    *cases("Esmc", hf_models.ESMC, SC, TC, **THREE, classifier_dropout=0.3),
    *cases("Qwen3", hf_models.DECODER, SC, TC, **THREE),
    *cases("Llama", hf_models.DECODER, SC, **ONE),
    *cases("Gemma3Text", hf_models.GEMMA, SC, **THREE),
    *cases("Mistral", hf_models.DECODER, SC, TC, **THREE, classifier_dropout=0.3, sliding_window=4),
]  # fmt: skip


def named(chosen: Case) -> str:
    labels = dict(chosen.settings).get("id2label", {})
    return f"{chosen.cls}-{dict(chosen.settings).get('num_labels', len(labels))}"


def task_of(model: Model) -> AnyTask:
    (task,) = model.resolved.stages[-1].tasks
    return task


def said(model: Model, task: AnyTask, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """What our head says of some rows, as the training step and ``predict`` compute it."""
    states, head, answer = encoded(model, batch), model.heads[task.title], task.answer
    if not task.pooled and model.encoder.node.pooled.of_tokens:
        states = model.encoder.pooler(states)
    if isinstance(answer, Span):
        one_bs = torch.ones_like(batch["input_ids"])
        first_b1, none = one_bs[:, :1] * 0, torch.zeros(0)
        asked = TaskTargets(first_b1, none, none, passage=one_bs.bool(), examples=one_bs)
        found = span_scores(asked, states, head)
        return found.starts, found.ends
    if isinstance(answer, Tags):
        return (answer_scores(answer, states, head),)
    body = model.resolved.encoder
    last = body.attention.kind == "relative" or body.causal
    whole = batch["attention_mask"].sum(1) - 1 if last else torch.zeros(len(states)).long()
    one = states[torch.arange(len(states)), whole][:, None]
    if model.encoder.pooler is not None and last:
        one = model.encoder.pool(one)
    elif model.encoder.pooler is not None:
        one = model.pool(states, batch["attention_mask"])[:, None]
    if isinstance(answer, Choice):
        answer = Choice(most=CHOICES)
    return (answer_scores(answer, one, head),)


def hf_says(reference: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    if "MultipleChoice" in type(reference).__name__:
        batch = {name: value[None] for name, value in batch.items()}
    output = reference(**batch)
    if "start_logits" in output:
        return output.start_logits, output.end_logits
    return (output.logits,)


def assert_says_the_same(ours: Model, reference: Any) -> None:
    for seq in (7, 16):
        batch = inputs(reference, seq)
        if type(reference).__name__.startswith("XLNet"):
            # What XLNet's classes read is the last state of a row: they pad on the left.
            batch["attention_mask"] = torch.ones_like(batch["attention_mask"])
        mask = batch["attention_mask"].bool()
        with torch.no_grad():
            pairs = zip(said(ours, task_of(ours), batch), hf_says(reference, batch), strict=True)
        for found, wanted in pairs:
            assert found.shape == wanted.shape
            per_token = found.shape[:2] == mask.shape
            assert close(found[mask], wanted[mask]) if per_token else close(found, wanted)


@pytest.mark.parametrize("chosen", CASES, ids=named)
def test_heads_come_in_and_go_out(chosen, tmp_path):
    reference = chosen.save(tmp_path / "in")
    ours = load(tmp_path / "in")
    assert_says_the_same(ours, reference)
    imported = import_model(tmp_path / "in")
    wordless = Wordless(reference.config.pad_token_id, cls_last=chosen.cls.startswith("XLNet"))
    exported = export_model(
        imported.resolved, imported.tensors, wordless, tmp_path / "out",
        strict=True, prefer=imported.config.model_type,
    )  # fmt: skip
    of_words = "TokenClass" in chosen.cls and isinstance(imported.resolved.vocabulary, ByteBpe)
    notes = (*(JOINED,) * of_words, *(TYPED,) * (imported.config.model_type in UNASKED))
    assert (exported.architecture, exported.notes) == (chosen.cls, notes)
    before, after = (stored(tmp_path / at) for at in ("in", "out"))
    assert before.keys() == after.keys()
    bare = "transformer.mask_emb"  # read by none of XLNet's tasks, so nothing of bertc's
    assert all(torch.equal(before[name], after[name]) for name in before if name != bare)
    again, info = type(reference).from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info.values()), info
    assert_says_the_same(ours, again.eval())
    assert import_model(tmp_path / "out").resolved.stages == imported.resolved.stages
    if "id2label" in dict(chosen.settings):
        assert again.config.id2label == reference.config.id2label
    assert dropout_of(again) == dropout_of(reference)


def dropout_of(model: Any) -> float:
    return next(
        (m.p for n, m in model.named_modules()
         if n in ("dropout", "classifier.dropout") or n.endswith(("first_dropout", "last_dropout"))
         and isinstance(m, torch.nn.Dropout)),
        0.0,
    )  # fmt: skip


OWN: list[tuple[dict[str, Any], AnyTask, str, str]] = [
    ({}, Glue(task="mrpc", data="x"), "BertForSequenceClassification", ""),
    ({}, Glue(task="stsb", data="x", dropout=0.2), "BertForSequenceClassification", ""),
    ({}, Choose(choices=("a", "b")), "BertForMultipleChoice", ""),
    ({}, Tag(labels=("O", "B-PER", "I-PER")), "BertForTokenClassification", ""),
    ({}, Squad(data="x", version=2), "BertForQuestionAnswering", ""),
    ({"positions": positions.LearnedPositions(rows=18, offset=1), "segments": 1},
     Regress(), "RobertaForSequenceClassification", ""),
    ({"embedding": 16, "share": ShareAll()}, Glue(task="mnli", data="x"),
     "AlbertForSequenceClassification", ""),
    (RELATIVE, Glue(task="rte", data="x"), "XLNetForSequenceClassification", ""),
    (RELATIVE | {"pooler": False}, Choose(), "XLNetForMultipleChoice", ""),
    ({"segments": 0, "head": LinearHead(), "ffn": 96, "pooler": False}, Classify(labels=("a", "b")),
     "XLMForSequenceClassification", ""),
    ({"segments": 0, "recipe": "distilbert"}, Glue(task="rte", data="x", dropout=0.2),
     "DistilBertForSequenceClassification", ""),
    ({"segments": 0, "recipe": "distilbert"}, Tag(labels=("a", "b")),
     "DistilBertForTokenClassification", ""),
    ({"segments": 0}, Glue(task="rte", data="x"), "", "pooler=true stands in the way: the Distil"),
    ({"pooler": "relu"}, Glue(task="rte", data="x"), "", "pooler=relu stands in the way: the BERT"),
    ({"recipe": "electra"}, Choose(), "ElectraForMultipleChoice", ""),
    ({"recipe": "electra", "embedding": 16}, Tag(labels=("a", "b")),
     "ElectraForTokenClassification", ""),
    ({"recipe": "electra", "layout": "auto"}, Tag(labels=("a", "b")),
     "BertForTokenClassification", ""),
    ({"pooler": False}, Glue(task="rte", data="x"), "", "pooler=false stands in the way: Bert"),
    ({"recipe": "electra", "pooler": True}, Glue(task="rte", data="x"), "",
     "pooler=true stands in the way: ElectraForSequenceClassification has gelu there"),
    ({"recipe": "electra", "pooler": "gelu"}, Regress(), "ElectraForSequenceClassification", ""),
    ({"segments": 0, "head": LinearHead(), "ffn": 96}, Choose(), "", "task=choose stands in the"),
    ({"segments": 0, "head": LinearHead(), "ffn": 96}, Regress(), "", "pooler=true stands in"),
    (ROTARY | {"pooler": "transform"}, Glue(task="mnli", data="x", dropout=0.0),
     "ModernBertForSequenceClassification", ""),
    (ROTARY | {"pooler": "mean-transform"}, Regress(dropout=0.2),
     "ModernBertForSequenceClassification", ""),
    (ROTARY | {"pooler": "transform"}, Choose(dropout=0.0), "ModernBertForMultipleChoice", ""),
    (ROTARY | {"pooler": "transform"}, Tag(labels=("a", "b"), dropout=0.0),
     "ModernBertForTokenClassification", ""),
    (ROTARY | {"pooler": "transform"}, Squad(data="x"), "ModernBertForQuestionAnswering", ""),
    (ROTARY | {"pooler": True}, Glue(task="rte", data="x"), "", "pooler=true stands in the way"),
    (ROTARY | {"pooler": False}, Tag(labels=("a", "b")), "", "pooler=false stands in the way"),
    (RMS | {"pooler": "gelu-mean"}, Glue(task="rte", data="x", dropout=0.0),
     "EuroBertForSequenceClassification", ""),
    (RMS | {"pooler": "gelu"}, Regress(dropout=0.0), "EuroBertForSequenceClassification", ""),
    (ULTRA, Glue(task="rte", data="x", dropout=0.0), "UltrabertForSequenceClassification", ""),
    (ULTRA | {"pooler": True}, Regress(), "", "pooler=true stands in the way: the UltraBERT"),
    (RMS | {"pooler": "gelu"}, Choose(), "", "task=choose stands in the way: EuroBERT"),
    (DISENTANGLED | {"pooler": "gelu"}, Glue(task="mnli", data="x", dropout=0.2),
     "DebertaV2ForSequenceClassification", ""),
    (DISENTANGLED | {"pooler": True}, Choose(), "DebertaV2ForMultipleChoice", ""),
    (DISENTANGLED | {"pooler": "gelu-mean"}, Regress(), "", "pooler=gelu-mean stands in the way"),
    ({"positions": positions.BucketedPositions(rows=18, offset=2), "segments": 0}, Regress(), "",
     "vocab stands in the way: the MPNet layout has the padding token at 1"),
    ({}, Squad(data="x", head=Conditioned()), "", "head=conditioned stands in the way"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "task", "cls", "obstacle"), OWN, ids=[f"{o[1].kind}-{o[2] or o[3]}" for o in OWN]
)
def test_what_was_learned_here_goes_out(settings, task, cls, obstacle, tmp_path):
    resolved = program(**{"steps": 9, "objective": (Term(objective=task),), **settings})
    weights = tensors(resolved)
    vocabulary = Wordless(0, cls_last=cls.startswith("XLNet"))
    exported = export_model(resolved, weights, vocabulary, tmp_path)
    assert exported.architecture == cls
    ours = load(tmp_path)
    assert ours.state_dict().keys() == weights.keys()
    assert all(torch.equal(p, weights[name]) for name, p in ours.named_parameters())
    if obstacle:
        (note,) = exported.notes
        assert note.startswith(obstacle)
        assert task_of(ours) == task
        with pytest.raises(DataError, match=obstacle):
            export_model(resolved, weights, Wordless(0), tmp_path / "strict", strict=True)
        return
    assert exported.notes == (TYPED,) * (exported.layout in UNASKED)
    reference, info = getattr(transformers, cls).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    assert_says_the_same(ours, reference.eval())
    back = task_of(ours)
    assert (back.title, back.answer.kind) == (task.title, task.answer.kind)
    assert getattr(back.answer, "names", ()) == getattr(task.answer, "names", ())
    if not isinstance(task.answer, Span):
        assert back.dropout == task.dropout


@pytest.mark.parametrize(
    "head", [Conditioned(), Conditioned(width=12), Conditioned(width=12, units="gelu-tanh")]
)
def test_a_head_in_another_file_is_known_by_its_weights(head):
    task = Read(name="there", head=head, unanswerable=True)
    shapes = {f"heads.{w.name}": w.shape for w in weights_of_head(task, program().encoder)}
    assert tasks_beside(shapes) == (Read(name="there", head=head, unanswerable=True),)


def test_heads_that_a_class_cannot_hold_go_to_another_file(tmp_path):
    """The last stage's first task is held; heads of pretraining and of other tasks are beside."""
    asked = Squad(data="x", head=Conditioned(), version=2)
    both = Tag(name="pos", labels=("a", "b", "c")), Glue(task="mnli", data="x")
    learned = {"text": (Mlm(), Nsp()), "read": (asked,), "both": both}
    resolved = program({name: tuple(Term(objective=o) for o in of) for name, of in learned.items()})
    weights = tensors(resolved)
    exported = export_model(resolved, weights, Wordless(0), tmp_path)
    assert exported.architecture == "BertForTokenClassification"
    (note,) = exported.notes
    lost = "mlm, mnli, nsp, pooler, squad"
    assert note.startswith(f"BertForTokenClassification cannot hold {lost}: ")
    back = import_model(tmp_path)
    assert_same(back.tensors, weights)
    kinds = {t.name: t.objective.kind for t in back.resolved.terms()}
    assert kinds == {"mlm": "mlm", "nsp": "nsp", "pos": "tag", "mnli": "classify", "squad": "read"}
    assert any("is unknown" in note and "mnli" in note for note in back.notes)


@pytest.mark.parametrize("names", ["rte text", "plm rte"])
def test_the_last_stage_decides_which_head_is_held(names, tmp_path):
    """Pretraining's after more text; a task's after XLNet's, whose unseen vector stays."""
    known = {"rte": Glue(task="rte", data="x"), "text": Mlm(), "plm": Plm()}
    stages = {name: (Term(objective=known[name]),) for name in names.split()}
    permuted = "plm" in stages
    resolved = program(stages, **(RELATIVE if permuted else {}))
    weights = tensors(resolved)
    exported = export_model(resolved, weights, Wordless(0, cls_last=permuted), tmp_path)
    assert exported.architecture == (f"XLNet{SC}" if permuted else "BertForMaskedLM")
    assert_same(import_model(tmp_path).tensors, weights)


UNREAD = "left: classifier.bias, classifier.weight"
LEFT: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"id2label": {"0": "a", "1": "a", "2": "b"}}, ("id2label",)),
    ({"id2label": {"0": "a", "1": "b", "3": "c"}}, ("id2label",)),
    ({"id2label": {"0": "a", "1": "b", "2": "c"}, "num_labels": 2}, ("num_labels = 2",)),
    ({"id2label": {}}, ("num_labels = 0",)),
    ({"architectures": ["BertForMaskedLM"]},
     (UNREAD, "the weights have no mlm head, which BertForMaskedLM")),
    ({"architectures": None}, (UNREAD,)),
    ({"architectures": ["BertForQuestionAnswering"]},
     (UNREAD, "config.json names BertForQuestionAnswering, and the weights have no qa_outputs")),
    ({"architectures": ["BertForMoods"]}, ("no task of bertc has a head as BertForMoods has",)),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "messages"), LEFT)
def test_a_head_of_no_task_is_left_out_with_a_note(changes, messages, tmp_path):
    case("BertForSequenceClassification", SMALL, **THREE).save(tmp_path)
    hf_models.respell(tmp_path, **changes)
    imported = import_model(tmp_path)
    for message in messages:
        assert any(message in note for note in imported.notes)
    assert not [task for stage in imported.resolved.stages for task in stage.tasks]
    assert imported.resolved.encoder.pooler
    with pytest.raises(UsageError, match="this run has learned no task"):
        asked_task(load(tmp_path).resolved, "")
    held = load_file(tmp_path / "model.safetensors")
    rest = {name: tensor for name, tensor in held.items() if "pooler" not in name}
    save_file(rest, tmp_path / "model.safetensors", metadata={"format": "pt"})
    hf_models.respell(tmp_path, architectures=["BertForSequenceClassification"])
    imported = import_model(tmp_path)
    assert any("a head whose pooler pooler.dense is not there" in n for n in imported.notes)
    assert not [task for stage in imported.resolved.stages for task in stage.tasks]


@pytest.mark.parametrize(
    ("cls", "sizes", "more", "message"),
    [
        (f"Electra{MC}", SMALL, {"summary_activation": "relu"}, "summary_activation"),
        (f"XLNet{SC}", XLNET, {"summary_type": "mean"}, 'summary_type = "mean"'),
        (f"XLM{MC}", XLM, {}, f"no task of bertc has a head as XLM{MC}"),
        (f"Bert{QA}", SMALL, {"num_labels": 3}, "num_labels = 3"),
        *((f"{name}{TC}", sizes, {"num_labels": 1}, "num_labels = 1")
          for name, sizes in {"Bert": SMALL, "ModernBert": MODERN}.items()),
    ],
)  # fmt: skip
def test_heads_that_compute_something_else_are_left(cls, sizes, more, message, tmp_path):
    case(cls, sizes, **more).save(tmp_path)
    assert any(message in note for note in import_model(tmp_path).notes)


def test_an_older_pooler_that_nobody_reads(tmp_path):
    """RoBERTa's files had one next to their head; BERT's of tags and spans keep theirs."""
    folders = tmp_path / "roberta", tmp_path / "bert"
    for folder, cls in zip(folders, (f"Roberta{SC}", f"Bert{TC}"), strict=True):
        case(cls, SMALL, **THREE).save(folder)
        held = load_file(folder / "model.safetensors")
        held[f"{folder.name}.pooler.dense.weight"] = torch.ones(24, 24)
        held[f"{folder.name}.pooler.dense.bias"] = torch.full((24,), 5.0)
        save_file(held, folder / "model.safetensors", metadata={"format": "pt"})
    roberta, bert = map(import_model, folders)
    assert any("left: roberta.pooler.dense.bias, " in note for note in roberta.notes)
    assert roberta.resolved.encoder.pooler
    assert torch.equal(bert.tensors["encoder.pooler.bias"], torch.full((24,), 5.0))


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ({}, ("LABEL_0", "LABEL_1")), ({"id2label": {"0": -1, "1": 0}}, ("-1", "0")),
        ({"id2label": None, "label2id": None}, ("LABEL_0", "LABEL_1")),
    ],
)  # fmt: skip
def test_labels_keep_their_names(written, labels, tmp_path):
    case("BertForSequenceClassification", SMALL).save(tmp_path / "in")
    hf_models.respell(tmp_path / "in", **written)
    imported = import_model(tmp_path / "in")
    (task,) = imported.resolved.stages[-1].tasks
    assert task.labels == labels
    export_model(imported.resolved, imported.tensors, Wordless(0), tmp_path / "out", strict=True)
    assert hf_models.config_of(tmp_path / "out")["id2label"] == dict(zip("01", labels, strict=True))


def test_notes_say_what_a_head_became(tmp_path):
    case("BertForSequenceClassification", SMALL, **THREE, finetuning_task="mrpc").save(tmp_path)
    (note,) = import_model(tmp_path).notes
    assert note == (
        'the head of BertForSequenceClassification becomes the task classify(name="mrpc") with '
        'labels not at all, a "bit", yes'
    )
    for title in ("mlm", "no name!"):
        hf_models.respell(tmp_path, finetuning_task=title)
        assert task_of(load(tmp_path)).title == "classify"
    hf_models.respell(tmp_path, finetuning_task=7)
    pytest.raises(DataError, import_model, tmp_path).match("finetuning_task = 7")


ALL = Lora(rank=3, alpha=7, on=("attention", "ffn"))
PARTS = Lora(rank=2, alpha=3, on=("query", "value", "inner", "output"))
ADAPTED = [
    (case("BertForSequenceClassification", SMALL), ALL),
    (case("RobertaForTokenClassification", SMALL), Lora(rank=2)),
    (case("AlbertForSequenceClassification", SMALL), ALL),
    (case("DistilBertForQuestionAnswering", DISTIL), Lora(rank=2, on="ffn")),
    (case("DebertaV2ForSequenceClassification", DEBERTA), Lora(rank=3, on="attention")),
    (case("ModernBertForSequenceClassification", MODERN), PARTS),
]


def adapted(folder: Any, adapt: Lora) -> tuple[Resolved, dict[str, torch.Tensor]]:
    """The program and weights of a folder with pairs that have learned something."""
    imported = import_model(folder)
    update = {"encoder": imported.resolved.encoder.model_copy(update={"adapt": adapt})}
    stages = tuple(stage.model_copy(update=update) for stage in imported.resolved.stages)
    resolved = imported.resolved.model_copy(update={"stages": stages})
    pairs = [weight for weight in model_weights(resolved) if weight.part == "adapter"]
    torch.manual_seed(0)
    drawn = {w.name: initial_values(w, 1) + 0.1 * torch.randn(w.shape) for w in pairs}
    return resolved, imported.tensors | drawn


def loaded(resolved: Resolved, tensors: dict[str, torch.Tensor]) -> Model:
    """The model, whose weights have gradients where its last stage trains them."""
    model, learned = build(resolved).eval(), trained_names(resolved.stages[-1])
    model.load_state_dict(tensors)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name in learned)
    return model


@pytest.mark.filterwarnings("ignore")  # peft's, about what transformers will change
@pytest.mark.parametrize(("chosen", "adapt"), ADAPTED, ids=lambda one: getattr(one, "cls", ""))
def test_peft_says_and_learns_the_same(chosen: Case, adapt: Lora, tmp_path):
    peft = pytest.importorskip("peft")
    reference = chosen.save(tmp_path / "base")
    resolved, tensors = adapted(tmp_path / "base", adapt)
    ours, whole = loaded(resolved, tensors), loaded(*merge(resolved, tensors))
    batch, task = inputs(reference, 24), task_of(ours)
    rest = "base", Wordless(reference.config.pad_token_id), tmp_path / "adapter"
    layout = reference.config.model_type
    assert export_adapter(resolved, tensors, *rest, layout).architecture == chosen.cls
    pairs = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    beside = peft.PeftModel.from_pretrained(reference, rest[2], is_trainable=True).eval()
    found = said(ours, task, batch), hf_says(beside.base_model.model, batch)
    for mine, there, merged_too in zip(*found, said(whole, task, batch), strict=True):
        torch.testing.assert_close(mine, there, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(mine, merged_too, atol=1e-5, rtol=1e-5)
    real_bs = batch["attention_mask"].bool()
    for scores in found:  # but those of padding
        real = [one[real_bs] if one.shape[:2] == real_bs.shape else one for one in scores]
        torch.cat([one.sin().flatten() for one in real]).sum().backward()
    slopes = {name: p.grad for name, p in ours.named_parameters() if p.grad is not None}
    assert slopes.keys() == trained_names(resolved.stages[-1])
    export_adapter(resolved, tensors | slopes, *rest, layout)
    there = {
        name.replace(".default", "").replace(".modules_to_save", ""): p.grad
        for name, p in beside.named_parameters()
        if p.grad is not None
    }
    mine = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert mine.keys() == there.keys()
    for key, slope in mine.items():
        # Of maps that are one there, each has its own part of the second map.
        part = pairs[key].ne(0) if ".lora_B." in key else torch.ones_like(slope)
        torch.testing.assert_close(slope, there[key] * part, atol=1e-5, rtol=1e-4)


def test_a_layout_without_matrices_is_refused(tmp_path):
    case("XLNetForSequenceClassification", XLNET).save(tmp_path / "base")
    resolved, tensors = adapted(tmp_path / "base", Lora(rank=2))
    with pytest.raises(DataError, match="as no matrix"):
        export_adapter(resolved, tensors, "base", Wordless(0), tmp_path / "adapter", "xlnet")
    assert not (tmp_path / "adapter").exists()
