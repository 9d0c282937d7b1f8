"""What processes that tests fork have loaded before they begin (``processes`` in conftest.py).

Beside torch it is the modules whose functions they call, with pytest, and what a run writes of its
program, which is built where it is first asked for.
"""

from importlib import import_module

from bertc.ir.program.resolved import Resolved

for name in (
    "bertc.bench.run",
    "bertc.train.loop",
    "torch.distributed.fsdp",
    "torch._dynamo",
    "tests.data.test_prepare",
    "tests.train.test_killed",
    "tests.train.test_ranks_exchanged",
):
    import_module(name)
Resolved.model_rebuild()
