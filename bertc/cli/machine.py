"""Commands on the machine that bertc runs on."""

from typing import Annotated

import typer

from bertc.cli.options import app, say


@app.command()
def calibrate(
    threads: Annotated[
        list[int] | None,
        typer.Option(
            min=1, max=1024, help="threads a process (repeatable) [default: 1, all cores]"
        ),
    ] = None,
) -> None:
    """Measure this CPU in less than a minute, so that estimated times fit it."""
    from bertc.base.cores import available_cores
    from bertc.base.storage.durable import make_folder, replace
    from bertc.cost.machines.calibration import calibration_path
    from bertc.cost.units import bytes_text, flops_text
    from bertc.run.calibrate import Sizes, calibrated

    counts = sorted(set(threads or (1, available_cores())))
    say("measuring; other work on this machine makes the figures worse ...", err=True)
    calibration = calibrated(tuple(counts), Sizes())
    path = calibration_path()
    make_folder(path.parent)
    replace(path, calibration.as_json().encode(), elsewhere="set BERTC_CACHE to another folder")
    for count, rates in calibration.threads.items():
        best = {name: max(p.rate for p in points) for name, points in rates.products.items()}
        products = ", ".join(f"{name} {flops_text(rate)}/s" for name, rate in best.items())
        moved = f"{bytes_text(rates.bandwidth_bytes)}/s moved"
        say(f"{count} thread{'s' * (count > 1)}: products {products}, {moved}")
    say(f"kept in {path}; bertc estimate --device cpu uses it from now on")
