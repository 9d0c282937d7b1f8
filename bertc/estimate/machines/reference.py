"""Rates of one core of a server CPU (AMD EPYC, 2026), for machines that were not measured.

In billions per second, first those with AVX-512 and its bf16 instructions, then those with AVX2.
"""

from bertc.estimate.machines.rates import Point, Rates

GIGA = 1e9
START_SECONDS = 9e-6
"""To start an operation of a step, with what Python does around it (docs/performance.md)."""
VOCABULARY = 30_000
# fmt: off
PRODUCTS = {  # by width, to three times as many: fp32, bf16
    64: (52.4, 92.5, 64.8, 5.87),
    128: (69.9, 145.0, 74.0, 6.85),
    256: (84.7, 161.0, 88.1, 6.38),
    768: (88.2, 184.0, 84.3, 3.5),
}
ATTENTION = {  # by keys and head width: fp32, bf16, and both with dropout
    (64, 32): (0.0559, 0.021, 0.0632, 0.0893, 0.0491, 0.0266, 0.0575, 0.0107),
    (64, 64): (0.0377, 0.0196, 0.0476, 0.0736, 0.0297, 0.0145, 0.0438, 0.00623),
    (128, 32): (0.0901, 0.028, 0.0807, 0.13, 0.0764, 0.0305, 0.0849, 0.0109),
    (128, 64): (0.0479, 0.0241, 0.0509, 0.0975, 0.0507, 0.0155, 0.0553, 0.00724),
    (512, 32): (0.136, 0.116, 0.0884, 0.169, 0.133, 0.0297, 0.0867, 0.0116),
    (512, 64): (0.0801, 0.0782, 0.062, 0.12, 0.0726, 0.0164, 0.0589, 0.00746),
}
ELEMENTS = {  # fp32, bf16
    "norm": (0.752, 0.906, 0.311, 0.846), "norm of sum": (0.326, 0.616, 0.273, 0.497),
    "dropout": (0.724, 1.54, 0.892, 1.26), "add": (1.31, 3.14, 1.55, 3.78),
    "gelu": (0.609, 0.598, 0.488, 0.229), "gelu-tanh": (0.643, 0.746, 0.269, 0.316),
    "relu": (0.873, 1.87, 1.34, 0.381), "silu": (0.784, 0.687, 0.608, 0.328),
    "tanh": (0.28, 0.455, 0.328, 0.343), "lookup": (2.14, 1.63, 1.95, 2.27),
    "loss": (1.08, 0.719, 0.889, 0.299),
}
# fmt: on
OPTIMIZERS = {"adam": (0.968, 1.41), "lamb": (0.199, 0.246)}
BANDWIDTH = (21.4, 21.8)


def reference(*, wide: bool) -> Rates:
    """Rates with AVX-512 and its bf16 instructions (``wide``), or with AVX2 only."""
    narrow = not wide
    # Products of heads over a vocabulary are taken to be as quick as those of layers so wide.
    sizes = [*((n, 3 * n) for n in PRODUCTS), *((n, VOCABULARY) for n in (64, 128, 256))]
    products, attention, elements = {}, {}, {}
    for column, precision in enumerate(("fp32", "bf16"), 2 * narrow):
        products[precision] = tuple(
            Point(at=at, rate=PRODUCTS[at[0]][column] * GIGA) for at in sizes
        )
        for name, rates in ELEMENTS.items():
            elements[f"{name} {precision}"] = rates[column] * GIGA
    for column, kind in enumerate(("fp32", "bf16", "fp32 dropout", "bf16 dropout"), 4 * narrow):
        attention[kind] = tuple(
            Point(at=at, rate=rates[column] * GIGA) for at, rates in ATTENTION.items()
        )
    return Rates(
        products=products,
        attention=attention,
        elements=elements,
        optimizers={name: rates[narrow] * GIGA for name, rates in OPTIMIZERS.items()},
        bandwidth_bytes=BANDWIDTH[narrow] * GIGA,
        start_seconds=START_SECONDS,
    )
