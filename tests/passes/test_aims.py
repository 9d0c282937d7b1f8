"""Targets of pruning: the smallest share whose network is as small or as quick as was asked."""

import pytest

import bertc
from bertc.api import points
from bertc.compress.prune import expected
from bertc.diagnostics import Diagnostics, SpecError
from bertc.estimate.flops import executed_flops
from bertc.estimate.latency.cases import chosen
from bertc.estimate.parameters import count
from bertc.ir.program.resolved import Resolved
from bertc.syntax import apply_fixes

SPEC = (
    "layers=6 hidden=64 heads=4 ffn=96 vocab=wordpiece(500) seq=32 "
    'stage "a" {{ }} stage "b" {{ prune={} }}'
)


def figures(resolved: Resolved) -> dict[str, float]:
    from bertc.bench.latencies import latencies, of_spec

    left = expected(resolved) or resolved
    choices = chosen("torch", "fp32", "1", "32", "32")
    (row,) = latencies([of_spec(left)], choices, seconds=1, predict=True).rows
    return {
        "params": count(left.stages[-1], left.terms()).total,
        "flops": executed_flops(left.stages[-1], 1).forward,
        "latency": row.milliseconds / 1000 if row.milliseconds else 0,
    }


@pytest.mark.parametrize("kind", ["heads", "neurons", "layers", "layers by=alternate"])
@pytest.mark.parametrize("name", ["params", "flops", "latency"])
def test_no_more_goes_than_the_target_takes(kind: str, name: str) -> None:
    kind, _, by = kind.partition(" ")
    by = f", {by}" if by else ""
    whole = figures(bertc.resolve(SPEC.format("none")))[name]
    wanted = round(0.9 * whole) if name != "latency" else 0.9 * whole
    more = ", batch=32, length=32" if name == "latency" else ""
    found = bertc.resolve(SPEC.format(f"{kind}(to={name}({wanted}{more}){by})"))
    prune = found.stages[-1].prune
    assert figures(found)[name] <= wanted
    total = {"heads": 24, "neurons": 576, "layers": 6}[kind]
    number = round(prune.aimed * total)
    if number > 1:
        fewer = bertc.resolve(SPEC.format(f"{kind}({(number - 1) / total}{by})"))
        assert figures(fewer)[name] > wanted
    assert (
        found.fingerprint() == Resolved.model_validate_json(found.model_dump_json()).fingerprint()
    )


def test_a_share_of_what_was_there_is_a_target_too() -> None:
    half = bertc.resolve(SPEC.format("layers(to=flops(50%))"))
    assert half.stages[-1].layers == 3
    in_ms = bertc.resolve(SPEC.format("layers(to=latency(0.001, length=32))"))
    assert in_ms == bertc.resolve(SPEC.format("layers(to=latency(1ms, length=32))"))


def test_what_a_target_took_is_told() -> None:
    remarks = Diagnostics()
    points(SPEC.format("layers(to=params(100k))"), (), remarks)
    (told,) = [each.message for each in remarks.remarks if each.code == "R115"]
    assert told == "4 of 6 layers go: 215k parameters before, 97.8k parameters after"


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("heads(to=params(1k))", "prune = heads does not reach its target"),
        ("neurons(to=latency(0.001ms))", "does not reach its target"),
        ("neurons(to=flops(1%))", "does not reach its target"),
        ("layers(to=flops(1G))", "prune = layers does not reach its target"),
        (
            "neurons(to=latency(100))",
            r"does not reach its target: the network has .* a text before",
        ),
        ("heads(30%, to=flops(90%))", "a share and a target exclude each other"),
        ("neurons(by=random)", "a share is missing, or a target"),
    ],
)
def test_targets_out_of_reach_are_refused(kind: str, told: str) -> None:
    with pytest.raises(SpecError, match=told) as refused:
        bertc.resolve(SPEC.format(kind))
    for found in refused.value.diagnostics:
        if found.fix:
            bertc.resolve(apply_fixes(found.fix.span.source, [found]))


def test_the_target_of_a_run_is_that_of_its_first_stage() -> None:
    spec = 'layers=4 prune=heads(to=flops(90%)) stage "a" { } stage "b" { }'
    first, second = bertc.resolve(spec).stages
    assert first.prune == second.prune
    assert first.prune.aimed > 0
