"""Codes of tokens: in which span of a tagger each stands."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertc.data.sources.source import CorpusText
from bertc.ir.terms.masking import TAG_BITS

CODE_TYPE = np.uint16
LABEL_BITS = (1 << TAG_BITS) - 1
"""Bits of a code that number its label from 1; 0 is outside of spans."""


@dataclass(frozen=True, eq=False)
class TextTags:
    """Spans that a tagger found in a text: codes of all tokens, by part.

    A span is a run of one code: the bit above the label's differs from that of the span before.
    """

    labels: tuple[str, ...]
    facts: Mapping[str, Any]
    train: NDArray[np.uint16]
    heldout: NDArray[np.uint16]


NO_CODES = np.empty(0, CODE_TYPE)
NO_TAGS = TextTags((), {}, NO_CODES, NO_CODES)
"""Tags of a text without a tagger."""


Tagged = Mapping[tuple[str, CorpusText], TextTags]
"""TextTags by the name of the tagger and by text."""
