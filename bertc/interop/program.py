"""Translation of a Hugging Face configuration to a program."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bertc.diagnostics import BertcError, DataError
from bertc.interop.families import family_named
from bertc.interop.families.config import MEANING, HfConfig
from bertc.interop.families.family import Family
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.learning.objective import Mlm, Nsp, Objective, Plm, Rtd, Sbo, Sop, Term
from bertc.ir.network.generator import NoGenerator, UnigramGenerator
from bertc.ir.program.written import Given, Origin, Program, StageGiven
from bertc.ir.terms.masking import SpanUnit
from bertc.ir.vocabulary import TokenizerFile, Vocabulary
from bertc.storage.paths import is_file
from bertc.tokenizer_files.classes import FILE_NAMES
from bertc.tokenizer_files.facts import read_facts

SHORTEST_ROW, LONGEST_ROW, STEPS = 8, 512, 1000
PAIR_HEADS = frozenset({"nsp", "sop"})


def to_program(
    config: HfConfig,
    parts: frozenset[str],
    beside: Mapping[str, tuple[int, ...]],
    folder: Path,
    tokenizer: Path,
    tasks: tuple[AnyTask, ...] = (),
) -> Program:
    """The program of a configuration, every setting written; ``mlm`` is learned without heads.

    With both ``tasks`` and pretraining heads there is a stage for each.

    ``beside`` holds the shapes of weights in bertc_heads.safetensors, ``tokenizer`` is the path of
    the vocabulary for ``folder``.

    Raises:
        DataError: naming the setting of ``config.json`` that bertc does not support.
    """
    family = family_named(config.model_type)
    _check(family, config, parts, folder / "config.json")
    settings = _network(family, config, parts) | {
        "vocab": _vocabulary(family, config.vocab_size, folder, tokenizer)
    }
    text = _objectives(parts, beside)
    if text or not tasks:
        settings["objective"] = tuple(Term(objective=o) for o in text or (family.untrained,))
    else:
        del settings["generator"]
        settings |= _tuning(family, tasks)
    stages: tuple[StageGiven, ...] = ()
    if text and tasks:
        pretrained = {
            "objective": settings.pop("objective"),
            "generator": settings.pop("generator"),
        }
        tuned = {**_tuning(family, tasks), "seq": settings["seq"]}
        settings["recipe"] = tuned.pop("recipe")
        stages = (StageGiven("pretrained", _given(pretrained)), StageGiven("tuned", _given(tuned)))
    return Program(folder.absolute().name, _given(settings), stages)


def _network(family: Family[Any], config: HfConfig, parts: frozenset[str]) -> dict[str, Any]:
    return {
        **family.settings(config),
        "pooler": bool(parts & {"pooler", *PAIR_HEADS}),
        # A discriminator's folder has no generator; one in a subfolder replaces this default.
        "generator": UnigramGenerator() if "rtd" in parts else NoGenerator(),
        "seq": min(LONGEST_ROW, config.max_position_embeddings - config.offset),
    }


def _given(settings: Mapping[str, Any]) -> dict[str, Given]:
    return {name: Given(value, Origin("written")) for name, value in settings.items()}


def _tuning(family: Family[Any], tasks: tuple[AnyTask, ...]) -> dict[str, Any]:
    """Settings of a task stage, with a number of steps, since examples are not there to count."""
    return {
        "objective": tuple(Term(objective=task) for task in tasks),
        "steps": STEPS,
        "recipe": family.recipe,
    }


def _check(family: Family[Any], config: HfConfig, parts: frozenset[str], path: Path) -> None:
    if config.max_position_embeddings - config.offset < SHORTEST_ROW:
        raise DataError(
            f"{path}: max_position_embeddings = {config.max_position_embeddings}",
            help=f"bertc needs at least {SHORTEST_ROW}, its shortest row",
        )
    pairs = sorted(parts & PAIR_HEADS)
    if len(pairs) > 1:
        raise DataError(
            f"{path.parent} has both an nsp and a sop head",
            help="both classify the same pairs; remove one",
        )
    if pairs and config.type_vocab_size == 1:
        raise DataError(
            f"{path}: type_vocab_size = 1, but {pairs[0]} classifies pairs of segments",
            help="save the model without its {pairs[0]} head",
        )
    always = family.head_activation
    if always and "mlm" in parts and MEANING[config.hidden_act] != always:
        raise DataError(
            f"{path}: hidden_act = {config.hidden_act}, while the masked-LM head of the "
            f"{family.title} layout is always {always}",
            help="bertc has one activation for both; save the model without its head",
        )


def _objectives(
    parts: frozenset[str], beside: Mapping[str, tuple[int, ...]]
) -> tuple[Objective, ...]:
    """The objectives of the pretraining heads in the folder."""
    found: list[Objective] = []
    if "sbo" in parts:
        found += [Mlm(unit=SpanUnit()), _boundary(beside.get("heads.sbo.position.weight", ()))]
    elif "mlm" in parts:
        found.append(Mlm())
    if "plm" in parts:
        found.append(Plm())
    if "rtd" in parts:
        found.insert(0, Rtd())
    if "nsp" in parts:
        found.append(Nsp())
    if "sop" in parts:
        found.append(Sop())
    return tuple(found)


def _boundary(table: tuple[int, ...]) -> Sbo:
    try:
        rows, width = table
        return Sbo(max_targets=rows, position_dim=width)
    except ValueError:
        raise DataError(
            f"heads.sbo.position.weight has shape {list(table)}",
            help="a boundary head has at most 200 positions",
        ) from None


def _vocabulary(family: Family[Any], size: int, folder: Path, tokenizer: Path) -> Vocabulary:
    """The folder's vocabulary; without one, a new one of the same size and the family's kind."""
    if not any(is_file(folder / name) for name in FILE_NAMES):
        return family.vocabulary(size=size)
    lower = True
    with suppress(BertcError):  # weights are read even if the vocabulary is refused
        lower = read_facts(folder).lower
    return TokenizerFile(path=str(tokenizer), lower=lower, size=size)
