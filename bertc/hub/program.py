"""Translation of a Hugging Face configuration to a program."""

from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import BertcError, DataError
from bertc.base.storage.paths import is_file
from bertc.hub.families import family_named
from bertc.hub.families.config import MEANING, HfConfig
from bertc.hub.families.family import Family
from bertc.ir.learning import TOKENS_HEAD, AnyTask
from bertc.ir.learning.objective import PRETRAINING, Pretraining, Term
from bertc.ir.network.encoder import DECODER
from bertc.ir.network.generator import NoGenerator, UnigramGenerator
from bertc.ir.network.head import TransformHead
from bertc.ir.program import MAIN, Given, Origin, Program, StageGiven
from bertc.ir.terms.masking import SpanUnit
from bertc.ir.vocabulary import TokenizerFile, Vocabulary
from bertc.text.tokenizers.by_transformers import FILE_NAMES
from bertc.text.tokenizers.reading import read_tokenizer, tokenizer_folder

SHORTEST_ROW, LONGEST_ROW, STEPS = 8, 512, 1000


def to_program(
    config: HfConfig,
    parts: frozenset[str],
    beside: Mapping[str, tuple[int, ...]],
    folder: Path,
    tokenizer: Path,
    tasks: tuple[AnyTask, ...] = (),
) -> Program:
    """The program of a configuration, a stage of ``tasks`` after one of pretraining heads."""
    family = family_named(config.model_type)
    text = tuple(kind.of_head(beside) for name, kind in PRETRAINING.items() if name in parts)
    _check(family, config, text, folder / "config.json")
    read = None
    with suppress(BertcError):  # its weights are read if it has none, or one that is refused
        read = read_tokenizer(tokenizer_folder(folder))
    # The limit in a folder of token vectors is that of the last text, a query or a document.
    says = tasks and not any(task.head_name == TOKENS_HEAD for task in tasks)
    longest = (read.passed_on.get("model_max_length") if read else None) if says else LONGEST_ROW
    vocabulary: Vocabulary = family.vocabulary(size=config.vocab_size)
    if any(is_file(tokenizer_folder(folder) / name) for name in FILE_NAMES):
        lower = read.lower if read else True
        vocabulary = TokenizerFile(path=str(tokenizer), lower=lower, size=config.vocab_size)
    settings = _network(family, config, text, parts, longest)
    settings |= {"vocab": vocabulary, "recipe": family.recipe}
    if positions := beside.get(f"{MAIN}.{DECODER}.weight"):
        settings["head"] = TransformHead(decoder=positions[0])
    if text or not tasks:
        text = _hiding_spans(text, family) if text else (_untrained(family),)
        text = (config.learned,) if config.learned else text
        settings["objective"] = tuple(Term(objective=objective) for objective in text)
    else:
        del settings["generator"]
        settings |= _tuning(tasks)
    stages: tuple[StageGiven, ...] = ()
    if text and tasks:
        pretrained = {name: settings.pop(name) for name in ("objective", "generator")}
        tuned = {**_tuning(tasks), "seq": settings["seq"]}
        stages = (StageGiven("pretrained", _given(pretrained)), StageGiven("tuned", _given(tuned)))
    return Program(folder.absolute().name, _given(settings), stages)


def _network(
    family: Family, config: HfConfig, text: tuple[Pretraining, ...], parts: Set[str], longest: Any
) -> dict[str, Any]:
    """Settings of the network, and of its rows: of a task as long as its tokenizer says."""
    stated = isinstance(longest, int) and longest >= SHORTEST_ROW
    most, known = longest if stated else LONGEST_ROW, vars(config).items()
    judges = any(objective.fills == "replaced" for objective in text)
    kinds = (kind for kind, summary in family.poolers.items() if summary.items() <= known)
    pools = "pooler" in parts or any(objective.states.pooled for objective in text)
    return {
        **config.settings(),
        "pooler": next(kinds, next(iter(family.poolers), False)) if pools else False,
        # A discriminator's folder has no generator; one in a subfolder replaces this default.
        "generator": UnigramGenerator() if judges else NoGenerator(),
        "seq": min(most, config.max_position_embeddings - config.offset),
    }


def _given(settings: Mapping[str, Any]) -> dict[str, Given]:
    return {name: Given(value, Origin("written")) for name, value in settings.items()}


def _tuning(tasks: tuple[AnyTask, ...]) -> dict[str, Any]:
    """Settings of a task stage, with a number of steps, since examples are not there to count."""
    return {"objective": tuple(Term(objective=task) for task in tasks), "steps": STEPS}


def _check(family: Family, config: HfConfig, text: tuple[Pretraining, ...], path: Path) -> None:
    if config.max_position_embeddings - config.offset < SHORTEST_ROW:
        message = f"{path}: max_position_embeddings = {config.max_position_embeddings}"
        raise DataError(message, help=f"bertc needs at least {SHORTEST_ROW}, its shortest row")
    always, meant = family.head_activation, MEANING[config.hidden_act]
    if always and any(objective.masks for objective in text) and meant != always:
        head = f"the masked-LM head of the {family.title} layout is always {always}"
        message = f"{path}: hidden_act = {config.hidden_act}, while {head}"
        remedy = "bertc has one activation for both; save the model without its head"
        raise DataError(message, help=remedy)


def _untrained(family: Family) -> Pretraining:
    """The objective of a folder without heads: that of the family's head that fills masks."""
    heads = {part for hf_class in family.classes for part in hf_class.parts}
    filling = [(name, kind) for name, kind in PRETRAINING.items() if kind.fills == "masks"]
    return next((kind for name, kind in filling if name in heads), filling[0][1])()


def _hiding_spans(text: tuple[Pretraining, ...], family: Family) -> tuple[Pretraining, ...]:
    """The objectives, with span masking if one of them needs it."""
    if not any(objective.states.of_spans for objective in text):
        return text
    if not any(objective.masks for objective in text):
        text = (_untrained(family), *text)
    spans = {"unit": SpanUnit()}
    return tuple(node.model_copy(update=spans) if node.masks else node for node in text)
