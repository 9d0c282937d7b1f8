"""What transformers makes of folders with own code, in any version since 4.51 and without bertc.

    python tests/hub/loaded.py FOLDER ...

The first call leaves outputs in the folders; later ones exit 1 with the first that has others.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
import transformers
from torch import Tensor
from transformers.integrations import flash_attention


def packed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **named: Any) -> Tensor:
    """What flash attention computes (b, s, n, d) of tokens, by a mask of keys (b, s)."""
    allowed = mask[:, None, None].bool()
    allowed = allowed & torch.ones_like(allowed.mT & allowed).tril(0 if named["is_causal"] else 512)
    attend = torch.nn.functional.scaled_dot_product_attention
    return attend(*(x.transpose(1, 2) for x in (query, key, value)), allowed).transpose(1, 2)


def of_tokens(made: Tensor, mask_bs: Tensor) -> Tensor:
    """A result without those of padding."""
    return (made[mask_bs.bool()] if made.shape[:2] == mask_bs.shape else made).flatten()


def outputs(folder: Path, rows: Mapping[str, Tensor]) -> list[Tensor]:
    """States and scores, by each implementation of attention that the class has."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kind, made = config["architectures"][0].partition("For")[2], list[Tensor]()
    loader = getattr(transformers, f"AutoModelFor{kind}" if kind else "AutoModel")
    network = loader.from_pretrained(folder, trust_remote_code=True).eval()
    flashes = getattr(network, "_supports_flash_attn", False)
    for way in ("sdpa", "eager", "flash_attention_2")[: 2 + flashes]:
        given = {n: x[:, None] if kind == "MultipleChoice" else x for n, x in rows.items()}
        network.config._attn_implementation, is_eager = way, way == "eager"
        if is_eager:
            given["inputs_embeds"] = network.get_input_embeddings()(given.pop("input_ids"))
        with torch.no_grad(), patch.object(flash_attention, "_flash_attention_forward", packed):
            shown = network(**given, output_hidden_states=True, output_attentions=is_eager)
        mixes = any(type(part).__name__ == "OwnAttention" for part in network.modules())
        assert mixes or not is_eager or len(shown.hidden_states) == len(shown.attentions) + 1
        if "start_logits" in shown:
            shown["logits"] = torch.stack((shown.start_logits, shown.end_logits), -1)
        results = (shown.hidden_states[-1], *([shown.logits] if kind else []))
        made += [of_tokens(result, rows["attention_mask"]) for result in results]
    return made


if __name__ == "__main__":
    mask_bs = (torch.arange(9) < torch.tensor([[9], [5]])).long()
    rows = {"input_ids": torch.arange(6, 24).view(2, 9), "attention_mask": mask_bs}
    for name in sys.argv[1:]:
        made, file = torch.cat(outputs(Path(name), rows)), Path(name, "outputs.pt")
        if not file.exists():
            torch.save(made, file)
        if not torch.allclose(made, torch.load(file), atol=1e-5):
            sys.exit(f"transformers {transformers.__version__}: {name}")
