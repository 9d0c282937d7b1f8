"""Settings of a whole run, as in a resolved program."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from bertc.ir.base import Node
from bertc.ir.changing.growth import Init
from bertc.ir.terms.node import System

RunPrecision = Literal["auto", "fp32", "bf16"]
"""The type that products are computed in; auto: the fast one of a device."""
HfLayout = Literal["auto", "electra", "xlm-roberta", "camembert"]
"""The Hugging Face layout of a network that fits several; auto: BERT's, or RoBERTa's."""

Tracker = Literal["tensorboard", "wandb", "mlflow", "trackio"]
"""Programs that keep and draw the figures of runs."""
Log = (
    Literal["none", "tensorboard", "wandb", "mlflow", "trackio"]
    | Annotated[tuple[Tracker, ...], Field(min_length=1)]
)


def layout_of(recipe: System) -> HfLayout:
    """The layout of networks fine-tuned with a recipe."""
    return "electra" if recipe == "electra" else "auto"


class Run(Node):
    """Settings of a whole run.

    A dump omits ``layout`` where it follows from ``recipe``, so that programs written before it was
    a setting read back unchanged and keep their fingerprints.
    """

    seed: int
    init: Init
    save_every: int
    eval_every: int
    log_every: int
    eval_examples: int
    keep: int | Literal["all"]
    holdout: float
    precision: RunPrecision
    compile: Literal["auto", "on", "off"]
    recompute: Literal["auto", "on", "off"]
    device: Literal["auto", "cpu", "cuda", "mps"]
    strategy: Literal["auto", "ddp", "fsdp", "hsdp"]
    recipe: System = "bert"
    layout: HfLayout = Field(default_factory=lambda run: layout_of(run["recipe"]))
    deterministic: Literal["yes", "no"] = "no"
    log: Annotated[Log, Field(exclude_if=lambda log: log == "none")] = "none"

    @property
    def without_recipe(self) -> Self:
        """The run with no recipe, and no layout that follows from it."""
        follows = self.layout == layout_of(self.recipe)
        layout = layout_of("bert") if follows else self.layout
        return self.model_copy(update={"recipe": "bert", "layout": layout})

    @property
    def trackers(self) -> tuple[Tracker, ...]:
        """The trackers that ``log`` names, each once."""
        if self.log == "none":
            return ()
        named = self.log if isinstance(self.log, tuple) else (self.log,)
        return tuple(dict.fromkeys(named))

    @model_serializer(mode="wrap")
    def _without_derived(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = dump(self)
        if self.layout == layout_of(self.recipe):
            dumped.pop("layout", None)
        return dumped
