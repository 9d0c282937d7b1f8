"""Attention of other systems' classes, layer by layer, on random weights and padded rows."""

from collections.abc import Callable

import pytest
import torch
import transformers
from torch import Tensor

from bertc.api import resolve
from bertc.model import EncoderInputs, build
from bertc.model.encoder import Encoder

B, V, H, HEADS, LAYERS, SEQ = 2, 300, 64, 4, 4, 200
BASE = f"layers={LAYERS} hidden={H} heads={HEADS} vocab={V} seq={SEQ} dropout=0 segments=0 "
SHAPE = {
    "vocab_size": V, "hidden_size": H, "num_hidden_layers": LAYERS, "intermediate_size": 96,
    "num_attention_heads": HEADS, "pad_token_id": 0, "attn_implementation": "eager",
}  # fmt: skip


def modern_bert() -> tuple[torch.nn.Module, str, Callable[[Tensor], dict[str, Tensor]]]:
    config = transformers.ModernBertConfig(
        **SHAPE, local_attention=16, global_rope_theta=160_000.0, local_rope_theta=10_000.0,
        global_attn_every_n_layers=3, cls_token_id=1, sep_token_id=2, bos_token_id=1,
        eos_token_id=2,
    )  # fmt: skip
    spec = "attention=local(16, global_every=3, bias=false) positions=rotary(160k)"
    return transformers.ModernBertModel(config), spec, lambda part: fused(part.Wqkv, part.Wo)


def eurobert() -> tuple[torch.nn.Module, str, Callable[[Tensor], dict[str, Tensor]]]:
    config = transformers.EuroBertConfig(**SHAPE, num_key_value_heads=2, rope_theta=250_000.0)
    theta = config.rope_parameters["rope_theta"]
    spec = f"attention=full(kv_heads=2, bias=false) positions=rotary({theta:g})"
    return transformers.EuroBertModel(config), spec, apart


def nomic_bert() -> tuple[torch.nn.Module, str, Callable[[Tensor], dict[str, Tensor]]]:
    config = transformers.NomicBertConfig(**SHAPE)
    theta = config.rope_parameters["rope_theta"]
    spec = f"attention=full(bias=false) positions=rotary({theta:g})"
    return transformers.NomicBertModel(config), spec, apart


def fused(inner: torch.nn.Linear, outer: torch.nn.Linear) -> dict[str, Tensor]:
    maps = zip(("query", "key", "value"), inner.weight.chunk(3), strict=True)
    return {**dict(maps), "output": outer.weight}


def apart(part: torch.nn.Module) -> dict[str, Tensor]:
    found = {name: getattr(part, f"{name[0]}_proj").weight for name in ("query", "key", "value")}
    return {**found, "output": part.o_proj.weight}


@torch.no_grad()
@pytest.mark.parametrize("system", [modern_bert, eurobert, nomic_bert])
def test_attention_is_that_of_transformers(system: Callable[[], tuple]) -> None:
    torch.manual_seed(1)
    theirs, spec, maps = system()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    seen: list[tuple[Tensor, Tensor]] = []
    layers = theirs.layers if hasattr(theirs, "layers") else theirs.encoder.layers
    parts = [getattr(layer, "attn", getattr(layer, "self_attn", None)) for layer in layers]
    for part in parts:
        part.register_forward_hook(
            lambda _, given, named, found: seen.append(
                (given[0] if given else named["hidden_states"], found[0])
            ),
            with_kwargs=True,
        )
    ids_bs = torch.randint(5, V, (B, SEQ))
    mask_bs = torch.arange(SEQ) < torch.tensor([[SEQ], [SEQ - 61]])
    theirs.eval()(input_ids=ids_bs, attention_mask=mask_bs.long())
    ours = build(resolve(BASE + spec)).encoder.eval()
    assert isinstance(ours, Encoder)
    assert len(seen) == LAYERS
    for layer, (part, (given, expected)) in enumerate(zip(parts, seen, strict=True)):
        own = ours.attention[str(layer)]
        for name, weight in maps(part).items():
            own.get_submodule(name).weight.copy_(weight)
        context = ours._contexts(EncoderInputs(ids_bs, attention_mask=mask_bs), given)[layer]
        found = own(given, None, context)
        assert expected.abs().max() > 0.1
        torch.testing.assert_close(found[mask_bs], expected[mask_bs], atol=2e-5, rtol=1e-4)
