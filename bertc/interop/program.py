"""The program that says what a Hugging Face configuration says."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bertc.diagnostics import BertcError, DataError
from bertc.interop.config import MEANING, HfAlbert, HfConfig, HfXlm, HfXlnet
from bertc.interop.layout import albert_group
from bertc.interop.names import TITLES
from bertc.ir.base import Normal
from bertc.ir.data import ByteBpe, TokenizerFile, Unigram, Vocabulary, WordPiece
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.learning.objective import Mlm, Nsp, Objective, Plm, Rtd, Sbo, Sop, Term
from bertc.ir.network.attention import FullAttention, RelativeAttention
from bertc.ir.network.encoder import Dropout
from bertc.ir.network.generator import NoGenerator, UnigramGenerator
from bertc.ir.network.head import LinearHead, TransformHead
from bertc.ir.network.norm import PostNorm
from bertc.ir.network.positions import LearnedPositions, NoPositions
from bertc.ir.network.sharing import ShareAll, ShareGroups, ShareMap, ShareNone, Sharing
from bertc.ir.program.written import Given, Origin, Program, StageGiven
from bertc.ir.terms.masking import SpanUnit
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
    """The architecture, each setting written; a folder without heads is to learn ``mlm``.

    Where there are ``tasks`` and heads of pretraining too, each have a stage.

    ``beside`` holds the shapes of weights kept beside, ``tokenizer`` is where the vocabulary of
    ``folder`` is to be found.

    Raises:
        DataError: naming the setting of ``config.json`` that bertc cannot say.
    """
    _check(config, parts, folder / "config.json")
    settings = _network(config, parts, folder, tokenizer)
    text = _objectives(config, parts, beside)
    if text or not tasks:
        settings["objective"] = tuple(Term(objective=o) for o in text or (_untrained(config),))
    else:
        del settings["generator"]
        settings |= _tuning(config, tasks)
    stages: tuple[StageGiven, ...] = ()
    if text and tasks:
        pretrained = {
            "objective": settings.pop("objective"),
            "generator": settings.pop("generator"),
        }
        tuned = {**_tuning(config, tasks), "seq": settings["seq"]}
        settings["recipe"] = tuned.pop("recipe")
        stages = (StageGiven("pretrained", _given(pretrained)), StageGiven("tuned", _given(tuned)))
    return Program(folder.absolute().name, _given(settings), stages)


def _network(
    config: HfConfig, parts: frozenset[str], folder: Path, tokenizer: Path
) -> dict[str, Any]:
    languages = config.languages if isinstance(config, HfXlm) else ()
    settings: dict[str, Any] = {
        "layers": config.num_hidden_layers,
        "hidden": config.hidden_size,
        "heads": config.num_attention_heads,
        "ffn": config.intermediate_size,
        "embedding": config.embedding,
        "share": _sharing(config, folder / "config.json"),
        "activation": MEANING[config.hidden_act],
        "norm": PostNorm(eps=config.layer_norm_eps),
        "positions": LearnedPositions(rows=config.max_position_embeddings, offset=config.offset),
        "attention": FullAttention(),
        "segments": config.type_vocab_size,
        "pooler": bool(parts & {"pooler", *PAIR_HEADS}),
        "dropout": Dropout(
            hidden=config.hidden_dropout_prob, attention=config.attention_probs_dropout_prob
        ),
        "initializer": Normal(std=config.initializer_range),
        "vocab": _vocabulary(config, folder, tokenizer),
        "head": LinearHead() if isinstance(config, HfXlm) else TransformHead(),
        "languages": languages,
        "language_embeddings": bool(languages),
        # A discriminator's folder has no generator; one beside it takes this one's place.
        "generator": UnigramGenerator() if "rtd" in parts else NoGenerator(),
        "seq": min(LONGEST_ROW, config.max_position_embeddings - config.offset),
    }
    if isinstance(config, HfXlnet):
        settings |= _of_xlnet(config)
    return settings


def _untrained(config: HfConfig) -> Objective:
    """What a folder without heads is to learn."""
    return Plm() if isinstance(config, HfXlnet) else Mlm()


def _given(settings: Mapping[str, Any]) -> dict[str, Given]:
    return {name: Given(value, Origin("written")) for name, value in settings.items()}


def _tuning(config: HfConfig, tasks: tuple[AnyTask, ...]) -> dict[str, Any]:
    """What a stage of tasks needs: nobody has counted examples that are not there."""
    return {
        "objective": tuple(Term(objective=task) for task in tasks),
        "steps": STEPS,
        "recipe": config.model_type,
    }


def _of_xlnet(config: HfXlnet) -> dict[str, Any]:
    rate = config.hidden_dropout_prob
    return {
        "positions": NoPositions(),
        "attention": RelativeAttention(untie=True, segments=True, clamp=max(0, config.clamp_len)),
        "norm": PostNorm(eps=config.layer_norm_eps, embeddings=False),
        "dropout": Dropout(hidden=rate, attention=rate, ffn=rate, last=rate),
        "head": LinearHead(),
    }


def _check(config: HfConfig, parts: frozenset[str], path: Path) -> None:
    if config.max_position_embeddings - config.offset < SHORTEST_ROW:
        raise DataError(
            f"{path}: max_position_embeddings = {config.max_position_embeddings}",
            help=f"bertc's rows have {SHORTEST_ROW} tokens or more",
        )
    pairs = sorted(parts & PAIR_HEADS)
    if len(pairs) > 1:
        raise DataError(
            f"{path.parent} has both an nsp and a sop head",
            help="they ask different questions about the same pair; remove one",
        )
    if pairs and config.type_vocab_size == 1:
        raise DataError(
            f"{path}: type_vocab_size = 1, and {pairs[0]} asks about two segments",
            help="bertc needs two token types for that",
        )
    always = config.model_type in ("roberta", "electra")
    if always and "mlm" in parts and MEANING[config.hidden_act] != "gelu":
        raise DataError(
            f"{path}: hidden_act = {config.hidden_act}, while the masked-LM head of the "
            f"{TITLES[config.model_type]} layout is always gelu",
            help="bertc has one activation for both; save the model without its head",
        )


def _sharing(config: HfConfig, path: Path) -> Sharing:
    """ALBERT's groups, by its own formula, as whole numbers where those agree with it."""
    if not isinstance(config, HfAlbert):
        return ShareNone()
    layers, num_groups = config.num_hidden_layers, config.num_hidden_groups
    numbers = [albert_group(layer, layers, num_groups) for layer in range(layers)]
    if set(numbers) != set(range(num_groups)):
        raise DataError(
            f"{path}: num_hidden_groups = {num_groups}, of which {layers} layers use "
            f"{len(set(numbers))}",
            help="bertc keeps no weights that no layer applies",
        )
    owners = tuple(numbers.index(number) for number in numbers)
    if num_groups in (1, layers):
        return ShareAll() if num_groups == 1 else ShareNone()
    even = ShareGroups(groups=num_groups)
    if owners == tuple(even.owner("attention", layer, layers) for layer in range(layers)):
        return even
    return ShareMap(attention=owners)


def _objectives(
    config: HfConfig, parts: frozenset[str], beside: Mapping[str, tuple[int, ...]]
) -> tuple[Objective, ...]:
    """What the heads of pretraining that there are learn."""
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
            help="the table of a boundary head has at most 200 rows",
        ) from None


def _vocabulary(config: HfConfig, folder: Path, tokenizer: Path) -> Vocabulary:
    """The folder's own; without one, a new one of the same size and the layout's kind."""
    size = config.vocab_size
    if any(is_file(folder / name) for name in FILE_NAMES):
        lower = True
        with suppress(BertcError):  # weights are read also where the vocabulary is refused
            lower = read_facts(folder).lower
        return TokenizerFile(path=str(tokenizer), lower=lower, size=size)
    match config.model_type:
        case "bert" | "xlm" | "electra":
            return WordPiece(size=size)
        case "roberta":
            return ByteBpe(size=size)
        case "albert" | "xlnet":
            return Unigram(size=size)
