"""Operations that are a function of the runtime, a loop or a look-up."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bertc import DataError
from bertc.lab.c.expressions import (
    INSTEAD,
    ZERO,
    Index,
    Shape,
    Value,
    axis,
    bracketed,
    c_text,
    combined,
    computed,
    dense,
    divided,
    literal,
    read_index,
    size,
    uniform,
)  # fmt: skip
from bertc.lab.c.writing import Layout, Writer, nested


def _by_rows(w: Writer, to: Layout, x: Value, name: str, *more: str) -> Value:
    """A function of rows along the last axis."""
    rows, count = w.rows(x)
    out = w.buffer(to[0], to[2], x.early)
    texts = ", ".join([rows, count, c_text(to[0][-1]), *more, out.buffer])
    return w.say(out, f"{name}({texts});")


def _normed(w: Writer, to: Layout, x: Value, _: Any, *rest: Any, name: str, weights: int) -> Value:
    """A norm, with ``weights`` of a scale and perhaps a bias, which may be None."""
    *scales, eps = [*rest, *[None] * (weights + 1 - len(rest))][: weights + 1]
    eps = literal(torch.finfo(to[2]).eps if eps is None else eps, floats=True)
    return _by_rows(w, to, x, name, *(_pointer(w, scale) for scale in scales), eps)


def _softmax(w: Writer, to: Layout, x: Value, place: Any, *_: Any, name: str) -> Value:
    if place % len(to[0]) != len(to[0]) - 1:
        raise DataError(f"C has no word for {name} along another axis than the last", INSTEAD)
    return _by_rows(w, to, x, name)


def _pointer(w: Writer, operand: Any) -> str:
    return "NULL" if operand is None else w.held(w.value(operand)).pointer


def _linear(w: Writer, to: Layout, x: Any, matrix: Any, bias: Any = None) -> Value:
    if not isinstance(matrix, Tensor):
        raise DataError("C has no product with a matrix that depends on the text", INSTEAD)
    if matrix._base is not None or (
        f"$w{matrix.data_ptr()}$" in w.tags and matrix.data_ptr() not in w.packed
    ):
        matrix = matrix.clone()
    w.packed.add(matrix.data_ptr())
    outer, inner = w.value(matrix).shape
    (rows, count), early = w.rows(x), x.early
    panels, b = f"$w{matrix.data_ptr()}$", _pointer(w, bias)
    out = w.buffer(to[0], to[2], early)
    name, row = f"linear{'_int8' * w.int8}", f"{rows}, {count}, {inner}, {panels}, {b}"
    call = f"{name}({row}, {outer}, {out.buffer}, scratch);"
    return w.say(out, call, scratch=f"{name}_scratch({count}, {inner})")


def _attention(
    w: Writer, to: Layout, q: Any, k: Any, v: Any, mask: Any = None, _p: float = 0,
    causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    (_, heads, queries, width), keys, h = to[0], w.value(k).shape[2], axis("h", to[0][1])
    parts, n = list[str](), c_text(keys)
    for tensor in map(w.held, map(w.value, (q, k, v))):
        held = tensor if tensor.steps[3] == 1 or width == 1 else w.store(tensor)
        at = read_index(f"(h / {heads // held.shape[1]})") if heads != held.shape[1] else h
        first = held.address((ZERO, at if held.shape[1] != 1 else ZERO, ZERO, ZERO))
        parts.append(f"{held.buffer} + {c_text(first)}, {c_text(held.steps[2])}")
    out = w.buffer(to[0], to[2], early=False, steps=to[1])
    factor = literal(scale or float(width) ** -0.5, floats=True)
    score, change = f"scores[(s - first) * {n} + t]", list[str]()
    if causal:
        lower = lambda i: f"({c_text(i[1])} <= {c_text(i[0])})"  # noqa: E731
        mask = computed((queries, keys), dense((queries, keys)), torch.bool, lower, [], 1)
    bias = w.value(mask) if mask is not None else uniform((), torch.bool, 1)
    if bias.constant is None:
        text = bias.at((ZERO, h, axis("s", queries), axis("t", keys)))
        step = f"+= {text}" if bias.floats else f"= {text} ? {score} : -INFINITY"
        loops = ("for (long s = first; s < first + rows; s++)", f"for (long t = 0; t < {n}; t++)")
        change = nested(loops, f"{score} {step};")
    target = f"{out.buffer} + {c_text(out.address((ZERO, h, read_index('first'), ZERO)))}"
    step = c_text(out.steps[2])
    return w.say(
        out, f"for (long h = 0; h < {heads}; h++) {{",
        f"    attention_keys({parts[1]}, {parts[2]}, {n}, {width}, scratch);",
        f"    for (long first = 0; first < {c_text(queries)}; first += QUERIES) {{",
        f"        const long rows = smaller_whole(QUERIES, {c_text(queries)} - first);",
        f"        float *scores = attention_scores({parts[0]}, first, rows, {factor}, {n},",
        f"                                         {width}, scratch);",
        *(f"        {line}" for line in change),
        f"        attention_mix(scores, rows, {n}, {width}, {target}, {step}, scratch);", "    }",
        "}", scratch=f"attention_scratch({n}, {width})",
    )  # fmt: skip


def _matmul(w: Writer, to: Layout, a: Any, b: Any) -> Value:
    held = [w.held(w.value(matrix)) for matrix in (a, b)]
    out = w.buffer(to[0], to[2], all(matrix.early for matrix in held))
    loops, indices = w.axes(to[0][:-2])
    texts = [
        f"{m.buffer} + {c_text(m.address((*indices, ZERO, ZERO)))}, "
        f"{c_text(m.steps[-2])}, {c_text(m.steps[-1])}"
        for m in held
    ]
    sizes = ", ".join(map(c_text, (to[0][-2], held[0].shape[-1], to[0][-1])))
    target = f"{out.buffer} + {c_text(out.address((*indices, ZERO, ZERO)))}"
    return w.say(out, *nested(loops, f"matmul({', '.join(texts)}, {sizes}, {target});"))


def _cat(w: Writer, to: Layout, parts: list[Any], place: Any = 0, *, new: bool = False) -> Value:
    values = [part for part in map(w.value, parts) if size(part.shape) != 0]
    out, begin = w.buffer(to[0], to[2], all(v.early for v in values), to[1]), ZERO
    at = int(place) % len(to[0])
    for value in values:
        steps = (*out.steps[:at], *out.steps[at + new :])
        shape = value.shape if new else (*to[0][:at], value.shape[at], *to[0][at + 1 :])
        w.store(value, into=Value(shape, steps, to[2], out.entry, begin * out.steps[at], out.buffer,
                                  early=out.early))  # fmt: skip
        begin += 1 if new else value.shape[at]
    return out


def _reduced(
    w: Writer, to: Layout, x: Any, places: Any = None, keep: bool = False, *, name: str
) -> Value:
    x = w.value(x)
    among = {int(p) % len(x.shape) for p in (places if isinstance(places, list) else [places])}
    count = size([x.shape[p] for p in among])
    if x.constant is not None:
        same = uniform(to[0], to[2], x.constant)
        return combined("mul", *to, [same, w.value(count)]) if name == "sum" else same
    out, (_, indices) = w.buffer(to[0], to[2], x.early), w.axes(x.shape)
    split = ([p for p in range(len(x.shape)) if (p in among) == inner] for inner in (False, True))
    outer, inner = ([f"for (long {i} = 0; {i} < {c_text(x.shape[p])}; {i}++)" for p in part
                     if (i := c_text(indices[p])) != "0"] for part in split)  # fmt: skip
    left = tuple(ZERO if p in among else i for p, i in enumerate(indices) if keep or p not in among)
    text, kind = x.at(indices, floats=out.floats), "float" if out.floats else "int32_t"
    most = f"larger(total, {text})" if out.floats else f"(int32_t)larger_whole(total, {text})"
    steps = {"any": f"total = total || {text};", "amax": f"total = {most};"}
    step = steps.get(name, f"total += {text};")
    total = f"total / (float){bracketed(count)}" if name == "mean" else "total"
    last = f"{out.entry(out.address(left))} = {total};"
    begin = ("-INFINITY" if out.floats else "INT32_MIN") if name == "amax" else 0
    loops = [*outer[:-1], f"{outer[-1] if outer else ''} {{".strip()]
    return w.say(out, *nested(loops, f"{kind} total = {begin};", *nested(inner, step), last), "}")


def _cumsum(w: Writer, to: Layout, x: Any, place: Any) -> Value:
    x, out = w.value(x), w.buffer(to[0], to[2], w.value(x).early)
    if int(place) % len(to[0]) != len(to[0]) - 1:
        raise DataError("C has no word for cumsum along another axis than the last", INSTEAD)
    (*outer, inner), indices = w.axes(to[0])
    outer = [f"{line}{' {' * (line == outer[-1])}" for line in outer] or ["{"]
    kind, text = "float" if out.floats else "int32_t", x.at(indices, floats=out.floats)
    step = f"{out.entry(out.address(indices))} = total += ({kind}){text};"
    return w.say(out, *nested(outer, f"{kind} total = 0;", *nested([inner], step)), "}")


def _looked_up(w: Writer, to: Layout, of: Any, place: Any, rows: Any, *, new: Any = None) -> Value:
    """Entries whose index along an axis is read from another tensor, with ``new`` axes or none."""
    table, rows, at = w.value(of), w.value(rows), int(place) % len(w.value(of).shape)
    axes: int = len(rows.shape) if new is None else new

    def read(indices: Shape) -> str:
        within = indices if new == 0 else indices[at : at + axes]
        alike = rows.constant
        index = read_index(rows.at(within)) if alike is None else ZERO + int(alike)
        return table.at((*indices[:at], index, *indices[at + (axes or 1) :]))

    return computed(*to, read, [table, rows], table.cost + 1)


def _index(w: Writer, to: Layout, x: Any, rows: list[Any]) -> Value:
    chosen = [(place, row) for place, row in enumerate(rows) if row is not None]
    if len(chosen) != 1:
        raise DataError("C has no word for index along several axes", INSTEAD)
    return _looked_up(w, to, x, *chosen[0])


def _arange(w: Writer, to: Layout, *bounds: Any) -> Value:
    first, step = (bounds[0] if len(bounds) > 1 else 0), (bounds[2] if len(bounds) > 2 else 1)
    return computed(*to, lambda i: bracketed(first + step * i[0]), [], 0)


def _repeated(w: Writer, to: Layout, x: Value, times: Index, place: Index) -> Value:
    at = int(place) % len(to[0])
    return computed(*to, lambda i: x.at((*i[:at], divided(i[at], times)[0], *i[at + 1 :])), [x], 1)


def _filled(w: Writer, to: Layout, *args: Any, name: str) -> Value:
    return uniform(to[0], to[2], {"zeros": 0, "ones": 1}.get(name.removesuffix("_like"), args[-1]))


def _converted(w: Writer, to: Layout, x: Any, *_: Any) -> Value:
    if x.constant is not None:
        return uniform(to[0], to[2], torch.tensor(x.constant).to(to[2]).item())
    if to[2] == torch.bool:
        return combined("ne", *to, [x, w.value(ZERO)])
    casts = {(False, True): "(float)", (True, False): "(long)"}
    cast = casts.get((x.floats, to[2].is_floating_point), "")
    return computed(*to, lambda i: f"{cast}{x.at(i)}", [x], x.cost)


def _copied(w: Writer, to: Layout, x: Value, *_: Any) -> Value:
    if x.constant is not None:
        return uniform(to[0], to[2], x.constant)
    return replace(w.store(x), shape=to[0], steps=to[1])


def _clamp(w: Writer, to: Layout, x: Any, low: Any = None, high: Any = None) -> Value:
    for name, limit in (("maximum", low), ("minimum", high)):
        x = x if limit is None else combined(name, *to, [x, w.value(limit)])
    return x  # type: ignore[no-any-return]


def _ordered(w: Writer, to: Layout, *args: Any, order: tuple[int, ...]) -> Value:
    return combined("where", *to, [w.value(args[place]) for place in order])


def _tril(w: Writer, to: Layout, x: Any, diagonal: Any = 0) -> Value:
    below = lambda i: f"({c_text(i[-1])} <= {c_text(i[-2] + diagonal)})"  # noqa: E731
    seen = computed(to[0], to[1], torch.bool, below, [], 1)
    return combined("where", *to, [seen, w.value(x), w.value(ZERO)])


def _gelu(w: Writer, to: Layout, x: Any, *, approximate: str = "none") -> Value:
    return combined("gelu_tanh" if approximate == "tanh" else "gelu", *to, [x])


KERNELS: dict[str, Callable[..., Value]] = {
    "linear": _linear, "matmul": _matmul,
    "layer_norm": partial(_normed, name="layer_norm", weights=2),
    "rms_norm": partial(_normed, name="rms_norm", weights=1),
    "bmm": _matmul, "cumsum": _cumsum, "scaled_dot_product_attention": _attention, "cat": _cat,
    "stack": partial(_cat, new=True), "index": _index, "arange": _arange, "gelu": _gelu,
    "embedding": lambda w, to, table, ids, *_: _looked_up(w, to, table, 0, ids),
    "index_select": _looked_up, "gather": partial(_looked_up, new=0), "clamp": _clamp,
    "repeat_interleave": _repeated, "tril": _tril, "to": _converted,
    "reshape": _copied, "flatten": _copied,
    "masked_fill": partial(_ordered, order=(1, 2, 0)),
    **{name: partial(_softmax, name=name) for name in ("softmax", "log_softmax")},
    **{name: partial(_reduced, name=name) for name in ("any", "sum", "mean", "amax")},
    **{name: partial(_filled, name=name) for name in
       ("zeros", "ones", "zeros_like", "ones_like")},
}  # fmt: skip
"""By the name of ATen's operation."""
