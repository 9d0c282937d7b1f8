"""Small programs of our own, and their tensors."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from bertc.base.diagnostics import DataError
from bertc.check.passes import resolve
from bertc.hub.families.config import Wordless
from bertc.ir.learning.objective import Mlm, Nsp, Objective, Sbo, Sop, Term
from bertc.ir.program.resolved import Resolved
from bertc.ir.terms.masking import SpanUnit
from bertc.ir.vocabulary import WordPiece
from bertc.ir.written import Program, StageGiven
from bertc.model import build
from bertc.use.source.checking import inputs_of, random_inputs
from bertc.use.source.code_folder import export_code
from bertc.use.source.outputs import program_outputs
from tests.hub.loaded import of_tokens, outputs
from tests.run.conftest import given

SMALL = {"layers": 3, "hidden": 24, "heads": 3, "ffn": 40, "vocab": WordPiece(size=97), "seq": 16}


def program(stages: Mapping[str, tuple[Term, ...]] | None = None, **settings: Any) -> Resolved:
    """A small encoder with some settings changed, and perhaps stages by their objectives."""
    blocks = (
        StageGiven(name, given({"objective": terms, "steps": 3}))
        for name, terms in (stages or {}).items()
    )
    return resolve(Program("small", given({**SMALL, **settings}), tuple(blocks)))


def objective(*kinds: str) -> tuple[Term, ...]:
    """A sum of objectives by name."""
    known: dict[str, Objective] = {
        "mlm": Mlm(), "span": Mlm(unit=SpanUnit()), "sbo": Sbo(position_dim=20), "nsp": Nsp(),
        "sop": Sop(),
    }  # fmt: skip
    return tuple(Term(objective=known[kind]) for kind in kinds)


def tensors(resolved: Resolved) -> dict[str, torch.Tensor]:
    """Its initial weights, biases moved off zero."""
    generator = torch.Generator().manual_seed(3)
    return {
        name: tensor.detach() + 0.1 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in build(resolved).named_parameters()
    }


def leaves_with_code(resolved: Resolved, folder: Path) -> bool:
    """A folder with own code computes in transformers what bertc does; False if it is refused."""
    weights, model = tensors(resolved), build(resolved).eval()
    try:
        export_code(resolved, weights, Wordless(0), folder)
    except DataError as refused:
        if "stands in the way" in refused.message:
            return False
        raise
    model.load_state_dict(weights, strict=False)
    given = random_inputs(model, 2, 9)
    given["token_ids"].clamp_(min=5)  # embeddings alone do not say which tokens are dropped
    mask_bs, types_bs = given["attention_mask"], given["segment_ids"]
    rows = {"input_ids": given["token_ids"], "attention_mask": mask_bs, "token_type_ids": types_bs}
    with torch.no_grad():
        results = program_outputs(model, inputs_of(given)).values()
    expected = [of_tokens(result, mask_bs) for result in results]
    for made in outputs(folder, rows):
        assert min((made - x).abs().max() for x in expected if x.shape == made.shape) < 1e-5
    return True


def assert_same(ours: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> None:
    """The same names, and the same bits."""
    assert ours.keys() == wanted.keys()
    assert all(torch.equal(ours[name], wanted[name]) for name in wanted)


def bert_folder(folder: Path, words: Iterable[str], hidden: int = 16, layers: int = 1) -> None:
    """A folder of BERT without weights: its configuration, and a vocabulary of these words."""
    config = {
        "model_type": "bert", "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": 2, "intermediate_size": 2 * hidden, "max_position_embeddings": 512,
    }  # fmt: skip
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": len(tokens)}))
    (folder / "vocab.txt").write_text("\n".join(tokens))
