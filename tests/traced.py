"""Compiled code without its kernels: the graphs that Inductor makes, run as they are."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch.fx import GraphModule


@contextmanager
def traced(look: Callable[[GraphModule], None] = lambda graph: None) -> Iterator[None]:
    """Have ``torch.compile`` trace, decompose and split graphs, ``look`` at each and run it.
    All that Inductor does before it writes kernels is done; writing and compiling those takes most
    of the time.
    """
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._inductor.compile_fx import compile_fx

    def run_as_it_is(graph: GraphModule, inputs: Any, **_: Any) -> Any:
        look(graph)
        return make_boxed_func(graph.forward)

    backend = partial(compile_fx, inner_compile=run_as_it_is)
    with patch.object(torch, "compile", partial(torch.compile, backend=backend)):
        yield
