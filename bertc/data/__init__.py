"""Text and labelled examples to batches: read, tokenise once, arrange in rows, draw by key."""

from bertc.data.batches.arranged import TextData
from bertc.data.batches.batch import RawBatch
from bertc.data.batches.running import RunningData
from bertc.data.batches.stage import StageData
from bertc.data.cache.progress import Progress, Silent
from bertc.data.corpus import AnyData, PreparedCorpus, prepare
from bertc.data.examples.encode import encode
from bertc.data.examples.task import TaskBatch, TaskSet
from bertc.data.examples.task_data import TaskData
from bertc.data.examples.task_rows import TaskRows
from bertc.data.vocab.existing import differing_token, vocabulary_of
from bertc.data.vocab.vocabulary import Vocabulary

__all__ = [
    "AnyData",
    "TextData",
    "PreparedCorpus",
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
    "differing_token",
    "vocabulary_of",
]
