"""What the compiler makes of a spec, as plain text by stable names: nothing here runs a step."""

import json
from collections.abc import Sequence
from typing import Any

from bertc.api import points
from bertc.check.facts.texts import row_lengths
from bertc.cost import Estimate, convention_named, estimate
from bertc.cost.flops import Convention, executed_flops, run_flops, stage_flops
from bertc.hub.config import hf_config
from bertc.hub.families.config import Wordless
from bertc.hub.families.family import Obstacle
from bertc.hub.keys import keys
from bertc.hub.leaving.target import padding, target_of
from bertc.hub.networks import alone
from bertc.ir.network.body import first_position
from bertc.ir.program.resolved import Resolved, model_weights
from tests.net.programs import PROGRAMS, spec
from tests.shipped import PROGRAMS as SHIPPED

FIGURES = ("parameters_and_flops", "memory_and_time")


def compiled() -> dict[str, Resolved]:
    """Every program of the net: the points of all shipped specs, and the tiny ones."""
    found = {
        name if at == 0 else f"{name} {at}": point
        for name, shipped in SHIPPED.items()
        for at, point in enumerate(shipped)
    }
    return found | {name: points(spec(name))[0] for name in PROGRAMS}


def texts(resolved: Resolved) -> dict[str, str]:
    """The resolved program, the weight table and the Hugging Face folder, each as lines."""
    dump = resolved.model_dump(mode="json", exclude={"name", "origins"})
    return {
        "fingerprint": resolved.fingerprint(),
        "program": json.dumps(dump, sort_keys=True, indent=1),
        "weights": _weights(resolved),
        "hugging face": _hugging_face(resolved),
    }


def _weights(resolved: Resolved) -> str:
    return "\n".join(
        f"{w.name} {w.shape} {w.axes} {json.dumps(w.init.model_dump(), sort_keys=True)} "
        f"{w.part} {w.role}"
        for w in model_weights(resolved)
    )


def _hugging_face(resolved: Resolved) -> str:
    """The configuration and what each tensor is called there, or the setting in the way."""
    encoder = alone(resolved, "encoder")
    names = [w.name for w in model_weights(encoder)]
    found = target_of(encoder, names, padding(resolved))
    if isinstance(found, Obstacle):
        return f"in the way: {found.setting}"
    family, chosen = found
    words = Wordless(max(0, first_position(resolved.encoder) - 1))
    config = hf_config(family, resolved.encoder, words, chosen)
    called = keys(family, resolved.encoder, [n for n in names if "heads" not in n], chosen.named)
    return json.dumps(
        {"layout": family.model_type, "class": chosen.name, "config": config, "keys": called},
        sort_keys=True,
        indent=1,
    )


def figures(found: dict[str, Resolved]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and FLOPs, which nobody is going to change; memory and time, which may improve."""
    fixed, improvable = {}, {}
    lengths = row_lengths(list(found.values()))
    for (name, resolved), own in zip(found.items(), lengths, strict=True):
        if resolved.run.most_seconds:
            resolved = resolved.of_steps(1000)  # its time may improve, its FLOPs do not
        estimated = estimate(resolved, "h200", lengths=own)
        fixed[name] = {
            "parameters": estimated.as_json()["parameters"],
            "stages": [each.parameters.total for each in estimated.stages],
            **{
                each: _flops(resolved, own, estimated, convention_named(each))
                for each in ("exact", "electra", "6n")
            },
        }
        improvable[name] = {
            "memory": estimated.as_json()["memory"],
            "seconds_per_step": estimated.time.seconds_per_step,
        }
    return fixed, improvable


def _flops(
    resolved: Resolved, lengths: Sequence[int], estimated: Estimate, convention: Convention
) -> list[int]:
    """A number for each stage, one for a forward pass, and the total; memory is estimated once."""
    stages = []
    for stage, length, known in zip(resolved.stages, lengths, estimated.stages, strict=True):
        read = stage.model_copy(update={"seq": length})
        executed = executed_flops(read, known.memory.microbatch)
        stages.append(stage_flops(read, known.parameters, executed, convention))
    run = run_flops(resolved.stages, stages)
    if convention == "exact":
        assert run == estimated.flops
    return [*(each.train_per_step for each in stages), run.forward_per_example, run.train_total]
