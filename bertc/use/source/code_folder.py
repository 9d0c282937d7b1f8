"""``bertc export --code``: a folder that AutoModel loads, with the program's own classes in it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from bertc.base.diagnostics import DataError, listed
from bertc.hub.exporting import BESIDE, CODE, TRANSFORMERS, Exported, save_tokenizer
from bertc.hub.families.tokens import Tokens
from bertc.hub.folder import replacing
from bertc.hub.target import beyond_last
from bertc.hub.tensors import write_tensors
from bertc.ir.learning.answer import Choice, Labels, Score, Several, Span, Tags, told_names
from bertc.ir.learning.task import Task
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.table import AdaptiveTable
from bertc.ir.program.resolved import Resolved
from bertc.ir.terms.heads import Classifier
from bertc.model import build
from bertc.use.source import checking
from bertc.use.source.hub_source import head_of_tokens, modeling_source
from bertc.use.source.outputs import encoder_outputs, language_scores

CLASSES = (
    "MaskedLM", "CausalLM", "SequenceClassification", "TokenClassification", "QuestionAnswering",
    "MultipleChoice",
)  # fmt: skip
"""Uses of the file's classes, as transformers names them."""


def export_code(
    resolved: Resolved, tensors: Mapping[str, Tensor], vocabulary: Tokens, folder: Path
) -> Exported:
    """Write a folder with the program's own classes, which ``trust_remote_code=True`` loads.

    Raises:
        DataError: naming what no class of transformers can hold.
    """
    _refuse_unsayable(resolved)
    name = "".join(part.title() for part in re.findall("[a-zA-Z0-9]+", resolved.name)) or "Encoder"
    name = name if name[0].isalpha() else f"Encoder{name}"
    kind, placed = _placed(resolved, tensors)
    beside = {key: tensor for key, tensor in tensors.items() if key not in placed}
    ready = {placed[key]: tensor for key, tensor in tensors.items() if key in placed}
    source = modeling_source(resolved, name, vocabulary.cls_last)
    _check(source, f"{name}{kind}", resolved, tensors, ready)
    file = f"modeling_{name.lower()}"
    config = _config(resolved, vocabulary, name, kind)
    with replacing(folder) as fresh:
        (fresh / f"{file}.py").write_text(source, encoding="utf-8")
        (fresh / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        write_tensors(fresh / "model.safetensors", ready)
        if beside:
            write_tensors(fresh / BESIDE, beside)
        save_tokenizer(vocabulary, fresh, resolved)
    notes = [f"its classes are in {file}.py: load it with trust_remote_code=True"]
    if beside:
        parts = sorted({".".join(key.split(".")[:2]) for key in beside})
        notes.append(f"{listed(parts)}: written to {BESIDE}, for bertc alone")
    return Exported(folder, CODE, f"AutoModel{kind.removeprefix('Model')}", tuple(notes))


def _refuse_unsayable(resolved: Resolved) -> None:
    """Refuse networks that the classes cannot hold."""
    body = resolved.encoder
    reasons = {
        f"body={body.body_kind}": not isinstance(body, Encoder),
        "head=transform(decoder)": body.head.decoder > 0,
        "languages": bool(body.languages),
        "table=adaptive": isinstance(body.table, AdaptiveTable),
    }
    for what in (reason for reason, holds in reasons.items() if holds):
        raise DataError(
            f"{what} stands in the way: no class of transformers calls such a network",
            help="bertc build SPEC -o FILE.py writes it as a file of PyTorch",
        )
    for task in resolved.stages[-1].tasks:
        if beyond := beyond_last(task):
            raise DataError(str(beyond), help=beyond.way_out)


def _check(
    source: str,
    name: str,
    resolved: Resolved,
    tensors: Mapping[str, Tensor],
    ready: Mapping[str, Tensor],
) -> None:
    """Compare the class that is written, with its weights, with bertc's modules."""
    kind, body = checking.run_source(source)[name], resolved.encoder
    labels = len(ready.get("classifier.bias", ())) or 2
    network = kind(kind.config_class(vocab_size=body.vocab_size, num_labels=labels)).eval()
    base = "" if hasattr(network, "model") else "model."
    weights = {key.removeprefix(base): tensor for key, tensor in ready.items()}
    # The pooler is left out where a class does not read it.
    network.load_state_dict({key: weights[key] for key in network.state_dict() if key in weights})
    model = build(resolved, device="meta").eval()
    model.load_state_dict(tensors, assign=True, strict=False)
    arguments = checking.random_inputs(model, *checking.SHAPES[-1])
    real = arguments["attention_mask"].bool()  # states of padding are nobody's
    passed = {"input_ids": arguments["token_ids"], "attention_mask": arguments["attention_mask"]}
    if body.kinds_of_segments > 1:
        passed["token_type_ids"] = arguments["segment_ids"]
    head = head_of_tokens(resolved) if name.endswith("LM") else None

    def written() -> dict[str, Tensor]:
        shown = network(**passed, output_hidden_states=True)
        results = {"states": shown.hidden_states[-1][real]}
        return results | ({head.term: shown.logits[real]} if head else {})

    def expected() -> dict[str, Tensor]:
        states = encoder_outputs(model, checking.inputs_of(arguments))["states"]
        scores = {head.term: language_scores(model, head.term, states)[real]} if head else {}
        return {"states": states[real], **scores}

    for result, apart in checking.named_differences(written, expected, {}):
        checking.refuse_difference(result, apart)


def _placed(resolved: Resolved, tensors: Mapping[str, Tensor]) -> tuple[str, dict[str, str]]:
    """The class that holds the most of a model, and its weights' names by bertc's."""
    placed = {name: f"model.{name}" for name in tensors if name.startswith("encoder.")}
    tasks, scores = resolved.stages[-1].tasks, head_of_tokens(resolved)
    if len(tasks) == 1 and isinstance(tasks[0].head_node, Classifier):
        head = f"heads.{tasks[0].head_name}."
        if kind := _kind_of(tasks[0]):
            names = (name for name in tensors if name in (f"{head}weight", f"{head}bias"))
            return kind, placed | {n: f"classifier.{n.removeprefix(head)}" for n in names}
    if scores:
        of_head = [name for name in tensors if name.startswith(f"heads.{scores.term}.")]
        if of_head or not tasks:
            return scores.kind, placed | {name: name for name in of_head}
    return "Model", placed


def _kind_of(task: Task) -> str:
    match task.answer:
        case Labels() | Several() | Score():
            return "ForSequenceClassification"
        case Tags():
            return "ForTokenClassification"
        case Span():
            return "ForQuestionAnswering"
        case Choice():
            return "ForMultipleChoice"
    return ""


def _config(resolved: Resolved, vocabulary: Tokens, name: str, kind: str) -> dict[str, Any]:
    """The configuration: sizes, classes and labels."""
    file, scores = f"modeling_{name.lower()}", head_of_tokens(resolved)
    written = {"AutoConfig": f"{file}.{name}Config", "AutoModel": f"{file}.{name}Model"}
    for what in CLASSES:
        if not what.endswith("LM") or (scores and scores.kind == f"For{what}"):
            written[f"AutoModelFor{what}"] = f"{file}.{name}For{what}"
    config: dict[str, Any] = {
        "model_type": f"bertc_{name.lower()}",
        "architectures": [f"{name}{kind}"],
        "auto_map": written,
        "vocab_size": resolved.encoder.vocab_size,
        "pad_token_id": vocabulary.pad,
        "transformers_version": TRANSFORMERS,
    }
    for task in resolved.stages[-1].tasks[:1]:
        answer = task.answer
        if names := answer.names if isinstance(answer, Score) else told_names(answer):
            config["id2label"] = dict(enumerate(names))
            config["label2id"] = {label: n for n, label in enumerate(names)}
        if isinstance(answer, Several):
            config["problem_type"] = "multi_label_classification"
        if isinstance(answer, Score):
            config |= {"num_labels": answer.width, "problem_type": "regression"}
    return config
