"""Run folders written before a field of the program changed its shape are read as they were meant.

``older_resolved.json`` was written at commit bffd556, when ``mixing`` and the heads of spans were
names of kinds that had no fields.
"""

from pathlib import Path

from bertc.hub.folders import read_resolved
from bertc.ir.learning.answer import Conditioned, Plain, Span
from bertc.ir.learning.augmentation import EditedCopies
from bertc.ir.mixing import MixedBatches

OLDER = Path(__file__).parent / "older_resolved.json"


def test_copies_without_parts_of_speech_are_read_as_copies():
    older = {"kind": "edit", "mask": 0.2, "pos": 0.0, "ngram": 0.1, "tagger": ""}
    assert EditedCopies.model_validate(older) == EditedCopies(mask=0.2, ngram=0.1)


def test_the_name_of_a_kind_is_read_as_that_kind():
    resolved = read_resolved(OLDER)
    assert [stage.mixing for stage in resolved.stages] == [MixedBatches()] * 3
    answers = [task.answer for stage in resolved.stages for task in stage.tasks]
    assert [answer.head for answer in answers if isinstance(answer, Span)] == [
        Plain(),
        Conditioned(),
    ]
