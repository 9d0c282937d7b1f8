"""Remarks on valid settings that are likely slips."""

import re

from bertc.base.diagnostics import Diagnostics, several
from bertc.check.passes.settings import Checker, reads_on
from bertc.ir.changing.growth import Drawn
from bertc.ir.data import Prepared
from bertc.ir.fixes import Rule
from bertc.ir.learning import Labels
from bertc.ir.learning.objective import balance_directions
from bertc.ir.network.body_node import Transformer
from bertc.ir.program import Complete, CompleteStage
from bertc.ir.program.reading import causal_rows
from bertc.ir.vocabulary import Bytes, Extended, Fixed, TokenizerFile, Trimmed

HEAD_WIDTH = 64
"""Head width of every release of BERT; the default number of heads is derived from it."""

LEAST_NUMBERS, _NUMBER = 10, re.compile(r"-?\d+(\.\d+)?")
"""Labels that are numbers with fractions, from which on they may be scores; and their form."""

HIGH_RATE = 0.1
"""Far above the rates of all shipped specs and recipes, 1e-5 to 1.76e-3."""


def remarks(program: Complete, diagnostics: Diagnostics) -> None:
    """Remark on settings that are likely slips.

    ``hidden=100`` is R101: it gives one head of 100.
    """
    if diagnostics.found:
        return
    of_methods = (rule for method in program.methods for rule in method.rules.remarks)
    Checker(program, diagnostics).rules((*_OF_RUNS, *of_methods))
    for stage in program.stages:
        Checker(stage, diagnostics).rules(_OF_STAGES)
    first = Checker(program.stages[0], diagnostics)
    first.rules(_OF_TUNING)
    if all(s.origins["data"].kind == "default" and s.tasks for s in program.stages):
        first.rules(_OF_UNNAMED_TEXT)


def _numbers(stage: CompleteStage) -> int:
    """The number of labels of a task that are numbers with fractions; 0 if they are words."""
    for names in (task.answer.names for task in stage.tasks if isinstance(task.answer, Labels)):
        numbers = [name for name in names if _NUMBER.fullmatch(name)]
        if len(numbers) == len(names) >= LEAST_NUMBERS and any("." in name for name in numbers):
            return len(names)
    return 0


def _rounds(stage: CompleteStage) -> bool:
    """True if the rows of a step that are read causally are far from their share."""
    share, rows = causal_rows(balance_directions(stage.objective), stage.batch)
    return 0 < share < stage.batch and abs(rows - share) > min(share, stage.batch - share) / 10


_OF_RUNS: tuple[Rule[Complete], ...] = (
    Rule("R101", "hidden",
         lambda p: p.origins["heads"].kind == "derived" and isinstance(p.heads, int)
         and p.hidden > HEAD_WIDTH and p.hidden % HEAD_WIDTH,
         lambda p: f"hidden = {p.hidden} is not a multiple of {HEAD_WIDTH}, which gives {p.heads} "
         f"head{'s' * (p.heads != 1)} of width {p.head_dim} in each layer",
         label="unwritten heads are derived from hidden",
         help=lambda p: f"hidden={round(p.hidden / HEAD_WIDTH) * HEAD_WIDTH}"),
    Rule("R117", "vocab",
         lambda p: (isinstance(p.vocab, Trimmed) or isinstance(p.vocab, Extended)
                    and isinstance(p.vocab.words, int))
         and all(stage.origins["data"].kind == "default" for stage in p.stages),
         "the vocabulary follows the docstrings of all installed packages: no data is named",
         help='name its texts, as in data=files("mine/*.txt")'),
    Rule("R122", "vocab", lambda p: isinstance(p.vocab, Trimmed) and not p.vocab.tokens,
         lambda p: f"the text decides how many of {p.vocab.size:,} tokens stay: sizes are upper "
         "bounds", help="trim(init, 16k) keeps as many"),
    Rule("R120", ("clean", "holdout"),
         lambda p: any(p.origins[name].kind in ("written", "set") for name in ("clean", "holdout"))
         and all(isinstance(d.corpus, Prepared) for s in p.stages for d in s.data),
         "tokens are read as they are: no document is cleaned away, and which ones prepared text "
         "holds out is settled",
         help="give clean and holdout to bertc prepare, with the text"),
)  # fmt: skip
_OF_STAGES: tuple[Rule[CompleteStage], ...] = (
    Rule("R102", "optimizer.lr", lambda s: s.optimizer.lr >= HIGH_RATE,
         lambda s: f"lr = {s.optimizer.lr:g} is far above every published rate",
         label="shipped specs and recipes have 1e-5 to 1.76e-3"),
    Rule("R107", "positions",
         lambda s: isinstance(s.body, Transformer) and s.positions.kind == "none"
         and not s.attention.distances and not reads_on(s.objective),
         "without positions this attention does not know the order of tokens: a row is a bag of "
         "words",
         help=lambda s: f"positions={s.seq} or attention=relative"),
    Rule("R128", "objective", _rounds,
         lambda s: "clm reads {1} of {2} rows, where its share is {0:.3g}".format(
             *causal_rows(balance_directions(s.objective), s.batch), s.batch),
         label="shares are whole rows of a step"),
    Rule("R119", "objective", _numbers,
         lambda s: f"the {_numbers(s)} labels are numbers, which classify takes for classes",
         help="regress(...) on the same columns predicts a number"),
)  # fmt: skip
_OF_TUNING: tuple[Rule[CompleteStage], ...] = (
    Rule("R103", "objective", lambda s: s.tasks and isinstance(s.init, Drawn),
         lambda s: "a task without init starts from random weights: "
         f"{several(s.layers, 'layer')} of width {s.hidden}",
         help='name a run or a model folder, as in init="runs/albert"'),
)  # fmt: skip
_OF_UNNAMED_TEXT: tuple[Rule[CompleteStage], ...] = (
    Rule("R117", "objective",
         lambda s: not isinstance(s.vocab, Bytes | Fixed | TokenizerFile)
                   and isinstance(s.init, Drawn),
         "the vocabulary of the task is learned from the docstrings of all installed packages",
         label="its own texts may have other words",
         help='name its texts, as in data=files("train.tsv", column="review")'),
)  # fmt: skip
