"""A resolved program, where estimate, build and train start: its run, its stages, its weights."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import not_
from typing import Annotated, Any, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from bertc.ir.base import ONES, Constant, Node, Normal, Weight, once
from bertc.ir.data import Prepared, Share
from bertc.ir.learning import Hours, Term
from bertc.ir.methods.ending import Timed
from bertc.ir.network.body import Body
from bertc.ir.network.encoder import DECODER
from bertc.ir.program.network import MAIN, Network
from bertc.ir.program.passing import is_frozen
from bertc.ir.program.settings import FREE, HfLayout, RunSettings, StageSettings, Tracker, layout_of
from bertc.ir.program.stage import AnyStage, Stage
from bertc.ir.terms.node import asks_head, weights_of_head, weights_of_heads
from bertc.ir.vocabulary import Vocabulary, table_rows


class Kept(Node):
    """A checkpoint that stays: after ``step`` steps, which reach ``words`` words, if any."""

    step: int
    words: int = 0

    @property
    def name(self) -> str:
        """Its name as a revision: ``step-1000``, or ``chck_10M`` as the BabyLM challenge has it."""
        return f"chck_{self.words / 10**6:.12g}M" if self.words else f"step-{self.step}"


class Run(Timed, RunSettings):
    """The settings of a whole run, the time that ends it, and the checkpoints that stay.

    A dump omits ``layout`` where it follows from ``recipe``, so that programs written before it was
    a setting read back unchanged and keep their fingerprints.
    """

    layout: HfLayout = Field(default_factory=lambda run: layout_of(run["recipe"]))
    save_at: Annotated[tuple[Kept, ...], Field(exclude_if=not_)] = ()

    @property
    def without_recipe(self) -> Self:
        """The run with no recipe, and no layout that follows from it."""
        follows = self.layout == layout_of(self.recipe)
        layout = layout_of("bert") if follows else self.layout
        return self.model_copy(update={"recipe": "bert", "layout": layout})

    @property
    def trackers(self) -> tuple[Tracker, ...]:
        """The trackers that ``log`` names, each once."""
        named = self.log if isinstance(self.log, tuple) else (self.log,)
        return tuple(dict.fromkeys(name for name in named if name != "none"))

    @model_serializer(mode="wrap")
    def _without_derived(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = dump(self)
        if self.layout == layout_of(self.recipe):
            dumped.pop("layout", None)
        return dumped


class Resolved(Node):
    """A program after all passes."""

    name: str
    stages: tuple[AnyStage, ...]
    vocabulary: Vocabulary
    languages: tuple[str, ...]
    run: Run
    origins: dict[str, str] = Field(default_factory=dict)

    @property
    def encoder(self) -> Body:
        """The body of the main network after the last stage."""
        return self.stages[-1].encoder

    @property
    def adds_tables(self) -> bool:
        """True if tables of the main network are differences, added to another network's."""
        return any(tie.added for network in self.learned for tie in network.ties)

    @property
    def learned(self) -> tuple[Network, ...]:
        """Networks that the run changes, saves and exports, after the last stage."""
        return self.stages[-1].learned

    @property
    def steps(self) -> int:
        """Optimiser steps of the whole run."""
        return sum(stage.steps for stage in self.stages)

    @property
    def length(self) -> int | Hours:
        """Its steps, or the time that ends it, as a spec says them."""
        return next((Hours(hours=timed.hours) for timed in self.run.methods), self.steps)

    def steps_by(self, step: int, seconds: float) -> int:
        """Its steps; of a time those at the pace of the first ``step``, in ``seconds``."""
        if not (most := self.run.most_seconds):
            return self.steps
        return round(step * max(1.0, most / seconds)) if seconds else step

    def of_steps(self, steps: int) -> "Resolved":
        """The program of one stage with these steps, in place of its time."""
        (stage,) = self.stages
        warmup = stage.optimizer.warmup_steps(steps)
        update = {"steps": steps, "schedule_steps": steps, "warmup_steps": warmup}
        run = self.run.model_copy(update=dict(Timed()))
        return self.model_copy(update={"stages": (stage.model_copy(update=update),), "run": run})

    def words_by(self, step: int) -> int:
        """Words read in the first ``step`` steps; 0 where they are not counted."""
        read = (
            min(s.steps, max(0, step - s.first_step)) * s.batch * s.row_words for s in self.stages
        )
        return round(sum(read))

    def terms(self) -> tuple[Term, ...]:
        """One term for each name trained in any stage, in order of appearance."""
        first: dict[str, Term] = {}
        for stage in self.stages:
            for term in stage.objective:
                first.setdefault(term.name, term)
        return tuple(first.values())

    def stage_at(self, step: int) -> AnyStage:
        """The stage of step ``step`` (from 0); the last one for later steps."""
        reaching = (stage for stage in self.stages if step < stage.first_step + stage.steps)
        return next(reaching, self.stages[-1])

    def stage_after(self, step: int) -> AnyStage:
        """The stage whose network the run has after ``step`` steps, before the next one starts."""
        return self.stage_at(max(0, step - 1))

    def as_in(self, network: Stage) -> "Resolved":
        """The program as if every stage trained the networks of ``network``."""
        networks = {"encoder": network.encoder, "generator": network.generator}
        return self.with_stages(lambda stage: {**networks, "grow": None})

    def with_stages(self, change: Callable[[AnyStage], Mapping[str, Any]]) -> Self:
        """The program with some fields of each stage replaced."""
        stages = (stage.model_copy(update=change(stage)) for stage in self.stages)
        return self.model_copy(update={"stages": tuple(stages)})

    def with_vocabulary(self, vocabulary: Vocabulary) -> "Resolved":
        """The program with another vocabulary, and token tables of its size in every stage."""
        size = {"vocab_size": table_rows(vocabulary)}

        def resize(stage: AnyStage) -> dict[str, Body]:
            bodies = {"encoder": stage.encoder, "generator": stage.generator}
            return {name: body.model_copy(update=size) for name, body in bodies.items() if body}

        return self.model_copy(update={"vocabulary": vocabulary}).with_stages(resize)

    def with_free(self, settings: Mapping[str, Any] = FREE) -> Self:
        """The program with settings changed that are free, or with all as they are by default."""
        of_stages = {n: value for n, value in settings.items() if n in StageSettings.model_fields}
        run = self.run.model_copy(update={n: settings[n] for n in settings if n not in of_stages})
        return self.with_stages(lambda _: of_stages).model_copy(update={"run": run})

    @property
    def merged(self) -> "Resolved":
        """The program without an adapter, whose pairs are added into the maps of its network."""
        if self.encoder.merged is self.encoder:
            return self
        return self.with_stages(lambda stage: {"encoder": stage.encoder.merged})

    def with_data(self, change: Callable[[tuple[Share, ...]], tuple[Share, ...]]) -> "Resolved":
        """The program with the text of every stage changed."""
        return self.with_stages(lambda stage: {"data": change(stage.data)})

    def fingerprint(self) -> str:
        """sha256 of everything that affects the computation; names and origins do not."""
        text = json.dumps(self.model_dump(mode="json", exclude={"name", "origins"}), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def head_weights(resolved: Resolved) -> tuple[Weight, ...]:
    """Weights of the heads of all objectives, each once, even if several stages use it."""
    terms, last = (term.objective for term in resolved.terms()), resolved.stages[-1]
    return weights_of_heads((term, last.learner(term).body) for term in terms)


@once
def model_weights(resolved: Resolved) -> tuple[Weight, ...]:
    """Weight table of the model: networks by name, tied weights once, then ``heads.``."""
    table = [
        w for network in resolved.learned for w in _prefix(network.name, network.own_weights())
    ]
    table += _prefix("heads", head_weights(resolved))
    init = resolved.encoder.initializer
    if isinstance(init, Normal) and init.norms:
        scales = Constant(value=1.0, std=init.norms)
        return tuple(replace(w, init=scales) if w.init == ONES else w for w in table)
    return tuple(table)


def frozen_weights(network: Network) -> tuple[Weight, ...]:
    """The weights of a frozen network at work, by their names in a program of its own."""
    heads = weights_of_heads(
        (objective, network.body) for objective in network.scored if asks_head(objective)
    )
    return (*_prefix(MAIN, network.body.weights()), *_prefix("heads", heads))


def trained_names(stage: Stage) -> set[str]:
    """Names of the weights with a gradient in a stage."""
    names = set()
    for network in stage.networks():
        body, outputs = network.body, network.wanted
        # Nothing wanted depends on these; of them a body may have none.
        unread = {weight.name for weight in body.unread_layer_weights(outputs)}
        if not network.pooled:
            unread |= {weight.name for weight in body.weights() if weight.part == "pooler"}
        unread |= set() if network.query_states else {"embeddings.unseen"}
        unread |= set() if outputs.decoded else {f"{DECODER}.weight"}
        for weight in body.weights() if network.terms else ():
            if weight.frozen or weight.name in unread:
                continue
            if not is_frozen(stage, network, weight.name):
                names.add(f"{network.owner(weight.name)}.{weight.name}")
        for term in network.terms:
            names |= {f"heads.{weight.name}" for weight in weights_of_head(term.objective, body)}
    return names


def _prefix(prefix: str, weights: tuple[Weight, ...]) -> Iterator[Weight]:
    return (replace(weight, name=f"{prefix}.{weight.name}") for weight in weights)


def drop_places(shares: tuple[Share, ...]) -> tuple[Share, ...]:
    """Shares that are equal wherever prepared text lies, and however much of it is copied."""
    anywhere = {"path": "", "cache": 0}
    return tuple(
        share.model_copy(update={"corpus": share.corpus.model_copy(update=anywhere)})
        if isinstance(share.corpus, Prepared)
        else share
        for share in shares
    )
