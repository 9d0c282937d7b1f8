"""What passes between the data, the encoder and the losses, as tuples of tensors.

Axes: b rows, s positions of a row, m examples of a row, k predictions of a row, v token ids.
A row holds one example, several where rows are packed.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F

from bertc.ir.program.resolved import NetworkName
from bertc.nn import Reading, rows_at


class Inputs(NamedTuple):
    """A batch as the data room makes it, as tensors on the device."""

    token_ids: torch.Tensor  # (b, s) long, padded at the end
    segment_ids: torch.Tensor  # (b, s) long
    lengths: torch.Tensor  # (b,) long, real tokens with specials
    example_ids: torch.Tensor  # (b,) long, the address of a row
    copies: torch.Tensor  # (b,) long, which masking of the row this is
    starts: torch.Tensor  # (b, m) long, where each example begins, s in places not used
    pair_labels: torch.Tensor  # (b, m) long, 0: in order, 1: not, 2: in another language
    languages: torch.Tensor  # (b, 2) long, of the first text and of the second
    following: torch.Tensor  # (b,) long, the token after the row; -1 where its text ends
    backward: torch.Tensor  # (b,) long, 1 where the row reads its text from end to beginning


class Tables(NamedTuple):
    """The vocabulary as tensors on the device."""

    size: int
    pad: int
    cls: int
    sep: int
    mask: int
    word_start: torch.Tensor  # (v,) bool, the token begins a word
    special: torch.Tensor  # (v,) bool
    unigram_cdf: torch.Tensor  # (v,) float, cumulative frequency in the training text
    frequency: torch.Tensor  # (v,) double, that of the rarest for tokens that never stand there


class Predictions(NamedTuple):
    """Tokens to predict, for mlm or tlm, in the order of the text.

    Slots not used hold position 0 and weight 0.
    """

    positions: torch.Tensor  # (b, k) long
    targets: torch.Tensor  # (b, k) long
    weights: torch.Tensor  # (b, k) float, 1 or 0


class NextTokens(NamedTuple):
    """The token after every token; weight 0 where it is not asked for."""

    targets: torch.Tensor  # (b, s) long
    weights: torch.Tensor  # (b, s) float, 1 or 0


class Boundaries(NamedTuple):
    """For each prediction the tokens around its span; weight 0 where there is no such pair."""

    left: torch.Tensor  # (b, k) long, position before the span
    right: torch.Tensor  # (b, k) long, position after the span
    place: torch.Tensor  # (b, k) long, how far inside the span, from 0
    targets: torch.Tensor  # (b, k) long
    weights: torch.Tensor  # (b, k) float, 1 or 0


class Questions(NamedTuple):
    """A question about each example of a row; places not used hold position 0 and weight 0."""

    positions: torch.Tensor  # (b, m) long, the first token
    labels: torch.Tensor  # (b, m) long, 0: in order, 1: not
    weights: torch.Tensor  # (b, m) float, 1 or 0


class Replacements(NamedTuple):
    """Tokens that others stand in for; unused slots hold position 0 and weight 0."""

    positions: torch.Tensor  # (b, k) long, in the order of the text
    weights: torch.Tensor  # (b, k) float, 1 or 0
    chances: torch.Tensor  # (b, k) double in [0, 1), what decides a generator's guess
    judged: torch.Tensor  # (b, s) float where all tokens are asked about, else as ``weights``


class Answers(NamedTuple):
    """What one task asks of the rows, which are all its own; weight 0 where nothing is asked."""

    task: str
    positions: torch.Tensor  # (b, k) long, of the states read; of spans the first token of each
    targets: torch.Tensor  # (b, k), of spans (b, k, 2)
    weights: torch.Tensor  # (b, k) float
    passage: torch.Tensor  # (b, s) bool, where an answer may stand
    examples: torch.Tensor  # (b, s) long, which of its row's a token is of, from 1; 0: padding


class Columns(NamedTuple):
    """What the networks read and what each term of the objective needs.

    ``reading`` is the encoder's, its token ids corrupted. A generator has a ``masked`` one of its
    own, and the encoder's then holds the originals until ``replaced``.
    """

    reading: Reading
    originals: torch.Tensor  # (b, s) long
    pairs: Questions | None
    mlm: Predictions | None
    sbo: Boundaries | None
    translated: torch.Tensor | None = None  # (b,) float, 1 for tlm's rows; None without tlm
    rtd: Replacements | None = None
    masked: Reading | None = None
    clm: NextTokens | None = None
    plm: Predictions | None = None
    answers: Answers | None = None

    def read_by(self, network: NetworkName) -> Reading:
        """What a network reads."""
        found = self.masked if network == "generator" else self.reading
        assert found is not None, "a generator's stage has a reading for it"
        return found

    def asked_by(self, kind: Literal["mlm", "tlm"]) -> torch.Tensor:
        """The weights (b, k) of the predictions that count for one of two."""
        assert self.mlm is not None, f"{kind} without its columns"
        if self.translated is None:
            return self.mlm.weights
        own_b = self.translated if kind == "tlm" else 1 - self.translated
        return self.mlm.weights * own_b[:, None]

    def replaced(self, guesses_bk: torch.Tensor) -> "Columns":
        """With a generator's guesses where tokens are replaced; the first of a row never is."""
        assert self.rtd is not None, "only where replacements are asked about"
        token_ids = put(self.originals, self.rtd, guesses_bk)
        return self._replace(reading=self.reading._replace(token_ids=token_ids))

    def places(self, network: NetworkName = "encoder") -> dict[str, torch.Tensor]:
        """Where the terms read a network's states: positions (b, ...) by what reads them."""
        found: dict[str, torch.Tensor] = {}
        if self.mlm is not None and network == self._telling:
            found["mlm"] = self.mlm.positions
        if self.sbo is not None and network == self._telling:
            found["left"], found["right"] = self.sbo.left, self.sbo.right
        if self.pairs is not None and network == "encoder":
            found["pairs"] = self.pairs.positions
        if self.rtd is not None and network == "encoder":
            found["rtd"] = self.rtd.positions
        if self.answers is not None and network == "encoder":
            found["answers"] = self.answers.positions
        if self.plm is not None and network == "encoder":
            # The states of those who do not see a token follow the row's own.
            b, seq = self.originals.shape
            lane_k = torch.arange(self.plm.positions.shape[1], device=self.originals.device)
            found["plm"] = (seq + lane_k).expand(b, -1)
        return found

    @property
    def _telling(self) -> NetworkName:
        """The network that tells what is masked."""
        return "encoder" if self.masked is None else "generator"

    def states(
        self, hidden: torch.Tensor, name: str, network: NetworkName = "encoder"
    ) -> torch.Tensor:
        """A network's states (b, ..., h) at one of its ``places``."""
        places = self.places(network)
        if self.read_by(network).asked is None:
            return rows_at(hidden, places[name])
        # They were asked for in the order of ``places``.
        names = list(places)
        sizes = [places[n].shape[1] for n in names]
        return torch.split(hidden, sizes, dim=1)[names.index(name)]


