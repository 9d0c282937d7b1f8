"""Remark R108, before training: the model will not fit a Hugging Face layout."""

import re
from collections.abc import Iterable
from typing import assert_never

from bertc.base.diagnostics import Diagnostics
from bertc.hub.families.obstacle import Obstacle
from bertc.hub.networks import alone
from bertc.hub.target import target_of
from bertc.ir.changing.pruning import Heads, Neurons
from bertc.ir.network.encoder import first_position
from bertc.ir.program.complete import Complete
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.settings import aliases
from bertc.ir.program.written import Origin
from bertc.ir.vocabulary import ByteBpe, Bytes, TokenizerFile, Unigram, WordPiece, Words
from bertc.lang.write.show import show_value


def remark_own_layout(program: Complete, resolved: Resolved, diagnostics: Diagnostics) -> None:
    """Remark that no layout fits the trained model, naming the setting and a value that fits.

    Settings of a shipped spec are exempt: its system has no layout.
    """
    encoder = alone(resolved)
    names = [weight.name for weight in model_weights(encoder)]
    target = target_of(encoder, names, padding(resolved))
    if isinstance(target, Obstacle):
        obstacle, origins = target, _settings(program, target, resolved.encoder.settings())
    elif pruning := _of_pruning(program):
        obstacle, origins = pruning
    else:
        return
    spans = [origin.span for origin in origins if origin.span]
    unshipped = [span for span in spans if not span.source.name.startswith("shipped ")]
    if spans and not unshipped:
        return
    diagnostics.remark(
        "R108",
        "the trained model fits no Hugging Face layout and will be saved in bertc's own: "
        f"{obstacle.setting} stands in the way",
        unshipped[0] if unshipped else None,
        label=obstacle.why,
        help=obstacle.instead,
    )


def padding(resolved: Resolved) -> int:
    """The id of the padding token; the layout's if the tokenizer is read from a file."""
    match resolved.vocabulary:
        case ByteBpe() | Unigram(specials="roberta"):
            return 1
        case WordPiece() | Unigram() | Words() | Bytes():
            return 0
        case TokenizerFile():
            return max(0, first_position(resolved.encoder) - 1)
        case unreachable:
            assert_never(unreachable)


def _of_pruning(program: Complete) -> tuple[Obstacle, list[Origin]] | None:
    """Pruning after which no layout will hold the network, and where it is written."""
    for stage in program.stages:
        prune, origins = stage.prune, [stage.origins["prune"]]
        match prune:
            case Heads():
                why = "in all layouts heads fill the hidden width, and those that are left do not"
                return Obstacle(f"prune={show_value(prune)}", why, "prune=none"), origins
            case Neurons(within="network"):
                layer = show_value(prune.model_copy(update={"within": "layer"}))
                why = "layers keep different numbers of neurons, and in all layouts they are equal"
                return Obstacle(f"prune={show_value(prune)}", why, f"prune={layer}"), origins
    return None


def _settings(program: Complete, obstacle: Obstacle, of_network: Iterable[str]) -> list[Origin]:
    """Origins of the settings that an obstacle names, its own setting first."""
    last, texts = program.stages[-1], f"{obstacle.setting} {obstacle.instead}"
    if obstacle.instead.startswith("task="):  # its head is that of the task, not of the network
        texts = obstacle.instead
    names = re.findall(r"[a-z_]+", re.sub(r"=\S*|\.\S*", "", re.sub(r"\(.*?\)", "", texts)))
    settings = [aliases().get(name, name) for name in names]
    if not any(name in last.origins and last.span(name) for name in settings):
        settings = [*of_network]  # that what was written leads to it
    return [last.origins[setting] for setting in settings if setting in last.origins]
