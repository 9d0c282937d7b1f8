"""NomicBERT's Hugging Face layout: BERT's, with rotary positions and a gate, and few biases.

Keys are those of the files, which transformers renames when it reads and writes them.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from bertc.hub.families import bert_like, rotary_like
from bertc.hub.families.config import ACTIVATIONS, ROPE, HfConfig, Single, VocabularySize
from bertc.hub.families.family import Candidate, Family, TaskClass, TaskHeads, Tokens, hf_class
from bertc.hub.families.obstacle import Obstacle
from bertc.hub.families.rotary_like import GateActivation, PadId, Rope
from bertc.ir.base import Node, Probability, Width
from bertc.ir.network.attention import FullAttention
from bertc.ir.network.encoder import Dropout, Encoder, LayerWidths
from bertc.ir.network.ffn import Glu
from bertc.ir.network.head import TransformHead
from bertc.ir.network.norm import PostNorm
from bertc.ir.network.positions import RotaryPositions, Theta
from bertc.ir.network.table import WholeTable
from bertc.ir.vocabulary import WordPiece

TITLE, THETA = "NomicBERT", 1000.0
GATES = {"swiglu": "silu", "geglu": "gelu"}
SAYS: Mapping[type[Node], Collection[str]] = {
    Encoder: bert_like.NETWORK,
    WholeTable: (),
    RotaryPositions: ("theta", "local_theta"),
    FullAttention: ("bias",),
    Glu: ("kind", "bias"),
    PostNorm: ("eps", "embeddings"),
    LayerWidths: ("heads", "head_dim", "ffn"),
    Dropout: ("hidden", "attention", "ffn", "last"),
    TransformHead: (),
}


class HfNomicBert(HfConfig):
    """NomicBertConfig, whose names are BertConfig's, and its first names, which are GPT-2's."""

    spelling = {
        "n_embd": "hidden_size",
        "n_layer": "num_hidden_layers",
        "n_head": "num_attention_heads",
        "n_inner": "intermediate_size",
        "activation_function": "hidden_act",
        "resid_pdrop": "hidden_dropout_prob",
        "attn_pdrop": "attention_probs_dropout_prob",
        "n_positions": "max_position_embeddings",
        "layer_norm_epsilon": "layer_norm_eps",
        "rotary_emb_base": "rope_theta",
    }
    # Where both are there, transformers reads today's names alone.
    older = frozenset(spelling)
    only = {
        **ROPE,
        **dict.fromkeys(
            ("mlp_fc1_bias", "mlp_fc2_bias", "qkv_proj_bias"), Single(False, "maps have biases")
        ),
        "prenorm": Single(False, "norms come before each part"),
        "use_rms_norm": Single(False, "norms take no mean off"),
        "causal": Single(False, "tokens see earlier ones alone"),
        "parallel_block": Single(False, "attention and gate read the same states"),
        "rotary_emb_interleaved": Single(False, "pairs that turn are neighbours"),
        "rotary_emb_fraction": Single(1.0, "a part of a head turns"),
        "rotary_emb_scale_base": Single(None, "scores decay with distance"),
        "scale_attn_weights": Single(True, "scores are not divided"),
    }
    kept = frozenset({"max_position_embeddings"})

    model_type: Literal["nomic_bert"] = "nomic_bert"
    vocab_size: VocabularySize = 30_528
    hidden_act: GateActivation = "silu"
    hidden_dropout_prob: Probability = 0.0
    attention_probs_dropout_prob: Probability = 0.0
    max_position_embeddings: Width = 2048
    pad_token_id: PadId = 0
    head_dim: Width | None = None
    rope_parameters: Rope | None = None
    rope_theta: Theta = THETA

    @classmethod
    def meant(cls, name: str, value: Any) -> Any:
        """An activation, where a file names its gate."""
        gate = name == "activation_function" and isinstance(value, str)
        return GATES.get(value, value) if gate else value

    @property
    def theta(self) -> float:
        """The base of its angles."""
        return (self.rope_parameters and self.rope_parameters.rope_theta) or self.rope_theta


def _claims(candidate: Candidate) -> bool:
    """True for rotary positions and norms after each part."""
    encoder = candidate.encoder
    return encoder.positions.kind == "rotary" and encoder.norm.kind == "post"


def _obstacle(candidate: Candidate) -> Obstacle | None:
    return rotary_like.obstacle_of(candidate, TITLE, _differences(candidate))


def _differences(candidate: Candidate) -> Iterator[rotary_like.Row]:
    """Settings that differ from NomicBertModel's."""
    encoder, norm, attention = (
        candidate.encoder,
        candidate.encoder.norm,
        candidate.encoder.attention,
    )
    yield not encoder.segments, "segments=0", "has token types", "segments=1"
    norms = f"norm=post({norm.eps:g})"
    yield not encoder.norms_embeddings, "norm=post(embeddings=false)", "norms embeddings", norms
    bias = attention.kind == "full" and attention.bias
    yield bias, "attention=full", "has no biases there", "attention=full(bias=false)"
    gate = f"activation={'geglu' if encoder.head_activation == 'gelu' else 'swiglu'}"
    biased = isinstance(encoder.ffn, Glu) and encoder.ffn.bias is True
    yield biased, gate, "has no biases there", f"{gate}(bias=false)"
    head = candidate.predicts and encoder.head.kind != "transform"
    yield head, f"head={encoder.head.kind}", "has a dense layer and a norm", "head=transform"
    yield from rotary_like.unsaid_rates(encoder, "hidden", "attention")


