"""Rates of one core of a server CPU (AMD EPYC, 2026), for machines that were not measured."""

from typing import Any

from bertc.estimate.machines.rates import Rates

GIGA = 1e9
START_SECONDS = 9e-6
"""To start an operation of a step, with what Python does around it (docs/performance.md)."""
# In billions per second, in the structure of ``Rates``. Products of heads as of layers so wide.
# fmt: off
AVX512: dict[str, Any] = {
 "products": {"fp32": [[[64, 192], 52.4], [[128, 384], 69.9], [[256, 768], 84.7],
                       [[768, 2304], 88.2], [[64, 30000], 52.4], [[128, 30000], 69.9],
                       [[256, 30000], 84.7]],
              "bf16": [[[64, 192], 92.5], [[128, 384], 145.0], [[256, 768], 161.0],
                       [[768, 2304], 184.0], [[64, 30000], 92.5], [[128, 30000], 145.0],
                       [[256, 30000], 161.0]]},
 "attention": {"fp32": [[[64, 32], 0.0559], [[64, 64], 0.0377], [[128, 32], 0.0901],
                        [[128, 64], 0.0479], [[512, 32], 0.136], [[512, 64], 0.0801]],
               "fp32 dropout": [[[64, 32], 0.0632], [[64, 64], 0.0476], [[128, 32], 0.0807],
                                [[128, 64], 0.0509], [[512, 32], 0.0884], [[512, 64], 0.062]],
               "bf16": [[[64, 32], 0.021], [[64, 64], 0.0196], [[128, 32], 0.028],
                        [[128, 64], 0.0241], [[512, 32], 0.116], [[512, 64], 0.0782]],
               "bf16 dropout": [[[64, 32], 0.0893], [[64, 64], 0.0736], [[128, 32], 0.13],
                                [[128, 64], 0.0975], [[512, 32], 0.169], [[512, 64], 0.12]]},
 "elements": {"norm fp32": 0.752,
              "norm of sum fp32": 0.326,
              "dropout fp32": 0.724,
              "add fp32": 1.31,
              "gelu fp32": 0.609,
              "gelu-tanh fp32": 0.643,
              "relu fp32": 0.873,
              "silu fp32": 0.784,
              "tanh fp32": 0.28,
              "lookup fp32": 2.14,
              "loss fp32": 1.08,
              "norm bf16": 0.906,
              "norm of sum bf16": 0.616,
              "dropout bf16": 1.54,
              "add bf16": 3.14,
              "gelu bf16": 0.598,
              "gelu-tanh bf16": 0.746,
              "relu bf16": 1.87,
              "silu bf16": 0.687,
              "tanh bf16": 0.455,
              "lookup bf16": 1.63,
              "loss bf16": 0.719},
 "optimizers": {"adam": 0.968, "lamb": 0.199},
 "bandwidth_bytes": 21.4}
AVX2: dict[str, Any] = {
 "products": {"fp32": [[[64, 192], 64.8], [[128, 384], 74.0], [[256, 768], 88.1],
                       [[768, 2304], 84.3], [[64, 30000], 64.8], [[128, 30000], 74.0],
                       [[256, 30000], 88.1]],
              "bf16": [[[64, 192], 5.87], [[128, 384], 6.85], [[256, 768], 6.38],
                       [[768, 2304], 3.5], [[64, 30000], 5.87], [[128, 30000], 6.85],
                       [[256, 30000], 6.38]]},
 "attention": {"fp32": [[[64, 32], 0.0491], [[64, 64], 0.0297], [[128, 32], 0.0764],
                        [[128, 64], 0.0507], [[512, 32], 0.133], [[512, 64], 0.0726]],
               "fp32 dropout": [[[64, 32], 0.0575], [[64, 64], 0.0438], [[128, 32], 0.0849],
                                [[128, 64], 0.0553], [[512, 32], 0.0867], [[512, 64], 0.0589]],
               "bf16": [[[64, 32], 0.0266], [[64, 64], 0.0145], [[128, 32], 0.0305],
                        [[128, 64], 0.0155], [[512, 32], 0.0297], [[512, 64], 0.0164]],
               "bf16 dropout": [[[64, 32], 0.0107], [[64, 64], 0.00623], [[128, 32], 0.0109],
                                [[128, 64], 0.00724], [[512, 32], 0.0116],
                                [[512, 64], 0.00746]]},
 "elements": {"norm fp32": 0.311,
              "norm of sum fp32": 0.273,
              "dropout fp32": 0.892,
              "add fp32": 1.55,
              "gelu fp32": 0.488,
              "gelu-tanh fp32": 0.269,
              "relu fp32": 1.34,
              "silu fp32": 0.608,
              "tanh fp32": 0.328,
              "lookup fp32": 1.95,
              "loss fp32": 0.889,
              "norm bf16": 0.846,
              "norm of sum bf16": 0.497,
              "dropout bf16": 1.26,
              "add bf16": 3.78,
              "gelu bf16": 0.229,
              "gelu-tanh bf16": 0.316,
              "relu bf16": 0.381,
              "silu bf16": 0.328,
              "tanh bf16": 0.343,
              "lookup bf16": 2.27,
              "loss bf16": 0.299},
 "optimizers": {"adam": 1.41, "lamb": 0.246},
 "bandwidth_bytes": 21.8}
# fmt: on


def reference(*, wide: bool) -> Rates:
    """Rates with AVX-512 and its bf16 instructions (``wide``), or with AVX2 only."""
    found = AVX512 if wide else AVX2
    points = {
        group: {
            name: [{"at": at, "rate": rate * GIGA} for at, rate in each]
            for name, each in found[group].items()
        }
        for group in ("products", "attention")
    }
    rates = {
        group: {name: rate * GIGA for name, rate in found[group].items()}
        for group in ("elements", "optimizers")
    }
    bandwidth = found["bandwidth_bytes"] * GIGA
    return Rates.model_validate(
        {**points, **rates, "bandwidth_bytes": bandwidth, "start_seconds": START_SECONDS}
    )
