"""Every two ideas together: refused with a way out, or estimated as built and trained.

    nice python -m tests.campaigns.pairs [--every N] [--only TEXT] [--log FILE] [--part 1/2]

A pair is two values of two axes (``ideas.py``) on one tiny network. Either its spec is refused, and
then every mistake has a place and a help, and following the helps leads to a spec that is not
refused; or

* the estimate has as many parameters as the module that is built for the last stage;
* its FLOPs of each stage of text, forward and with backward, are within 0.1% of those that torch
  counts on the meta device. Windows are counted as if they saw the whole row: what they see is held
  by ``tests/model/test_positions.py``;
* it trains the steps of all its stages, with finite losses, and a gradient for those weights that
  the weight table says, and no others.

Outcomes go to a file, a line each; pairs that are there are not tried again. Exits 1 if anything
was wrong.
"""

import itertools
import json
import math
import os
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any
from unittest.mock import patch

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import check, points
from bertc.base.diagnostics import BertcError, Diagnostic, SpecError
from bertc.cost import estimate
from bertc.ir.learning.objective import Clm, Mlm, Plm, Sbo
from bertc.ir.program.resolved import Resolved, trained_names
from bertc.ir.program.stage import Stage, TextStage
from bertc.learn.step.step import TrainStep
from bertc.model import build
from bertc.run.train.loop import train
from tests.campaigns.ideas import AXES, written
from tests.campaigns.options import read_options
from tests.lang.test_helps import Written, alternatives
from tests.net.programs import FARM, copied
from tests.run.conftest import lines

SEEN, WHOLE = '"window":16', '"window":128'
"""A window, and one that sees all of a row."""
Pair = tuple[str, str]


@dataclass(frozen=True)
class Outcome:
    """How a pair went: the codes that refuse it, and what is wrong."""

    pair: Pair
    refused: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


@dataclass
class Seen:
    """Of a stage: FLOPs of its first step, weights with a gradient, and with one that is not 0."""

    flops: int = 0
    there: set[str] = field(default_factory=set)
    moving: set[str] = field(default_factory=set)


def pairs() -> Iterator[Pair]:
    """Every two values of two axes."""
    for one, other in itertools.combinations(AXES, 2):
        yield from itertools.product(AXES[one], AXES[other])


def outcome(pair: Pair, folder: Path, cache: Path) -> Outcome:
    """Try a pair; ``folder`` is for its run."""
    spec = written(*pair)
    refused, wrong = refusal(spec)
    if not refused:
        (resolved,) = points(spec)
        for look in (wrong_parameters, partial(wrong_run, folder=folder, cache=cache)):
            try:
                wrong += look(resolved)
            except BertcError as error:  # what only a file says, when it is read
                refused = (type(error).__name__,)
                wrong += [] if error.help else [f"no help: {error.message}"]
            except Exception as error:  # whatever it is: the other pairs go on
                wrong.append(f"{type(error).__name__}: {str(error)[:300]}")
    return Outcome(pair, refused, tuple(wrong))


def refusal(spec: str) -> tuple[tuple[str, ...], list[str]]:
    """Codes of a spec's mistakes, or what its files are refused for; and what is wrong there."""
    try:
        check(spec)
    except SpecError as error:
        return tuple(sorted({each.code for each in error.diagnostics})), without_way_out(spec)
    except BertcError as error:
        return (type(error).__name__,), [] if error.help else [f"no help: {error.message}"]
    return (), []


def without_way_out(spec: str) -> list[str]:
    """What is wrong with the mistakes of a spec, once their helps are followed one by one."""
    met: list[Diagnostic] = []
    while found := mistakes(spec):
        wrong = [f"{each.code} has no place: {each.message}" for each in found if not each.span]
        wrong += [f"{each.code} has no help: {each.message}" for each in found if not each.help]
        if wrong:
            return wrong
        if len(met) > 5:
            return [f"helps go in a circle: {[each.code for each in met]}"]
        first = next((each for each in found if each.fix or ways_out(each)), found[0])
        met.append(first)
        now = Written(spec)
        if first.fix:
            spec = now.fixed(first.fix).spec
        elif ways := ways_out(first):
            spec = now.with_settings(ways[0], first.span).spec
        else:
            return [f"{first.code} has advice alone: {first.help}"]
    return []


def ways_out(mistake: Diagnostic) -> list[str]:
    """Settings that its help says to write, or gives as an example."""
    advice, _, example = mistake.help.partition(" as in ")
    return alternatives(example or advice)


def mistakes(spec: str) -> list[Diagnostic]:
    """Those of a spec."""
    try:
        points(spec)
    except SpecError as error:
        return list(error.diagnostics)
    return []


def wrong_parameters(resolved: Resolved) -> list[str]:
    """Whether as many are estimated as built."""
    counted = estimate(resolved).parameters.total
    built = sum(weight.numel() for weight in build(resolved, device="meta").parameters())
    return [] if counted == built else [f"{counted} parameters estimated, {built} built"]


