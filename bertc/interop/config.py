"""``config.json`` of the Hugging Face layouts, read through closed lists.

Every setting is handled (a field below), ignored for a stated reason, or accepted at the one value
that bertc computes. Any other setting is refused by name. Defaults are those of transformers 5.23.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bertc.diagnostics import DataError, UnsafeError
from bertc.interop.names import LayoutName
from bertc.interop.spelling import SPELLINGS, common_names
from bertc.ir.base import Probability, Width
from bertc.ir.network.ffn import Activation
from bertc.ir.network.norm import Epsilon
from bertc.ir.program.settings import Heads
from bertc.storage.json_file import read_json, shown

MAX_BYTES = 2**20
VocabularySize = Annotated[int, Field(ge=16, le=1_000_000)]

HfActivation = Literal[
    "gelu", "gelu_python", "gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_fast",
    "gelu_accurate", "relu", "silu", "swish", "tanh",
]  # fmt: skip
MEANING: dict[HfActivation, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_python_tanh": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_accurate": "gelu-tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""What the names of transformers' activations.ACT2FN compute."""


class HfConfig(BaseModel):
    """The settings that shape a network, as BertConfig names and defaults them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model_type: LayoutName = "bert"
    vocab_size: VocabularySize = 30_522
    hidden_size: Width = 768
    num_hidden_layers: Annotated[int, Field(ge=1, le=1000)] = 12
    num_attention_heads: Heads = 12
    intermediate_size: Width = 3072
    hidden_act: HfActivation = "gelu"
    hidden_dropout_prob: Probability = 0.1
    attention_probs_dropout_prob: Probability = 0.1
    max_position_embeddings: Width = 512
    type_vocab_size: Annotated[int, Field(ge=1, le=1000)] = 2
    initializer_range: Annotated[float, Field(gt=0, le=10)] = 0.02
    layer_norm_eps: Epsilon = 1e-12
    pad_token_id: Annotated[int, Field(ge=0, le=998)] | None = 0

    @property
    def embedding(self) -> int:
        """Width of the embedding tables."""
        return self.hidden_size

    @property
    def offset(self) -> int:
        """The first row of the position table that is read."""
        return 0


class HfBert(HfConfig):
    """BertConfig."""

    model_type: Literal["bert"] = "bert"


class HfRoberta(HfConfig):
    """RobertaConfig: positions count from the padding id + 1."""

    model_type: Literal["roberta"] = "roberta"
    vocab_size: VocabularySize = 50_265
    pad_token_id: Annotated[int, Field(ge=0, le=998)] = 1

    @property
    def offset(self) -> int:
        """The first row of the position table that is read."""
        return self.pad_token_id + 1


class HfAlbert(HfConfig):
    """AlbertConfig; as BertConfig, its defaults are the largest release's."""

    model_type: Literal["albert"] = "albert"
    vocab_size: VocabularySize = 30_000
    embedding_size: Width = 128
    hidden_size: Width = 4096
    num_hidden_groups: Annotated[int, Field(ge=1, le=1000)] = 1
    num_attention_heads: Heads = 64
    intermediate_size: Width = 16_384
    hidden_act: HfActivation = "gelu_new"
    hidden_dropout_prob: Probability = 0.0
    attention_probs_dropout_prob: Probability = 0.0

    @property
    def embedding(self) -> int:
        """Width of the embedding tables."""
        return self.embedding_size


