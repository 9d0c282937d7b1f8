"""Text to batches: read, split, tokenise once, arrange in rows, draw in a keyed order."""

from bertc.data.arranged import TextData
from bertc.data.batch import RawBatch
from bertc.data.corpus import AnyData, Corpus, prepare
from bertc.data.encode import TaskRows, encode
from bertc.data.existing import vocabulary_of
from bertc.data.progress import Progress, Silent
from bertc.data.running import RunningData
from bertc.data.stage import StageData
from bertc.data.task import TaskBatch, TaskData, TaskSet
from bertc.data.vocabulary import Vocabulary

__all__ = [
    "AnyData",
    "TextData",
    "Corpus",
    "Progress",
    "RawBatch",
    "RunningData",
    "Silent",
    "StageData",
    "TaskBatch",
    "TaskRows",
    "TaskData",
    "TaskSet",
    "Vocabulary",
    "encode",
    "prepare",
    "vocabulary_of",
]
