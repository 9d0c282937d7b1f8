"""A compiler for text encoders."""

import bertc.estimate
import bertc.train  # noqa: F401 - both packages first, so that the functions below keep their names
from bertc.api import build, estimate, load, parse, resolve, train

__all__ = ["build", "estimate", "load", "parse", "resolve", "train"]
__version__ = "0.1.0"
