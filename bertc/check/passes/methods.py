"""Checks of methods that change a network: whether it can be changed so, and be grown again."""

from bertc.base.diagnostics import Diagnostics
from bertc.check.passes.settings.checker import Checker
from bertc.ir.fixes import note
from bertc.ir.methods.method import removing
from bertc.ir.program.complete import Complete, CompleteStage


def methods(program: Complete, diagnostics: Diagnostics) -> None:
    """Report stages whose network does not go with a method.

    ``layers=2 heads=2 prune=heads(80%)`` is E290, ``adapt=lora freeze=2`` E360.
    """
    if diagnostics.found:
        return
    cut: CompleteStage | None = None
    for place, stage in enumerate(program.stages):
        rules = (rule for method in stage.methods for rule in method.rules.network)
        Checker(stage, diagnostics).rules(rules)
        if cut and place and stage.layers > program.stages[place - 1].layers:
            setting = removing(cut)
            diagnostics.error(
                "E295",
                f'stage "{stage.name}" grows, but some of its network is gone since stage '
                f'"{cut.name}"',
                stage.span("layers") or stage.span("grow") or stage.span(setting),
                label="new layers would start as copies of what is left of others",
                notes=note(f"{setting} is set here", cut.span(setting)),
                help=f"{setting} in a stage after all growing",
            )
        cut = cut or (stage if removing(stage) else None)
