"""Reports of unknown arguments with the edits that mend one, and names in other tools."""

from collections.abc import Collection

from bertc.base.diagnostics import Diagnostics, Fix, Note, Span, listed, nearest
from bertc.lang.read.shapes import Shape
from bertc.lang.read.tree import Argument, Call, Placed, Ratio, Value

OTHER_TOOLS = {
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "hidden_size": "hidden",
    "intermediate_size": "ffn",
    "train_batch_size": "batch",
    "per_device_train_batch_size": "batch",
    "max_seq_length": "seq",
    "max_length": "seq",
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

_SEVERAL = "several labels of an example are task=classify(..., labels=many), or of columns with "
_SEVERAL += "0 and 1 task=classify(..., label=[a, b])"
_WEIGHTED = "the loss of a task weighs its labels: task=classify(..., loss=balanced), or "
_WEIGHTED += "loss=weights([1, 5]) in their order"
_ADDED = "words are added to the vocabulary of init: vocab=extend(init, 2k), or a file of words"
NOT_HERE = {
    "multi_label": _SEVERAL,
    "multilabel": _SEVERAL,
    "multi": _SEVERAL,
    "problem_type": _SEVERAL,
    "class_weights": _WEIGHTED,
    "class_weight": _WEIGHTED,
    "pos_weight": _WEIGHTED,
    "oversampling": _WEIGHTED,
    "streaming": "hf(...) downloads a split once, and reads it from the disk",
    "add": _ADDED,
    "added": _ADDED,
    "add_tokens": _ADDED,
    "added_tokens": _ADDED,
    "new_tokens": _ADDED,
}
"""Settings and arguments of other tools that bertc lacks, with what to do instead."""

_NO_WINDOWS = "a longer text is cut at the end of its row; classify, regress, tag, tagging, read "
_NO_WINDOWS += "and squad read it in windows"
NOT_OF_KIND = {
    ("squad", "test"): "a test file is scored after training: bertc eval RUN --task "
    "\"squad('test.json')\", and answered by bertc predict RUN test.json",
    **{(kind, "stride"): _NO_WINDOWS for kind in ("glue", "xnli", "choose", "race", "embed")},
}
"""The same where another kind has it, by kind and argument."""


def unknown_argument(
    argument: Argument,
    call: Value,
    kind: str,
    shapes: dict[str, Shape],
    fitting: Collection[str],
    diagnostics: Diagnostics,
) -> None:
    """Report a named argument that the kind lacks; ``fitting`` ones could have its value."""
    assert argument.name is not None, "an unnamed argument takes a known name"
    name = argument.name.text
    names_given = [a.name.text for a in call.arguments if a.name] if isinstance(call, Call) else []
    usual_name = OTHER_TOOLS.get(name.lower(), "")
    known = f"its arguments: {listed(shapes)}" if shapes else "it has no arguments"
    not_here = NOT_OF_KIND.get((kind, name)) or NOT_HERE.get(name.lower(), "")
    free = [n for n in fitting or shapes if n not in names_given]
    near = usual_name if usual_name in free else nearest(name, free)
    if isinstance(argument.value, Ratio) and len(free) == 1:
        near = free[0]
    near = "" if not_here else near
    help, fix = "remove it", removal(argument, call)
    if near:
        help, fix = near + rest_of_line(argument.name, argument), Fix(argument.name.span, near)
    diagnostics.error(
        "E104",
        f"`{kind}` has no argument `{name[:40]}`",
        argument.name.span,
        label=f"did you mean `{near}`?" if near else "",
        notes=(Note(not_here or known),),
        help=help,
        fix=fix,
    )


def rest_of_line(name: Placed, item: Placed) -> str:
    """The text after a name within its setting or argument; dots if it is long."""
    rest = item.span.source.text[name.span.end : item.span.end]
    return rest if len(rest) <= 40 and "\n" not in rest else " ..."


def removal(argument: Argument, call: Value) -> Fix | None:
    """The edit that removes an argument from a call, with its comma."""
    if not isinstance(call, Call):
        return None
    place = call.arguments.index(argument)
    source = argument.span.source
    if len(call.arguments) == 1:
        return Fix(Span(source, call.name.span.end, call.span.end), "")
    if place:
        before = call.arguments[place - 1].span.end
        return Fix(Span(source, before, argument.span.end), "")
    return Fix(Span(source, argument.span.start, call.arguments[1].span.start), "")