class HfXlm(HfConfig):
    """XLMConfig, its settings under the names that the others have for them."""

    model_type: Literal["xlm"] = "xlm"
    vocab_size: VocabularySize = 30_145
    hidden_size: Width = 2048
    num_attention_heads: Heads = 16
    intermediate_size: Width = 0
    hidden_act: Literal["gelu", "relu"] = "gelu"
    type_vocab_size: Literal[0] = 0
    pad_token_id: Annotated[int, Field(ge=0, le=998)] = 2
    n_langs: Annotated[int, Field(ge=1, le=255)] = 1
    use_lang_emb: bool = True
    lang2id: dict[str, int] | None = None

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the table, in its order; their numbers where none is named."""
        if self.n_langs == 1 or not self.use_lang_emb:
            return ()
        names = {number: name for name, number in (self.lang2id or {}).items()}
        return tuple(names.get(number, str(number)) for number in range(self.n_langs))


class HfElectra(HfConfig):
    """ElectraConfig; as BertConfig, its defaults are the small release's."""

    model_type: Literal["electra"] = "electra"
    embedding_size: Width = 128
    hidden_size: Width = 256
    num_attention_heads: Heads = 4
    intermediate_size: Width = 1024

    @property
    def embedding(self) -> int:
        """Width of the embedding tables."""
        return self.embedding_size


class HfXlnet(HfConfig):
    """XLNetConfig, its settings under the names that the others have for them."""

    model_type: Literal["xlnet"] = "xlnet"
    vocab_size: VocabularySize = 32_000
    hidden_size: Width = 1024
    num_hidden_layers: Annotated[int, Field(ge=1, le=1000)] = 24
    num_attention_heads: Heads = 16
    intermediate_size: Width = 4096
    type_vocab_size: Literal[0] = 0
    pad_token_id: Annotated[int, Field(ge=0, le=998)] | None = 5
    clamp_len: Annotated[int, Field(ge=-1, le=1_000_000)] = -1
    d_head: Width | None = None


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
        ("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id", "mask_token_id",
         "tokenizer_class", "do_sample"),
        "the tokenizer's own file says it",
    ),
    **dict.fromkeys(
        ("classifier_dropout", "classifier_dropout_prob", "id2label", "label2id", "num_labels",
         "problem_type", "finetuning_task", "task_specific_params", "summary_type",
         "summary_use_proj", "summary_proj_to_labels", "summary_activation",
         "summary_first_dropout", "summary_last_dropout"),
        "belongs to the head of a task, and is read where there is one (task_config.py)",
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
    **dict.fromkeys(
        ("start_n_top", "end_n_top", "lang_id"),
        "belongs to conditioned spans and XLM's generation of text",
    ),
    **dict.fromkeys(
        ("embed_init_std", "max_vocab", "min_count", "id2lang", "bos_index", "eos_index",
         "unk_index", "mask_index"),
        "says how XLM was trained, or what another setting says too",
    ),
    **dict.fromkeys(
        ("mem_len", "reuse_len", "use_mems_eval", "use_mems_train"),
        "says how much is remembered from row to row, which whoever reads decides",
    ),
}  # fmt: skip
"""Settings that change nothing bertc imports, and why."""

ONLY: dict[str, Any] = {
    "is_decoder": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "tie_encoder_decoder": False,
    "tie_word_embeddings": True,
    "position_embedding_type": "absolute",
    "inner_group_num": 1,
    "num_memory_blocks": 0,
    "net_structure_type": 0,
    "down_scale_factor": 1,
    "gap_size": 0,
    "sinusoidal_embeddings": False,
    "causal": False,
    "asm": False,
    "is_encoder": True,
    "share_inout_emb": True,
    "attn_type": "bi",
    "bi_data": False,
    "same_length": False,
    "untie_r": True,
    "pruned_heads": {},
    "per_layer_config": {},
}
"""Settings with one value that bertc computes; those of releases of ALBERT, XLM and XLNet too."""

CODE = ("auto_map", "attn_implementation", "_attn_implementation", "experts_implementation",
        "_attn_implementation_internal", "custom_pipelines", "trust_remote_code")  # fmt: skip
"""Settings that can name somebody's code; transformers has run it (CVE-2026-4372)."""

