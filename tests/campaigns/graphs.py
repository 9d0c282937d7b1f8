"""ONNX graphs beside the modules that they were made of, for networks of every kind.

    python -m tests.campaigns.graphs [--only TEXT]

Prints the largest difference of each, and exits 1 if one is above 1e-5 or is refused.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import bertc
from bertc.base.diagnostics import BertcError, SpecError
from bertc.lab.onnx.graph import graph_of
from bertc.lab.onnx.tracing import compared, to_onnx
from tests.hub.programs import tensors
from tests.lab.onnx.conftest import NETWORK, table

BILSTM = "body=bilstm(8) vocab=wordpiece(97) seq=24 device=cpu"
NETWORKS = (
    "",
    "norm=pre share=all E=16",
    "attention=disentangled(8, 32) head=transform(decoder=24)",
    "norm=sandwich(function=rms) activation=swiglu(bias=false) head=linear(tied=false)",
    "attention=local(4, global_every=2, kv_heads=1) positions=rotary",
    "attention=full(qk_norm=true, bias=false) positions=rotary(pairs=interleaved)",
    "positions=alibi",
    "positions=bucketed(64)",
    "positions=sinusoidal",
    "attention=disentangled(8, 12)",
    "share=groups(1) norm=post activation=geglu",
)
OBJECTIVES = ("mlm+sop format=segment-pair", "clm", "rtd*50+mlm generator=0.5", "TASK")
LANGUAGES = 'objective=mlm+tlm data=pairs(en="a", fr="b") language_embeddings=true'
TOLERANCE = 1e-5


def specs(task: str) -> list[str]:
    """Every network with every objective, and what stands by itself."""
    found = [
        f"{NETWORK} {more} " + (task if objective == "TASK" else f"objective={objective}")
        for more in NETWORKS
        for objective in OBJECTIVES
    ]
    return [*found, f"{NETWORK} {LANGUAGES}", f"{BILSTM} objective=mlm", f"{BILSTM} {task}"]


def outcome(spec: str) -> tuple[str, bool]:
    """What came of a spec, and whether that is right."""
    try:
        resolved = bertc.resolve(spec)
    except SpecError as error:
        return error.diagnostics[0].code, True
    model = bertc.model.build(resolved)
    model.load_state_dict(tensors(resolved))
    graph = graph_of(model.eval())
    try:
        difference = compared(graph, to_onnx(graph)).difference
    except BertcError as error:
        return error.message[:60], False
    return f"{difference:.1e}", difference <= TOLERANCE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="specs with this text")
    options, wrong = parser.parse_args(), 0
    with tempfile.TemporaryDirectory() as folder:
        rows = [(f"w{n} w{n + 1}", "xy"[n % 2]) for n in range(5, 20)]
        task = f"task=classify({table(Path(folder) / 'rows.tsv', 'text label', rows)})"
        for spec in specs(task):
            if options.only in spec:
                told, right = outcome(spec)
                wrong += not right
                shown = spec.removeprefix(NETWORK).replace(task, "task=classify(..)").strip()
                print(f"{told:>10}  {shown}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
