"""``config.json`` of the Hugging Face families: what transformers reads of it, and nothing else.

A setting that transformers' class reads is a field of the family's class, has one value that bertc
computes, or is ignored for a stated reason (``tests/hub/test_weights.py``).
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError

from bertc.base.diagnostics import BertcError, DataError, MissingInputError, UnsafeError
from bertc.base.storage.paths import is_file, is_taken
from bertc.base.storage.plain_file import read_json, shown, shown_name
from bertc.hub import families
from bertc.hub.families.bert import BERT
from bertc.hub.families.config import HfConfig, Single, Tokens
from bertc.hub.families.family import Family, HfClass
from bertc.ir.changing.growth import FromOther
from bertc.ir.network.encoder import Encoder
from bertc.ir.program import Resolved

MAX_BYTES, MOST_REFUSED = 2**20, 5

OF_SCORES = ("sentence_transformers", "sbert_ce_default_activation_function")
"""Settings by which CrossEncoder turns the scores of a head into its answers."""
KEPT = frozenset({
    "architectures",  # the tensors say which heads there are, but for those of tasks
    # The tokenizer's own file says these.
    "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "mask_token_id",
    # Read where there is a head of a task (task_config.py).
    "classifier_dropout", "classifier_dropout_prob", "id2label", "label2id", "num_labels",
    "problem_type", "finetuning_task", "task_specific_params", "summary_type", "summary_use_proj",
    "summary_proj_to_labels", "summary_activation", "summary_first_dropout", "summary_last_dropout",
    "start_n_top", "end_n_top",  # about conditioned spans
    *OF_SCORES,  # about answers made of scores
    "use_cache",
})  # fmt: skip
"""Settings without effect on an import that an export copies."""
IGNORED = KEPT | {
    "transformers_version", "_name_or_path", "_commit_hash",  # where it comes from
    "dtype", "torch_dtype",  # the tensors say their own; weights become fp32
    "tokenizer_class",
    "tie_word_embeddings",  # the tensors say if a head has a token table of its own
    "return_dict", "output_hidden_states", "output_attentions", "chunk_size_feed_forward",
}  # fmt: skip
"""Settings that classes of all families may read, without effect on an import."""

ONLY: Mapping[str, Single] = {
    "is_decoder": Single(False, "tokens see earlier ones alone"),
    "add_cross_attention": Single(False, "layers read an encoder"),
    "is_encoder_decoder": Single(False, "it has a decoder"),
    "tie_encoder_decoder": Single(False, "it has a decoder"),
    "pruned_heads": Single({}, "layers differ in heads"),
    "per_layer_config": Single({}, "layers differ in settings"),
    "quantization_config": Single(None, "weights are not numbers but codes"),
}
"""Settings of all families accepted at a single value."""

BERTS = frozenset(
    {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
     "max_position_embeddings", "type_vocab_size", "vocab_size"}
)  # fmt: skip
"""Settings by which a configuration of 2018 and 2019, without a model_type, is BERT's."""


_INSTEAD = {
    "bert_config.json": "has the same content: copy it",
    "gliner_config.json": "is read by bertc import, which makes a run folder",
    "modules.json": "is read by sentence-transformers: SentenceTransformer(FOLDER).encode(TEXTS)",
}
"""Files that are there instead, and what to do."""


def refuse_adapter(folder: Path) -> None:
    """Raise a DataError if a folder has an adapter in place of a network."""
    if is_taken(file := folder / "adapter_config.json") and not is_taken(folder / "config.json"):
        base = shown(read_json(file, MAX_BYTES).get("base_model_name_or_path") or "another network")
        remedy = "name its base, or a folder with the two merged (merge_and_unload in peft)"
        raise DataError(f"{folder} has no network but an adapter of {base}", help=remedy)


def read_config(path: Path) -> HfConfig:
    """Read a ``config.json``; refuse what bertc cannot compute, all settings at once."""
    refuse_adapter(path.parent)
    for name, way in _INSTEAD.items():
        if not is_taken(path) and is_taken(there := path.with_name(name)):
            raise MissingInputError(f"{path} is not there", f"{there} {way}")
    raw = read_json(path, MAX_BYTES)
    family = family_of(path, raw)
    classes = raw.get("architectures") or []
    if raw.get("auto_map") and not _has_classes(family, classes):
        named = f"another network than {family.title}, architectures = {shown(classes)}"
        remedy = "bertc runs no code of a folder; remove auto_map if the weights need none"
        raise UnsafeError(f"{path}: auto_map names code of {named}", help=remedy)
    settings, spelled = _settings(path, family, raw)
    known, only = {*IGNORED, *family.config.ignored}, {**ONLY, **family.config.only}
    reads = family.config.reads()
    refused = {
        name: f"{name} is {shown(only[name].value)} in bertc: otherwise {only[name].otherwise}"
        for name, value in raw.items()
        if name in only and name not in reads and value is not None
        if value != only[name].value or type(value) is not type(only[name].value)
    }
    unread = tuple(n for n in raw if n not in {*reads, *known, *only} and raw[n] is not None)
    try:
        config: HfConfig = family.config.model_validate({**settings, "unread": unread})
    except ValidationError as error:
        for detail in error.errors():
            if not detail["loc"]:  # a check across settings: the class gives message and remedy
                message, remedy = detail["ctx"]["error"].args
                raise DataError(f"{path}: {message}", help=remedy) from None
            name = str(detail["loc"][0])
            said = detail.get("ctx", {}).get("error", "")
            allowed = _allowed(family.config, name, spelled)
            refused[spelled.get(name, name)] = "; ".join(filter(None, (allowed, str(said))))
    if refused:
        names, more = [*refused][:MOST_REFUSED], len(refused) - MOST_REFUSED
        listing = ", ".join(f"{shown_name(name)} = {shown(raw.get(name))}" for name in names)
        listing += f" and {more} more" if more > 0 else ""
        raise DataError(f"{path}: unsupported {listing}", help="; ".join(refused[n] for n in names))
    return config


