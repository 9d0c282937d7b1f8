"""Classes for transformers, whose names and sizes are filled in."""

LAYERS = '''
try:
    from transformers.modeling_layers import GradientCheckpointingLayer
except ImportError:  # transformers 4.51 has none

    class GradientCheckpointingLayer(nn.Module):
        gradient_checkpointing = False

        def __call__(self, *inputs):
            if self.gradient_checkpointing and self.training:
                return self._gradient_checkpointing_func(super().__call__, *inputs)
            return super().__call__(*inputs)


class AttentionLayer:
    """Scaled dot products; with unit vectors as values where the weights of these are wanted."""

    config = seen = keys = None

    def attend(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
$flash$padding        attend = F.scaled_dot_product_attention
        if self.seen is None:
            return attend(query, key, value, attn_mask, dropout_p, is_causal)
        units = torch.eye(key.shape[-2], dtype=key.dtype, device=key.device)
        units = units.expand(*key.shape[:-1], -1)
        weights = attend(query, key, units, attn_mask, 0.0, is_causal)
        self.seen.append(weights)
        return F.dropout(weights, dropout_p, self.training) @ value
'''
FLASH = """        way = self.config._attn_implementation
        if self.seen is None and "flash" in way:
            self.is_causal, real = is_causal, self.keys if attn_mask is None else attn_mask
            real = None if real is None else real[:, 0, 0].int()
            function = modeling_utils.ALL_ATTENTION_FUNCTIONS[way]
            mixed, _ = function(self, query, key, value, real, dropout=dropout_p)
            return mixed.transpose(1, 2)
"""
"""Packed rows, by a kernel of transformers; those of plain masks, of padding alone."""
PADDING = """        if self.keys is not None:  # padding is excluded too, which may come first
            own = torch.eye(self.keys.shape[-1], dtype=torch.bool, device=query.device)
            allowed = self.keys | own
            if is_causal:
                attn_mask, is_causal = allowed.tril(), False
            elif attn_mask.dtype == torch.bool:
                attn_mask = attn_mask & allowed
            else:
                attn_mask = attn_mask.masked_fill(~allowed, -torch.inf)
"""
"""Masks of causal networks, which exclude padding at the end alone."""
KEYS = """
                module.keys = None
                if attention_mask is not None:
                    module.keys = attention_mask[:, None, None].bool()"""
