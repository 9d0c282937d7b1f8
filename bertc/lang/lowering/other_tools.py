"""Names of settings and arguments in other tools."""

OTHER_TOOLS = {
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "hidden_size": "hidden",
    "intermediate_size": "ffn",
    "train_batch_size": "batch",
    "per_device_train_batch_size": "batch",
    "max_seq_length": "seq",
    "num_train_epochs": "epochs",
    "max_steps": "steps",
    "learning_rate": "lr",
    "weight_decay": "decay",
    "warmup_steps": "warmup",
    "warmup_ratio": "warmup",
    "max_grad_norm": "clip",
    "doc_stride": "stride",
    "mlm_probability": "p",
    "masked_lm_prob": "p",
    "prob": "p",
    "train_file": "train",
    "data": "train",
    "validation_file": "dev",
    "validation": "dev",
    "test_file": "test",
    "target": "label",
    "gold": "label",
    "gold_label": "label",
    "column": "text",
    "sentence": "text",
    "sentence1": "text",
    "sentence_a": "text",
    "premise": "text",
    "text_pair": "pair",
    "sentence2": "pair",
    "sentence_b": "pair",
    "hypothesis": "pair",
}
"""Names of settings and arguments in other tools, with bertc's."""

_ONE_LABEL = "an example has one label here; of several learn one task each: task=classify(..., "
_ONE_LABEL += "label=a, name=a) + classify(..., label=b, name=b)"
_UNWEIGHTED = "classes have no weights here: repeat the rows of rare ones in the training file"
_ADDED = "words are added to a vocabulary by transformers: tokenizer.add_tokens, "
_ADDED += "model.resize_token_embeddings, save_pretrained; then init takes that folder"
NOT_HERE = {
    "multi_label": _ONE_LABEL,
    "multilabel": _ONE_LABEL,
    "multi": _ONE_LABEL,
    "problem_type": _ONE_LABEL,
    "class_weights": _UNWEIGHTED,
    "class_weight": _UNWEIGHTED,
    "pos_weight": _UNWEIGHTED,
    "oversampling": _UNWEIGHTED,
    "streaming": "hf(...) downloads a split once, and reads it from the disk",
    "add": _ADDED,
    "added": _ADDED,
    "add_tokens": _ADDED,
    "added_tokens": _ADDED,
    "new_tokens": _ADDED,
}
"""Settings and arguments of other tools that bertc lacks, with what to do instead."""

_NO_WINDOWS = "a longer text is cut at the end of its row; only squad and read read it in windows"
NOT_OF_KIND = {
    ("squad", "test"): "a test file is scored after training: bertc eval RUN --task "
    "\"squad('test.json')\", and answered by bertc predict RUN test.json",
    **{(kind, "stride"): _NO_WINDOWS for kind in ("classify", "regress", "tag", "tagging")},
}
"""The same where another kind has it, by kind and argument."""