def family_of(path: Path, raw: Mapping[str, Any]) -> Family:
    """The family that a configuration names by its type, its classes or BERT's settings."""
    model_type = raw.get("model_type")
    known = [family.model_type for family in reversed(families.FAMILIES)]
    if model_type is None:
        classes = raw.get("architectures")
        named = [f for f in families.FAMILIES if classes and _has_classes(f, classes)]
        if named or raw.keys() >= BERTS:
            return named[0] if named else BERT
    if not isinstance(model_type, str) or model_type not in known:
        why = families.OTHERS.get(model_type, "") if isinstance(model_type, str) else ""
        remedy = f"take a folder of one of the layouts {', '.join(known)}"
        if str(model_type).startswith("bertc_"):  # as export writes classes of a program
            remedy = "take the run that it was exported from, or model/ in its folder"
        message = f"{path}: unsupported model_type {shown(model_type)}{why and ': '}{why}"
        raise DataError(message, help=remedy)
    return families.family_named(model_type)


def _has_classes(family: Family, names: Any) -> bool:
    """True if these are classes of the family, by the beginning of their names."""
    beginning = family.classes[-1].name.removesuffix("Model")
    return isinstance(names, list) and all(str(name).startswith(beginning) for name in names)


def _settings(
    path: Path, family: Family, raw: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings by the names of fields, and for each the name that the file uses."""
    settings: dict[str, Any] = {"model_type": family.model_type}
    spelled: dict[str, str] = {}
    reads = family.config.reads()
    for name, value in sorted(raw.items(), key=lambda item: item[0] in family.config.older):
        old = name in family.config.older and reads.get(name) in settings
        if name not in reads or name == "model_type" or old:
            continue
        common, value = reads[name], family.config.meant(name, value)
        if common in settings and settings[common] != value:
            raise DataError(
                f"{path}: {spelled[common]} = {shown(settings[common])}, {name} = {shown(value)}",
                help="both name the same setting; remove one of them",
            )
        settings[common], spelled[common] = value, name
    return settings, spelled


def _allowed(config: type[HfConfig], name: str, spelled: Mapping[str, str]) -> str:
    field, key = config.model_fields[name], spelled.get(name, name)
    if get_origin(field.annotation) is Literal:
        *values_before, last = map(shown, get_args(field.annotation))
        values = f"{', '.join(values_before)} or {last}" if values_before else last
        otherwise = f": otherwise {field.description}" if field.description else ""
        return f"{key} is {values} in bertc{otherwise}"
    if field.description:
        return f"{key} is {field.description}"
    number = "prob" in name or name in ("initializer_range", "layer_norm_eps")
    return f"{key} has to be {'a number' if number else 'a whole number'} within reasonable limits"


def hf_config(family: Family, encoder: Encoder, tokens: Tokens, chosen: HfClass) -> dict[str, Any]:
    """The settings of ``config.json``, in order."""
    return {
        "architectures": [chosen.name], "model_type": family.model_type,
        "vocab_size": encoder.vocab_size, **family.config.to_file(encoder, tokens),
        **chosen.settings,
    }  # fmt: skip


def keep_settings(path: Path) -> dict[str, Any]:
    """Settings of a ``config.json`` that an export of its model copies."""
    configs = [family.config for family in families.FAMILIES]
    copied = KEPT.union({"hidden_act"}, *((*c.copied, *c.of_training) for c in configs))
    return {name: value for name, value in with_scores(path).items() if name in copied}


def longest_row(resolved: Resolved) -> int:
    """The longest row of training, or that which the folder of ``init`` says if it is longer."""
    longest, init = max(stage.seq for stage in resolved.stages), resolved.run.init
    if isinstance(init, FromOther):
        for path in (Path(init.path) / "model/config.json", Path(init.path) / "config.json"):
            with suppress(BertcError):  # it may be gone, or of bertc's own layout
                return max(longest, read_config(path).max_position_embeddings)
    return longest


def with_scores(path: Path) -> dict[str, Any]:
    """A ``config.json``, and what CrossEncoder writes next to it since version 5."""
    raw, file = read_json(path, MAX_BYTES), path.with_name("config_sentence_transformers.json")
    settings = read_json(file, MAX_BYTES) if is_file(file) else {}
    if settings.get("model_type") != "CrossEncoder":
        return raw
    read = {name: settings.get(name) for name in ("activation_fn", "default_prompt_name")}
    return {**raw, "sentence_transformers": read}


def as_it_came(family: Family, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings to copy unchanged: an activation may have two names, a token two roles, rates."""
    names = [name for name, field in family.config.spelling.items() if field == "hidden_act"]
    came_so = ("bos_token_id", "eos_token_id", "hidden_act", *names, *family.config.of_training)
    return {name: settings[name] for name in came_so if settings.get(name) is not None}
