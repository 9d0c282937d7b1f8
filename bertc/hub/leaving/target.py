"""The Hugging Face family and class for a model, before training and at export. No torch."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from bertc.base.diagnostics import Diagnostic, Diagnostics
from bertc.hub.families import family_for
from bertc.hub.families.family import Family, HfClass, Obstacle, transformer
from bertc.hub.gliner import class_of
from bertc.hub.keys import keys, part_of, parts_of
from bertc.hub.networks import alone
from bertc.ir import vocabulary
from bertc.ir.learning import AnyTask, Labels, NamedSpans, Score, Several, Span, Spans, Tags, Vector
from bertc.ir.learning.vector_task import Rerank, ScoreActivation
from bertc.ir.network.body import first_position
from bertc.ir.network.encoder import Encoder, outer_weights
from bertc.ir.network.head import PoolerKind
from bertc.ir.program import MAIN, AnyStage, Complete, Origin
from bertc.ir.program.resolved import Resolved, head_weights
from bertc.ir.program.settings import canonical
from bertc.ir.terms.node import LanguageModel, weights_of_head
from bertc.lang.write.show import show_value

ACTIVATIONS: Mapping[ScoreActivation, str] = {
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
    "identity": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
}
"""Activations of one score in a CrossEncoder of sentence-transformers."""


def target_of(
    program: Resolved, names: Iterable[str], pad: int, prefer: str | None = None
) -> tuple[Family, HfClass] | Obstacle:
    """The family and class for one network with weights of these names, or the obstacle."""
    learned = {term.objective.head_name for term in program.terms()} | {"pooler"}
    names = [*names]
    if program.encoder.head.decoder:  # which no class of transformers has
        terms = (term.objective for term in program.terms())
        learned -= {term.head_name for term in terms if term.states.decoded}
    # A tied head without a bias has no weights.
    tied = (t.objective for t in program.terms() if isinstance(t.objective, LanguageModel))
    bare = {term.head_name for term in tied if not weights_of_head(term, program.encoder)}
    parts = (parts_of(names) | bare) & learned
    stages = list[AnyStage]()
    for stage in program.stages:  # without terms whose heads are absent
        learned_terms = tuple(t for t in stage.objective if t.objective.head_name in parts)
        stages.append(stage.model_copy(update={"objective": learned_terms}))
    family = family_for(program.model_copy(update={"stages": tuple(stages)}), pad, prefer)
    if isinstance(family, Obstacle):
        return family
    task = exported_task(program, parts)
    if task is not None:
        holder = task_class(family, task, "pooler" in parts and program.encoder.pooler)
        return holder if isinstance(holder, Obstacle) else (family, holder)
    # A head that the layout has in part only is none of its own.
    without = {part_of(n) for n in set(names) - set(keys(family, transformer(program), names, {}))}
    return family, family.class_for(parts - without) or family.classes[-1]


def exported_task(program: Resolved, parts: frozenset[str]) -> AnyTask | None:
    """The task whose head is exported: the first of the last stage, if its head is there."""
    tasks = [task for task in program.stages[-1].tasks if not isinstance(task.answer, Vector)]
    return next((task.judged for task in tasks if task.title in parts), None)


def task_class(family: Family, task: AnyTask, pooler: PoolerKind) -> HfClass | Obstacle:
    """The class for a task on an encoder with such a pooler or without, or the obstacle."""
    answer = task.answer
    if isinstance(answer, Span) and answer.head.kind == "conditioned":
        why = "the classes for spans score start and end independently"
        return Obstacle("head=conditioned", why, f"task={task.kind}(..., head=plain)")
    if isinstance(task, Spans):
        return class_of(task.title, *["pooler"] * bool(pooler))
    if beyond := beyond_last(task):
        return beyond
    heads = family.tasks
    holder = next((c for c in heads.classes if answer.kind in c.kinds), None)
    if holder is None:
        return Obstacle(f"task={task.kind}", heads.otherwise)
    if holder.pooler == "read" and not pooler:
        usual = f"pooler={family.usual_pooler}"
        return Obstacle("pooler=false", f"{holder.name} reads the pooler", usual)
    if holder.pooler == "refused" and pooler:
        return Obstacle("pooler=true", f"{holder.name} has no pooler", "pooler=false")
    summary = family.poolers[pooler] if pooler else {}
    if summary and not holder.always.items() <= summary.items():
        kind = next(k for k, s in family.poolers.items() if holder.always.items() <= s.items())
        instead = f"pooler={str(kind).lower()}"
        return Obstacle(f"pooler={str(pooler).lower()}", f"{holder.name} has {kind} there", instead)
    chosen = holder.holding(task.title, bool(pooler))
    rate = {holder.dropout or heads.dropout: task.dropout}
    return replace(chosen, settings={**settings_of(task), **rate, **summary, **chosen.settings})


def beyond_last(task: AnyTask) -> Obstacle | None:
    """The obstacle that a head is more than a linear layer on last states; None if it is not."""
    if task.recurrent:
        why = "heads elsewhere are linear layers on last states"
        return Obstacle("head=bilstm", why, f"task={task.kind}(..., head=linear)")
    if isinstance(task.answer, NamedSpans):
        why = "classes of transformers score no spans against names"
        return Obstacle(f"task={task.kind}", why, "bertc predict and import bertc answer it")
    if not task.reads_last_alone:
        why = "heads elsewhere read the last layer alone"
        return Obstacle(f"features={task.features.kind}", why, "features=last")
    return None


def settings_of(task: AnyTask) -> Mapping[str, Any]:
    """Settings of ``config.json`` for a task: title and labels."""
    title = {"finetuning_task": task.title}
    if isinstance(task, Rerank):
        settings = {"activation_fn": ACTIVATIONS[task.activation]}
        return {**title, **_labels(("LABEL_0",)), "sentence_transformers": settings}
    match task.answer:
        case Labels(names=names):
            return {**title, **_labels(names), "problem_type": "single_label_classification"}
        case Several(names=names):
            return {**title, **_labels(names), "problem_type": "multi_label_classification"}
        case Tags(names=names):
            return {**title, **_labels(names)}
        case Score(names=names):
            return {**title, **_labels(names or ("LABEL_0",)), "problem_type": "regression"}
    return title


def _labels(names: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id2label": {str(n): name for n, name in enumerate(names)},
        "label2id": {name: n for n, name in enumerate(names)},
        "num_labels": len(names),
    }


def remark_own_layout(program: Complete, resolved: Resolved, diagnostics: Diagnostics) -> None:
    """Remark that no layout fits the trained model, unless settings of a shipped spec say so."""
    # Neither sizes of batches nor layers matter, and a thousand points with hundreds take long.
    by_network = {id(stage.encoder): stage for stage in resolved.stages}
    encoder = alone(resolved.model_copy(update={"stages": tuple(by_network.values())}))
    body = encoder.encoder
    outer = outer_weights(body) if isinstance(body, Encoder) else body.weights()
    names = [f"{MAIN}.{weight.name}" for weight in outer]
    names += [f"heads.{weight.name}" for weight in head_weights(encoder)]
    target = target_of(encoder, names, padding(resolved))
    if isinstance(target, Obstacle):
        obstacle, origins = target, _settings(program, target, resolved.encoder.settings())
    elif of_method := _of_methods(program):
        obstacle, origins = of_method
    else:
        return
    spans = [origin.span for origin in origins if origin.span]
    unshipped = [span for span in spans if not span.source.name.startswith("shipped ")]
    if spans and not unshipped:
        return
    cause = f"is exported with its own code: {obstacle.setting} stands in the way"
    message = f"the trained model fits no layout of transformers and {cause}"
    span = unshipped[0] if unshipped else None
    diagnostics.remark(Diagnostic("R108", message, span, label=obstacle.why, help=obstacle.instead))


def padding(resolved: Resolved) -> int:
    """The id of the padding token; the layout's if the tokenizer is read from a file."""
    match resolved.vocabulary:
        case vocabulary.ByteBpe() | vocabulary.Unigram(specials="roberta"):
            return 1
        case (
            vocabulary.WordPiece() | vocabulary.Unigram() | vocabulary.Words() | vocabulary.Bytes()
        ):
            return 0
        case vocabulary.Characters(specials=specials) | vocabulary.Kmers(specials=specials):
            return int(specials != "bert")
        case (
            vocabulary.Listed()
            | vocabulary.TokenizerFile()
            | vocabulary.Extended()
            | vocabulary.Trimmed()
        ):
            return max(0, first_position(resolved.encoder) - 1)


def _of_methods(program: Complete) -> tuple[Obstacle, list[Origin]] | None:
    """A method after which no layout will hold the network, and where it is written."""
    for stage in program.stages:
        for method in stage.methods:
            if method.not_exported:
                why, instead = method.not_exported
                texts = (f"{method.setting}={show_value(value)}" for value in (method, instead))
                return Obstacle(next(texts), why, next(texts)), [stage.origins[method.setting]]
    return None


def _settings(program: Complete, obstacle: Obstacle, of_network: Iterable[str]) -> list[Origin]:
    """Origins of the settings that an obstacle names, its own setting first."""
    last, texts = program.stages[-1], f"{obstacle.setting} {obstacle.instead}"
    if obstacle.instead.startswith("task="):  # its head is that of the task, not of the network
        texts = obstacle.instead
    names = re.findall(r"[a-z_]+", re.sub(r"=\S*|\.\S*", "", re.sub(r"\(.*?\)", "", texts)))
    settings = [*map(canonical, names)]
    if not any(name in last.origins and last.span(name) for name in settings):
        settings = [*of_network]  # that what was written leads to it
    return [last.origins[setting] for setting in settings if setting in last.origins]