MODELING = '''
class ${Name}Config(PretrainedConfig):
    """The sizes of the network; those that classes read can be changed, others are in its code."""

    model_type = "bertc_$type"

    def __init__(self, vocab_size=VOCAB, classifier_dropout=$dropout, **kwargs):
        self.vocab_size, self.classifier_dropout = vocab_size, classifier_dropout
        self.hidden_size, self.num_hidden_layers = $hidden, $layers
        self.num_attention_heads, self.max_position_embeddings = $heads, $room
        super().__init__(**kwargs)


class ${Name}PreTrainedModel(modeling_utils.PreTrainedModel):
    config_class = ${Name}Config
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_sdpa = True$flashes
    accepts_loss_kwargs = False  # Trainer averages over the batches of a step
    _keys_to_ignore_on_load_unexpected = [r"^heads\\.", r"^classifier\\.", r"encoder\\.pooler\\."]

    @torch.no_grad()
    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=$std)
        elif getattr(module, "weight", None) is not None:
            nn.init.ones_(module.weight)
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)


class ${Name}Model(${Name}PreTrainedModel):
    """Last hidden states, and the pooled one where there is a pooler."""

    def __init__(self, config, add_pooling_layer=True):
        super().__init__(config)
        self.encoder = $encoder
        if not add_pooling_layer and hasattr(self.encoder, "pooler"):
            self.encoder.pooler = nn.Identity()
        if config.vocab_size != VOCAB:
            table = self.encoder.embeddings.token
            self.encoder.embeddings.token = nn.Embedding(config.vocab_size, table.embedding_dim)
        for module in self.modules():
            if isinstance(module, AttentionLayer):
                module.config = config
        self.post_init()

    def get_input_embeddings(self):
        return self.encoder.embeddings.token

    def set_input_embeddings(self, value):
        self.encoder.embeddings.token = value

$read

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, inputs_embeds=None,
        output_attentions=None, output_hidden_states=None, **kwargs,
    ):
        config, token = self.config, self.get_input_embeddings()
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give input_ids or inputs_embeds, and not both")
        attends = config.output_attentions if output_attentions is None else output_attentions
        shown = output_hidden_states
        shown = config.output_hidden_states if shown is None else shown
        seen = [] if attends or config._attn_implementation == "eager" else None
        for module in self.modules():
            if isinstance(module, AttentionLayer):
                module.seen = seen$keys
        if inputs_embeds is None:
            read = self.read(input_ids$passed)
        else:
            input_ids = inputs_embeds.new_zeros(inputs_embeds.shape[:2], dtype=torch.long)
            with token.register_forward_hook(lambda *_: inputs_embeds):
                read = self.read(input_ids$passed)
        return modeling_outputs.BaseModelOutputWithPooling(
            last_hidden_state=read["states"],
            pooler_output=read.get("pooled"),
            hidden_states=(*read["layers"][:-1], read["states"]) if shown else None,
            attentions=tuple(seen) if attends else None,
        )


class ${Name}Head(${Name}PreTrainedModel):
    """A network with a head; subclasses say which states it reads, and what it returns."""

    pools, width = False, None  # of the scores; None: as many as labels

    def __init__(self, config):
        super().__init__(config)
        self.model = ${Name}Model(config, add_pooling_layer=self.pools)
        width = config.num_labels if self.width is None else self.width
        if width:
            self.dropout = nn.Dropout(config.classifier_dropout)
            self.classifier = nn.Linear($pooled_width if self.pools else $hidden, width)
            self.post_init()

    def scores(self, states, **kwargs):
        return self.classifier(self.dropout(states))

    def loss(self, logits, labels, **kwargs):
        return F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten())

    def result(self, loss, logits, **outputs):
        return self.output(loss=loss, logits=logits, **outputs)

    @can_return_tuple
    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, inputs_embeds=None,
        labels=None, **kwargs,
    ):
        ids = (input_ids, attention_mask, token_type_ids, inputs_embeds)
        outputs = self.model(*ids, return_dict=True, **kwargs)
        states = outputs.pooler_output if self.pools else outputs.last_hidden_state
        logits = self.scores(states, **kwargs)
        loss = None if labels is None else self.loss(logits, labels, **kwargs)
        layers, weights = outputs.hidden_states, outputs.attentions
        return self.result(loss, logits, hidden_states=layers, attentions=weights)

$lm
class ${Name}ForSequenceClassification(${Name}Head):
    pools, output = True, modeling_outputs.SequenceClassifierOutput

    def loss(self, logits, labels, **kwargs):
        return self.loss_function(labels=labels, pooled_logits=logits, config=self.config)


class ${Name}ForMultipleChoice(${Name}Head):
    pools, width, output = True, 1, modeling_outputs.MultipleChoiceModelOutput

    def scores(self, states, choices, **kwargs):
        return super().scores(states).view(-1, choices)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, inputs_embeds=None,
        labels=None, **kwargs,
    ):
        choices = (input_ids if inputs_embeds is None else inputs_embeds).shape[1]
        ids = (input_ids, attention_mask, token_type_ids, inputs_embeds)
        rows = (None if given is None else given.flatten(0, 1) for given in ids)
        return super().forward(*rows, labels, choices=choices, **kwargs)


class ${Name}ForTokenClassification(${Name}Head):
    output = modeling_outputs.TokenClassifierOutput


class ${Name}ForQuestionAnswering(${Name}Head):
    width = 2

    def loss(self, logits, labels, **kwargs):
        length = logits.shape[1]  # positions beyond the row do not count
        ends = zip(logits.float().unbind(-1), labels)
        return sum(F.cross_entropy(x, at, ignore_index=length) for x, at in ends) / 2

    def result(self, loss, logits, **outputs):
        starts, ends = logits.float().unbind(-1)
        named = {"loss": loss, "start_logits": starts, "end_logits": ends}
        return modeling_outputs.QuestionAnsweringModelOutput(**named, **outputs)

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, inputs_embeds=None,
        start_positions=None, end_positions=None, **kwargs,
    ):
        ids = (input_ids, attention_mask, token_type_ids, inputs_embeds)
        ends = (start_positions, end_positions)
        if any(at is None for at in ends):
            return super().forward(*ids, **kwargs)
        length = (input_ids if inputs_embeds is None else inputs_embeds).shape[1]
        ends = [at.flatten().clamp(0, length) for at in ends]
        return super().forward(*ids, ends, **kwargs)
'''
LM = '''
class ${Name}$kind(${Name}Head):
    """Scores of every token at every position$next."""

    accepts_loss_kwargs, width, output = True, 0, modeling_outputs.$output

    def __init__(self, config):
        super().__init__(config)
        self.heads = nn.ModuleDict({"$term": $head})
        bias = getattr(self.heads["$term"], "bias", None)
        if bias is not None and len(bias) != config.vocab_size:
            self.heads["$term"].bias = nn.Parameter(bias.new_zeros(config.vocab_size))
        self.post_init()

    def resize_token_embeddings(self, *arguments, **settings):
        table = super().resize_token_embeddings(*arguments, **settings)
        head = self.heads["$term"]
        if getattr(head, "bias", None) is not None:
            missing = table.num_embeddings - len(head.bias)
            bias = F.pad(head.bias.data, (0, missing)) if missing > 0 else head.bias.data
            head.bias = nn.Parameter(bias[: table.num_embeddings])
        return table

$scores

    def loss(self, logits, labels, **kwargs):
$moved        return self.loss_function(logits, labels, logits.shape[-1], **kwargs)

'''
MOVED = "        logits, labels = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()\n"
HUB_IMPORTS = """from transformers import PretrainedConfig, modeling_outputs, modeling_utils
from transformers.utils import can_return_tuple
"""
