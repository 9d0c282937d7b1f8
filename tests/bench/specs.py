"""Steps of specs in turns, beside the first: processor time, which other work disturbs least.

    python -m tests.bench.specs SPEC SPEC ... [--rounds 7] [--threads 1]

A spec is a file, a shipped name, or its text. Random tokens in full rows; prints medians of the
milliseconds of a step, and of the ratios of rounds to those of the first.
"""

import argparse
import statistics
import time
from contextlib import ExitStack

import torch

from bertc.api import resolve
from bertc.lab.bench.contender import bertc
from bertc.run.stepper import Stepper


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("specs", nargs="+")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    programs = [resolve(spec) for spec in options.specs]
    contenders = [bertc(Stepper(program), "") for program in programs]
    times: list[list[float]] = [[] for _ in contenders]
    with ExitStack() as stack:
        stack.enter_context(contenders[0].turn())
        steps = [stack.enter_context(contender.open()) for contender in contenders]
        for turn in range(-2, options.rounds):  # two that are not counted
            for step, spent in zip(steps, times, strict=True):
                began = time.process_time()
                step()
                if turn >= 0:
                    spent.append(1e3 * (time.process_time() - began))
    for spec, spent in zip(options.specs, times, strict=True):
        ratio = statistics.median(one / first for one, first in zip(spent, times[0], strict=True))
        print(f"{statistics.median(spent):8.1f} ms  {ratio:.3f}  {spec}")


if __name__ == "__main__":
    main()
