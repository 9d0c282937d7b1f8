"""What processes that tests fork have loaded before they begin (``processes`` in conftest.py).
Beside torch it is the modules whose functions they call, with pytest, and what a run writes of its
program, which is built where it is first asked for. Contenders of a benchmark take short turns.
"""

import gc
from importlib import import_module

from bertc.ir.program.resolved import Resolved
from bertc.lab.bench import measure

for name in (
    "bertc.lab.bench.run", "bertc.run.train.loop", "torch.distributed.fsdp", "torch._dynamo",
    "tests.text.test_prepare", "tests.run.test_stopping", "tests.run.test_ranks",
):  # fmt: skip
    import_module(name)
Resolved.model_rebuild()
measure.TURN_SECONDS = 0.01
gc.freeze()  # else a collection copies what was loaded into each process
