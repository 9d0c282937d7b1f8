"""Export of an adapter alone, in peft's layout, for the folder that its run began with."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError
from bertc.hub.families.config import Tokens
from bertc.hub.families.family import Family, HfClass, Obstacle, transformer
from bertc.hub.folders import replacing
from bertc.hub.keys import by_key, keys, part_of, prefix_key
from bertc.hub.leaving.exporting import Exported, save_tokenizer
from bertc.hub.leaving.target import exported_task, target_of
from bertc.hub.tensors import write_tensors
from bertc.ir.learning import Labels, Tags
from bertc.ir.methods.adapter import OF_PAIRS, Lora
from bertc.ir.network.encoder import Encoder
from bertc.ir.program import Resolved


def merge(resolved: Resolved, tensors: Mapping[str, Tensor]) -> tuple[Resolved, dict[str, Tensor]]:
    """Program and weights of the network without its adapter; the outputs are the same."""
    encoder = resolved.encoder
    if not isinstance(encoder, Encoder) or not isinstance(encoder.adapt, Lora):
        return resolved, dict(tensors)
    plain = {name: tensor for name, tensor in tensors.items() if not name.endswith(OF_PAIRS)}
    for name in tensors.keys() - plain.keys():
        module, _, leaf = name.rpartition(".")
        if leaf == OF_PAIRS[0]:
            product = tensors[f"{module}.{OF_PAIRS[1]}"] @ tensors[name]
            plain[f"{module}.weight"] = plain[f"{module}.weight"] + encoder.adapt.scale * product
    return resolved.merged, plain


ADAPTER = "peft"
"""The layout of an adapter alone."""
WITHIN = "base_model.model."
"""The prefix of keys in peft's files."""
TASKS = {"SequenceClassification": "SEQ_CLS", "TokenClassification": "TOKEN_CLS",
         "QuestionAnswering": "QUESTION_ANS"}  # fmt: skip
"""peft's names for classes of transformers (peft, utils/peft_types.py)."""
_MERGED = "leave out --adapter: the folder then has the whole network, merged"


def export_adapter(
    resolved: Resolved,
    tensors: Mapping[str, Tensor],
    base: str,
    vocabulary: Tokens,
    folder: Path,
    prefer: str | None,
) -> Exported:
    """Write the pairs, the pooler and the head of a task, for peft to put onto ``base``."""
    encoder, adapt = transformer(resolved), transformer(resolved).adapt
    assert isinstance(adapt, Lora), "called for adapted networks"
    program, weights_merged = merge(resolved, tensors)
    target = target_of(program, weights_merged, vocabulary.pad, prefer)
    if isinstance(target, Obstacle):
        raise DataError(str(target), help=_MERGED)
    family, chosen = target
    task = exported_task(program, chosen.parts)
    if task is None:
        chosen = family.classes[-1]
    pairs = _pairs(family, encoder, chosen, tensors)
    named = [name for name in weights_merged if part_of(name) in chosen.parts]
    placed = keys(family, encoder, named, chosen.named)
    saved = {prefix_key(family, chosen, n, key): weights_merged[n] for n, key in placed.items()}
    count = len(task.answer.names) if task and isinstance(task.answer, Labels | Tags) else 0
    with replacing(folder) as fresh:
        ready = {f"{WITHIN}{key}": tensor for key, tensor in (pairs | saved).items()}
        write_tensors(fresh / "adapter_model.safetensors", ready)
        # Where the folder is on this machine is nobody else's.
        config = {"base_model_name_or_path": None if Path(base).is_absolute() else base}
        config |= _config(family, adapt, chosen, pairs, [*saved])
        (fresh / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
        save_tokenizer(vocabulary, fresh, resolved)
    loads = f", loaded with num_labels={count}" if count else ""
    lost = "" if task else ": states alone, without heads over the vocabulary"
    notes = (f"peft.PeftModel.from_pretrained puts it onto {base}{loads}{lost}",)
    return Exported(folder, ADAPTER, chosen.name, notes)


def _pairs(
    family: Family, encoder: Encoder, chosen: HfClass, tensors: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Both maps of each pair by peft's keys without prefix; of joined maps one, as exact."""
    maps = [n for n in tensors if n.endswith(".weight") and part_of(n) == "body"]
    pairs = dict[str, Tensor]()
    for key, names in by_key(family, keys(family, encoder, maps, chosen.named)).items():
        ends = [name.removesuffix("weight") for name in names]
        firsts = [tensors[f"{m}{OF_PAIRS[0]}"] for m in ends if f"{m}{OF_PAIRS[0]}" in tensors]
        if not firsts:
            continue
        stored = [family.reshape.out(encoder, name, tensors[name]) for name in names]
        if not all(torch.equal(x, tensors[n]) for x, n in zip(stored, names, strict=True)):
            way = f"the {family.title} layout stores {key} as no matrix, to which peft adds nothing"
            raise DataError(way, help=_MERGED)
        # Of maps that share a key those without a pair have rows of zeros.
        rows = [(f"{m}{OF_PAIRS[1]}", tensors[n]) for m, n in zip(ends, names, strict=True)]
        seconds = [tensors.get(name, weight.new_zeros(len(weight), 0)) for name, weight in rows]
        module = prefix_key(family, chosen, names[0], key).removesuffix(".weight")
        second: Tensor = torch.block_diag(*seconds)  # type: ignore[no-untyped-call]
        pairs |= {f"{module}.lora_A.weight": torch.cat(firsts), f"{module}.lora_B.weight": second}
    return pairs


def _config(
    family: Family, adapt: Lora, chosen: HfClass, pairs: Mapping[str, Tensor], saved: list[str]
) -> dict[str, Any]:
    """The settings of ``adapter_config.json``, without the base (peft, LoraConfig)."""
    first = ".lora_A.weight"
    ranks = {key.removesuffix(first): len(pairs[key]) for key in pairs if key.endswith(first)}
    wider = {module: rank for module, rank in ranks.items() if rank != adapt.rank}
    # A module is saved as a whole: heads, and a pooler within the encoder.
    parts = [key.removeprefix(f"{family.prefix}.").split(".")[0] for key in saved]
    names = {key.partition(part)[0] + part for key, part in zip(saved, parts, strict=True)}
    kind = next((kind for end, kind in TASKS.items() if chosen.name.endswith(end)), None)
    return {
        "peft_type": "LORA", "task_type": kind, "r": adapt.rank, "lora_alpha": adapt.alpha,
        "lora_dropout": adapt.dropout, "target_modules": sorted(ranks), "rank_pattern": wider,
        "alpha_pattern": {module: adapt.scale * rank for module, rank in wider.items()},
        "modules_to_save": sorted(names) or None, "bias": "none", "inference_mode": True,
    }  # fmt: skip