def _settings(config: HfNomicBert) -> dict[str, Any]:
    fills = config.head_dim in (None, config.hidden_size // config.num_attention_heads)
    return {
        **bert_like.settings_of(config),
        **({} if fills else {"head_dim": config.head_dim}),
        "activation": rotary_like.gated_part(config.hidden_act, bias=False),
        "positions": RotaryPositions(theta=config.theta),
        "attention": FullAttention(bias=False),
    }


def _config_of(encoder: Encoder, tokens: Tokens) -> dict[str, Any]:
    """The settings by BertConfig's names, with its angles in place of a table."""
    assert isinstance(encoder.positions, RotaryPositions), "as claimed"
    known = bert_like.config_of(encoder, tokens)
    del known["max_position_embeddings"]
    return {
        **known,
        "hidden_act": ACTIVATIONS[encoder.head_activation],
        "head_dim": encoder.layers[0].head_dim,
        "rope_parameters": rotary_like.rope(encoder.positions.theta),
        **bert_like.ends(tokens),
    }


NOMIC = Family(
    model_type="nomic_bert",
    title=TITLE,
    config=HfNomicBert,
    prefix="nomic_bert",
    names={
        "encoder.embeddings.token": "embeddings.word_embeddings",
        "encoder.embeddings.segment": "embeddings.token_type_embeddings",
        "encoder.embeddings.norm": "emb_ln",
        "encoder.attention.{n}.query": "encoder.layers.{n}.attn.Wqkv",
        "encoder.attention.{n}.key": "encoder.layers.{n}.attn.Wqkv",
        "encoder.attention.{n}.value": "encoder.layers.{n}.attn.Wqkv",
        "encoder.attention.{n}.output": "encoder.layers.{n}.attn.out_proj",
        "encoder.attention.{n}.norm": "encoder.layers.{n}.norm1",
        "encoder.ffn.{n}.gate": "encoder.layers.{n}.mlp.fc12",
        "encoder.ffn.{n}.inner": "encoder.layers.{n}.mlp.fc11",
        "encoder.ffn.{n}.outer": "encoder.layers.{n}.mlp.fc2",
        "encoder.ffn.{n}.norm": "encoder.layers.{n}.norm2",
        **bert_like.POOLER,
        "heads.mlm.dense": "cls.predictions.transform.dense",
        "heads.mlm.norm": "cls.predictions.transform.layer_norm",
        "heads.mlm": "cls.predictions",
    },
    copies={
        "cls.predictions.decoder.weight": bert_like.TABLE,
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    classes=(hf_class("NomicBertForMaskedLM", "mlm"), hf_class("NomicBertModel")),
    tasks=TaskHeads(
        (
            TaskClass(
                "NomicBertForSequenceClassification", ("labels", "score"), "classifier", "read"
            ),
            TaskClass("NomicBertForTokenClassification", ("tags",), "classifier", "unread"),
        ),
        dropout="classifier_dropout",
        otherwise="NomicBERT has no class for choices and spans",
    ),
    says=SAYS,
    claims=_claims,
    obstacle=_obstacle,
    settings=_settings,
    config_of=_config_of,
    recipe="nomic",
    vocabulary=WordPiece,
)
