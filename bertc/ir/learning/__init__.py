"""Training targets and update rules: objectives, tasks, answers, optimisers."""

from bertc.ir.learning.answer import (
    Answer,
    Choice,
    Labels,
    NamedSpans,
    Score,
    Several,
    Span,
    Tags,
    Vector,
    alike,
    label_names,
)
from bertc.ir.learning.augmentation import UNCHANGED
from bertc.ir.learning.custom_task import AnyTask, Choose, Classify, Many, Read, Regress, Spans, Tag
from bertc.ir.learning.objective import PRETRAINING, FromFolder, Objective, Shape, Teacher, Term
from bertc.ir.learning.optimizer import Adam, Optimizer
from bertc.ir.learning.pooling import SparseVectors, TokenVectors
from bertc.ir.learning.schedule import Hours
from bertc.ir.learning.task import Glue, Race, Squad, Tagging, Task
from bertc.ir.learning.vector_task import TOKENS_HEAD, Embed, Rerank, TextKind
