"""``config.json`` of the Hugging Face families, validated against closed lists of settings.

Every setting is handled (a field of the family's class), ignored for a stated reason, or accepted
at the one value that bertc computes. Any other setting is refused by name. The lists here apply to
all families, and so do those of single families, since no two use a name differently.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from bertc.diagnostics import DataError, UnsafeError
from bertc.interop import families
from bertc.interop.families.config import MEANING, HfConfig
from bertc.interop.families.family import Family
from bertc.storage.json_file import read_json, shown

MAX_BYTES = 2**20

TOKENS = (
    "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "mask_token_id",
)  # fmt: skip
OF_TASKS = (
    "classifier_dropout", "classifier_dropout_prob", "id2label", "label2id", "num_labels",
    "problem_type", "finetuning_task", "task_specific_params", "summary_type",
    "summary_use_proj", "summary_proj_to_labels", "summary_activation",
    "summary_first_dropout", "summary_last_dropout",
)  # fmt: skip
OF_SPANS = ("start_n_top", "end_n_top")
IGNORED = {
    **dict.fromkeys(
        ("transformers_version", "_name_or_path", "name_or_path", "_commit_hash", "model_name"),
        "says where the folder comes from",
    ),
    **dict.fromkeys(
        ("dtype", "torch_dtype"), "the tensors say their own; bertc keeps weights in fp32"
    ),
    "architectures": "the tensors say which heads there are, but for those of tasks",
    **dict.fromkeys(
        (*TOKENS, "tokenizer_class", "do_sample"), "the tokenizer's own file says it"
    ),
    **dict.fromkeys(
        OF_TASKS, "belongs to the head of a task, and is read where there is one (task_config.py)"
    ),
    **dict.fromkeys(
        ("use_cache", "return_dict", "output_hidden_states", "output_attentions", "output_past",
         "use_return_dict", "chunk_size_feed_forward", "gradient_checkpointing", "torchscript"),
        "changes how a result is computed or returned, not the result",
    ),
    **dict.fromkeys(
        ("directionality", "pooler_type", "pooler_fc_size", "pooler_num_attention_heads",
         "pooler_num_fc_layers", "pooler_size_per_head"),
        "read by no class of transformers",
    ),
    **dict.fromkeys(OF_SPANS, "belongs to conditioned spans"),
}  # fmt: skip
"""Settings that do not affect an import, and why."""

KEPT = frozenset({*TOKENS, *OF_TASKS, *OF_SPANS, "hidden_act", "use_cache"})
"""Ignored settings that an export copies: all but those on origin and return format."""

ONLY: dict[str, Any] = {
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "tie_encoder_decoder": False,
    "tie_word_embeddings": True,
    "position_embedding_type": "absolute",
    "pruned_heads": {},
    "per_layer_config": {},
}
"""Settings accepted at a single value."""

CODE = ("auto_map", "attn_implementation", "_attn_implementation", "experts_implementation",
        "_attn_implementation_internal", "custom_pipelines", "trust_remote_code")  # fmt: skip
"""Settings that can name code; transformers used to run it (CVE-2026-4372)."""


def ignored() -> dict[str, str]:
    """Settings without effect, over all families."""
    return IGNORED | {k: why for f in families.FAMILIES for k, why in f.config.ignored.items()}


def only() -> dict[str, Any]:
    """Settings with a single accepted value, over all families."""
    return ONLY | {k: value for f in families.FAMILIES for k, value in f.config.only.items()}


def read_config(path: Path) -> HfConfig:
    """Read a ``config.json``.

    Raises:
        MissingInputError: if it does not exist.
        DataError: if it is broken, or describes something that bertc cannot compute.
        UnsafeError: if it names code to be run.
    """
    given = read_json(path, MAX_BYTES)
    model_type = given.get("model_type")
    if not isinstance(model_type, str) or model_type not in families.model_types():
        raise DataError(
            f"{path}: unsupported model_type {shown(model_type)}",
            help=f"bertc imports the layouts {', '.join(families.model_types())}",
        )
    family = families.family_named(model_type)
    settings, spelled = _common_names(path, family, given)
    fields = family.config.model_fields
    for name, value in settings.items():
        if name not in fields:
            _check_unhandled(path, name, value)
    try:
        handled = {name: value for name, value in settings.items() if name in fields}
        config: HfConfig = family.config.model_validate(handled)
    except ValidationError as error:
        raise _refused(path, error, settings, spelled) from None
    return config


def _common_names(
    path: Path, family: Family[Any], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings by BertConfig's names, and for each the name that the file uses.

    Raises:
        DataError: if two settings with one meaning differ, or one belongs to another layout.
    """
    settings: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in given.items():
        common = family.config.spelling.get(name, name)
        if name in family.config.missing:
            if value is not None:
                raise DataError(
                    f"{path}: unknown setting of the {family.title} layout: {name} = "
                    f"{shown(value)}",
                    help="it may change what the network computes; remove it if it does not",
                )
            continue
        if common in settings and settings[common] != value:
            raise DataError(
                f"{path}: {spelled[common]} = {shown(settings[common])}, {name} = {shown(value)}",
                help="both name the same setting; remove one of them",
            )
        settings[common], spelled[common] = value, name
    return settings, spelled


def _check_unhandled(path: Path, name: str, value: Any) -> None:
    if value is None or name in ignored():
        return
    if name in CODE:
        if name != "auto_map" and value in ("eager", "sdpa", False):
            return
        raise UnsafeError(
            f"{path}: {name} = {shown(value)} can name code that would be run",
            help=f"bertc runs no code of a folder; remove {name} if the weights need none",
        )
    allowed = only()
    if name not in allowed:
        raise DataError(
            f"{path}: unknown setting {shown(name)} = {shown(value)}",
            help="it may change what the network computes; remove it if it does not",
        )
    if value != allowed[name] or type(value) is not type(allowed[name]):
        raise DataError(
            f"{path}: unsupported {name} = {shown(value)}",
            help=f"only {name} = {shown(allowed[name])} is imported",
        )


def _refused(
    path: Path, error: ValidationError, settings: Mapping[str, Any], spelled: Mapping[str, str]
) -> DataError:
    """The first validation error, under the name that the file uses."""
    first = error.errors()[0]
    if not first["loc"]:  # a check across settings: the class gives message and remedy
        message, remedy = first["ctx"]["error"].args
        return DataError(f"{path}: {message}", help=remedy)
    name = str(first["loc"][0])
    return DataError(
        f"{path}: unsupported {spelled.get(name, name)} = {shown(settings.get(name))}",
        help=_allowed(name),
    )


def _allowed(name: str) -> str:
    if name == "hidden_act":
        return f"one of {', '.join(MEANING)}"
    kind = "a number" if "prob" in name or name in ("initializer_range", "layer_norm_eps") else ""
    return f"it has to be {kind or 'a whole number'} within reasonable limits"