def wrong_run(resolved: Resolved, folder: Path, cache: Path) -> list[str]:
    """Train all stages: steps, losses, gradients, and FLOPs as torch counts them."""
    with watched() as seen:
        train(resolved, folder, cache=cache, quiet=True)
    losses = [line["loss"] for line in lines(folder, "train")]
    wrong = [] if all(map(math.isfinite, losses)) else [f"losses {losses}"]
    if len(losses) != resolved.steps:
        wrong.append(f"{len(losses)} steps of {resolved.steps}")
    for stage in resolved.stages:
        wrong += wrong_gradients(stage, seen[stage.name])
    if resolved.run.recompute != "on":
        wrong += wrong_flops(resolved, seen)
    return wrong


def wrong_gradients(stage: Stage, seen: Seen) -> list[str]:
    """Whether they are there where they are expected, and not all zero."""
    expected = trained_names(stage)
    still = expected & seen.there - seen.moving
    if len(stage.encoder.token_head.clusters) > 1:  # a cluster has what the text has of it
        still = {name for name in still if ".token." not in name}
    found = {"gradients differ": expected ^ seen.there, "gradients are zero": still}
    return [f"{stage.name}: {what}: {sorted(of)[:4]}" for what, of in found.items() if of]


def wrong_flops(resolved: Resolved, seen: Mapping[str, Seen]) -> list[str]:
    """Whether those of a stage of text, with windows that see all, are what torch counted."""
    wrong = []
    whole = resolved.model_validate_json(resolved.model_dump_json().replace(SEEN, WHOLE))
    for stage, found in zip(whole.stages, estimate(whole).stages, strict=True):
        # An adaptive head computes what the text asks for, and torch counts no recurrence.
        varies = len(stage.encoder.token_head.clusters) > 1 or stage.encoder.body_kind == "bilstm"
        if not isinstance(stage, TextStage) or varies:
            continue
        # The gradient of a bias is run as a product with one column, which is none of the model's.
        scored = sum(isinstance(term.objective, Mlm | Clm | Plm | Sbo) for term in stage.objective)
        bias = 2 * scored * stage.encoder.token_head.scores(stage.predictions())
        stated = found.flops.train_per_example
        counted = seen[stage.name].flops / stage.batch - bias
        if abs(stated - counted) > 1e-3 * counted:
            wrong.append(f"{stage.name}: {stated:,} FLOPs an example, torch counts {counted:,.0f}")
    return wrong


@contextmanager
def watched() -> Iterator[dict[str, Seen]]:
    """What is seen of the steps of each stage, by its name."""
    seen: dict[str, Seen] = defaultdict(Seen)
    plain = TrainStep.gradients

    def gradients(step: TrainStep, *given: Any, **named: Any) -> Any:
        here = seen[step.stage.name]
        if here.flops:
            found = plain(step, *given, **named)
        else:  # attention as products, which torch counts on any device
            with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
                found = plain(step, *given, **named)
            here.flops = counter.get_total_flops()
        for name, weight in step.parameters.items():
            if weight.grad is not None:
                here.there.add(name)
                if name not in here.moving and weight.grad.any():
                    here.moving.add(name)
        return found

    with patch.object(TrainStep, "gradients", gradients):
        yield seen


def material(place: Path) -> None:
    """The farm's files, vectors, and a run of the base to begin with and learn from."""
    copied(FARM, place)
    os.chdir(place)
    vectors = [f"{word} {' '.join(['0.1'] * 32)}" for word in ("hens", "barn", "pond")]
    (place / "vectors.txt").write_text("\n".join(vectors) + "\n")
    train(points(written())[0], place / "bert", cache=place / "cache", quiet=True)


def tried(pairs: Sequence[Pair], log: Path) -> Iterator[Outcome]:
    """Try pairs in turn, a line each; one that ended its process is reported the next time."""
    began, os.environ["BERTC_OWN"] = log.with_suffix(".begun"), "yes"
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    patched = patch.object(os, "fsync", os.fstat)
    with tempfile.TemporaryDirectory() as folder, log.open("a") as file, patched:
        place = Path(folder)
        material(place)
        for pair in pairs:
            again = began.exists() and json.loads(began.read_text()) == list(pair)
            began.write_text(json.dumps(pair))
            ended = Outcome(pair, (), ("its process ended",))
            result = ended if again else outcome(pair, place / "run", place / "cache")
            rmtree(place / "run", ignore_errors=True)
            print(json.dumps(asdict(result)), file=file, flush=True)
            began.unlink(missing_ok=True)
            yield result


def main() -> int:
    options = read_options(__doc__, every=1, part="1/1", only="", log="pairs.jsonl")
    log = Path(options.log).absolute()
    lines = log.read_text().splitlines() if log.exists() else []
    known = {tuple(line["pair"]): Outcome(**line) for line in map(json.loads, lines)}
    part, parts = map(int, options.part.split("/"))
    chosen = [pair for pair in pairs() if options.only in written(*pair)]
    chosen = chosen[:: options.every][part - 1 :: parts]
    left = [pair for pair in chosen if pair not in known]
    print(f"{len(chosen)} pairs, {len(left)} to try, torch {torch.__version__}", flush=True)
    for result in tried(left, log):
        known[result.pair] = result
        for problem in result.wrong:
            print(f"{' + '.join(result.pair)}: {problem}", flush=True)
    return int(any(known[pair].wrong for pair in chosen if pair in known))


if __name__ == "__main__":
    sys.exit(main())
