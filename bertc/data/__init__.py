"""Text to batches: read, split, tokenise once, arrange in rows, draw in a keyed order."""

from bertc.data.batch import RawBatch
from bertc.data.corpus import AnyData, Corpus, prepare
from bertc.data.progress import Progress, Silent
from bertc.data.running import RunningData
from bertc.data.stage import StageData
from bertc.data.store import default_cache
from bertc.data.vocabulary import Vocabulary

__all__ = [
    "AnyData",
    "Corpus",
    "Progress",
    "RawBatch",
    "RunningData",
    "Silent",
    "StageData",
    "Vocabulary",
    "default_cache",
    "prepare",
]
