"""What processes that tests fork have loaded before they begin (``processes`` in conftest.py).

Beside torch it is the modules whose functions they call, with pytest, and what a run writes of its
program, which is built where it is first asked for.
"""

from importlib import import_module

from bertc.ir.program.resolved import Resolved

for name in (
    "bertc.lab.bench.run",
    "bertc.run.train.loop",
    "torch.distributed.fsdp",
    "torch._dynamo",
    "tests.text.test_prepare",
    "tests.run.test_stopping",
    "tests.run.test_ranks",
):
    import_module(name)
Resolved.model_rebuild()
