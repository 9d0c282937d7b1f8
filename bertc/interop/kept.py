"""Settings of a ``config.json`` that change nothing bertc computes, passed on as they came."""

from pathlib import Path
from typing import Any

from bertc.interop.config import MAX_BYTES
from bertc.storage.json_file import read_json

KEPT = frozenset({
    "bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "mask_token_id",
    "hidden_act", "ff_activation",
    "classifier_dropout", "classifier_dropout_prob", "id2label", "label2id", "num_labels",
    "problem_type", "finetuning_task", "task_specific_params", "use_cache",
    "summary_type", "summary_use_proj", "summary_proj_to_labels", "summary_activation",
    "summary_first_dropout", "summary_last_dropout", "start_n_top", "end_n_top", "mem_len",
    "reuse_len", "use_mems_eval", "use_mems_train", "lang_id", "bos_index", "eos_index",
    "pad_index", "unk_index", "mask_index", "max_vocab", "min_count", "embed_init_std",
})  # fmt: skip
"""Of those that are ignored on import (config.py) all but what says where the folder comes from, or
how results are returned."""


def kept_settings(path: Path) -> dict[str, Any]:
    """The settings of a ``config.json`` that an export of its model has as well.

    Raises:
        MissingInputError, DataError: if it is not there, or broken.
    """
    settings = read_json(path, MAX_BYTES)
    return {name: value for name, value in settings.items() if name in KEPT}