_BY_LAYOUT: dict[LayoutName, type[HfConfig]] = {
    "bert": HfBert,
    "roberta": HfRoberta,
    "albert": HfAlbert,
    "xlm": HfXlm,
    "electra": HfElectra,
    "xlnet": HfXlnet,
}
_CONFIGS: TypeAdapter[HfConfig] = TypeAdapter(
    Annotated[
        HfBert | HfRoberta | HfAlbert | HfXlm | HfElectra | HfXlnet,
        Field(discriminator="model_type"),
    ]
)


def read_config(path: Path) -> HfConfig:
    """The configuration in a ``config.json``.

    Raises:
        MissingInputError: if there is none.
        DataError: if it is broken, or says something that bertc cannot compute.
        UnsafeError: if it names code to be run.
    """
    settings = read_json(path, MAX_BYTES)
    layout = settings.get("model_type")
    if not isinstance(layout, str) or layout not in _BY_LAYOUT:
        raise DataError(
            f"{path}: model_type is {shown(layout)}",
            help=f"bertc imports the layouts {', '.join(_BY_LAYOUT)}",
        )
    spelled = {name: name for name in settings}
    if layout in SPELLINGS:
        settings, spelled = common_names(path, layout, settings)
    fields = _BY_LAYOUT[layout].model_fields
    for name, value in settings.items():
        if name not in fields:
            _check_unhandled(path, name, value)
    try:
        config = _CONFIGS.validate_python({k: v for k, v in settings.items() if k in fields})
    except ValidationError as error:
        name = str(error.errors()[0]["loc"][1])
        raise DataError(
            f"{path}: bertc cannot compute {spelled.get(name, name)} = {shown(settings.get(name))}",
            help=_allowed(name),
        ) from None
    _check_together(path, config)
    return config


def _check_unhandled(path: Path, name: str, value: Any) -> None:
    if value is None or name in IGNORED:
        return
    if name in CODE:
        if name != "auto_map" and value in ("eager", "sdpa", False):
            return
        raise UnsafeError(
            f"{path}: {name} = {shown(value)} can name code that would be run",
            help=f"bertc runs no code of a folder; remove {name} if the weights need none",
        )
    if name not in ONLY:
        raise DataError(
            f"{path}: bertc does not know the setting {shown(name)} = {shown(value)}",
            help="it may change what the network computes; remove it if it does not",
        )
    if value != ONLY[name] or type(value) is not type(ONLY[name]):
        raise DataError(
            f"{path}: bertc cannot compute {name} = {shown(value)}",
            help=f"only {name} = {shown(ONLY[name])} is imported",
        )


def _check_together(path: Path, config: HfConfig) -> None:
    if config.hidden_size % config.num_attention_heads:
        raise DataError(
            f"{path}: num_attention_heads = {config.num_attention_heads} does not divide "
            f"hidden_size = {config.hidden_size}",
            help="no class of transformers computes such a network",
        )
    if config.offset >= config.max_position_embeddings:
        raise DataError(
            f"{path}: pad_token_id = {config.pad_token_id} leaves none of the "
            f"{config.max_position_embeddings} positions",
            help="the RoBERTa layout counts positions from the padding id + 1",
        )
    head_dim = config.hidden_size // config.num_attention_heads
    if isinstance(config, HfXlnet) and config.d_head not in (None, head_dim):
        raise DataError(
            f"{path}: d_head = {config.d_head} is not d_model / n_head = {config.hidden_size} / "
            f"{config.num_attention_heads}",
            help="no class of transformers computes such a network",
        )
    if isinstance(config, HfAlbert) and config.embedding_size == config.hidden_size:
        raise DataError(
            f"{path}: embedding_size = hidden_size = {config.hidden_size}, and the ALBERT layout "
            "still has a map between the two",
            help="bertc has a map only where the widths differ, as the ALBERT release",
        )


def _allowed(name: str) -> str:
    if name == "hidden_act":
        return f"one of {', '.join(MEANING)}"
    kind = "a number" if "prob" in name or name in ("initializer_range", "layer_norm_eps") else ""
    return f"it has to be {kind or 'a whole number'} within reasonable limits"