@dataclass(frozen=True)
class TermLoss:
    """One term over the rows given, as 0-d fp32 tensors, so that parts of a batch can be added.

    The loss of a batch is the sum of the sums over that of the counts; for ``sbo`` with
    ``extra_pair`` one is added to the count of the whole batch.
    """

    sum: torch.Tensor  # cross entropy in nats
    count: torch.Tensor  # predictions made
    correct: torch.Tensor  # predictions whose target scored highest
    guesses: torch.Tensor | None = None  # (b, k) long, drawn as the scores have it, if asked for
    yes: torch.Tensor | None = None  # of a question: predictions whose answer is 1


def put(token_ids_bs: torch.Tensor, where: Replacements, others_bk: torch.Tensor) -> torch.Tensor:
    """Token ids (b, s) with others in some places: not in the first, and once in any."""
    b, s = token_ids_bs.shape
    positions_bk = where.positions
    # Two guesses about one token would race; the second, and slots not used, go beyond the row.
    again_bk = F.pad(positions_bk.diff(dim=1) == 0, (1, 0), value=False)
    slots_bk = torch.where((positions_bk > 0) & ~again_bk, positions_bk, s)
    wider = token_ids_bs.new_empty(b, s + 1)
    wider[:, :s] = token_ids_bs
    return wider.scatter_(1, slots_bk, others_bk)[:, :s]
