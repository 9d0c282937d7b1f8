"""The losses of a program for its file, from scores of its forward pass."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Literal

from torch import Tensor

from bertc.ir.learning.objective import Term
from bertc.ir.program.stage import Stage
from bertc.ir.terms.node import TermNode
from bertc.learn.objectives import MicroBatch
from bertc.learn.objectives.softmax import cross_entropy
from bertc.learn.objectives.targets import scatter_tokens

LOSS_FUNCTIONS = '''
def nats(scores, targets, weights):
    """The sum of -log p of the targets that count."""
    each = F.cross_entropy(scores.flatten(0, -2), targets.flatten(), reduction="none")
    return (each * weights.flatten()).sum()


def chosen(scores_bsv, positions_bk):
    """The scores at some positions of each row."""
    return scores_bsv.gather(1, positions_bk[..., None].expand(-1, -1, scores_bsv.shape[-1]))
'''


def predicts(objective: TermNode) -> Literal["masked", "next", "replaced", "pair", ""]:
    """Predictions of an objective whose loss the file can hold."""
    match objective.fills:
        case "end":
            return "next"
        case "replaced":
            return "replaced"
        case "masks" if objective.masks is not None:
            return "masked"
    return "pair" if objective.pairs != "none" else ""


def named_targets(stage: Stage, batch: MicroBatch) -> dict[str, Tensor]:
    """Inputs of the networks, and targets of each term, by name."""
    reading = batch.masked or batch.reading
    results = {"token_ids": reading.token_ids}
    if reading.attention_mask is not None:
        results["attention_mask"] = reading.attention_mask
    if reading.segment_ids is not None:
        results["segment_ids"] = reading.segment_ids
    for term in stage.objective:
        for name, tensor in batch.terms[term.name]._asdict().items():
            if name == "classified":
                results[f"{term.name}_weights"] = tensor
            elif tensor is not None and name not in _unread(term):
                results[f"{term.name}_{name}"] = tensor
        if predicts(term.objective) == "replaced":
            results["originals"] = batch.originals
    return results


def _unread(term: Term) -> tuple[str, ...]:
    """Targets of a term that its loss does not read."""
    match predicts(term.objective):
        case "replaced":
            return ("weights",)
        case "pair":
            return ("positions",)
        case _:
            return ()


def loss_functions(stage: Stage) -> list[str]:
    """Functions that the losses call; those of guesses are bertc's, without types."""
    helpers = [LOSS_FUNCTIONS]
    if stage.sampled is not None:
        for function in (cross_entropy._whole, cross_entropy.draw, scatter_tokens):
            helpers.append(_untyped(function))
        helpers[1] = f"BLOCK = {cross_entropy.BLOCK}\n\n\n{helpers[1]}"
    return helpers


def losses_function(stage: Stage, forward: Sequence[str]) -> str:
    """The function of the losses of some rows."""
    read = ", ".join(
        f'batch["{name}"]'
        for name in ("attention_mask", "segment_ids")
        if name in forward and (name == "segment_ids" or stage.padded)
    )
    if not stage.padded and "segment_ids" in forward:
        read = f"segment_ids={read}"
    rest = f", {read}" if read else ""
    lines = [
        "def losses(model, batch):",
        '    """The summed loss of each term over some rows."""',
        "    sums = {}",
        f'    scores = model(batch["token_ids"]{rest})',
    ]
    for term in sorted(stage.objective, key=lambda term: term.objective.fills == "replaced"):
        lines += _loss(stage, term, rest)
    return "\n".join([*lines, "    return sums"])


def _loss(stage: Stage, term: Term, rest: str) -> list[str]:
    """The statements of one term."""
    name, head = term.name, term.objective.head_name
    targets = f'batch["{name}_targets"], batch["{name}_weights"]'
    match predicts(term.objective):
        case "masked":
            scores = f'chosen(scores["{head}"], batch["{name}_positions"])'
        case "next":
            scores = f'scores["{head}"]'
        case "replaced":
            lines = [f'    guessed_at, originals = batch["{name}_positions"], batch["originals"]']
            if stage.sampled is None:
                lines = ['    originals, replaced = batch["originals"], batch["token_ids"]']
            else:
                mlm = next(t for t in stage.objective if predicts(t.objective) == "masked")
                positions = f'batch["{mlm.name}_positions"]'
                lines += [
                    f'    logits = chosen(scores["{mlm.objective.head_name}"], {positions})',
                    "    likely = logits.detach().flatten(0, 1).softmax(1)",
                    f'    guesses = draw(likely, batch["{name}_chances"].flatten())',
                    "    guesses = guesses.view_as(guessed_at)",
                    "    replaced = scatter_tokens(originals, guessed_at, guesses)",
                    "    # The generator's scores are computed a second time, and not read.",
                    f"    scores = model(replaced{rest})",
                ]
            few = term.objective.outputs(stage.row) is not None
            at = f'.gather(1, batch["{name}_positions"])' if few else ""
            return [
                *lines,
                f"    labels = (replaced != originals).float(){at}",
                f'    each = F.binary_cross_entropy_with_logits(scores["{head}"]{at}, labels, '
                'reduction="none")',
                f'    sums["{name}"] = (each * batch["{name}_weights"]).sum()',
            ]
        case _:
            scores, targets = f'scores["{head}"][:, None]', targets.replace("targets", "labels")
    told = ["    # Labels: 0 in order, 1 not."] if "labels" in targets else []
    return [*told, f"    at = {scores}", f'    sums["{name}"] = nats(at, {targets})']


def _untyped(function: Callable[..., Any]) -> str:
    """The source of a function without annotations."""
    source = textwrap.dedent(inspect.getsource(function))
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    body = source.splitlines()[node.body[0].lineno - 1 :]
    arguments = ", ".join(argument.arg for argument in node.args.args)
    return "\n".join([f"def {node.name}({arguments}):", *body])
