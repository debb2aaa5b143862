"""The questions of boosting over columns that state its job, and those about batches of trees.

**Who learns what.** See `vertical_boosting`.
"""

from typing import Any, ClassVar

from spinney.protocols.columns.job import Target
from spinney.protocols.columns.messages import Sealed, StartReply
from spinney.protocols.columns.seat import UNSIGNED, Signed, Unsigned
from spinney.protocols.rows.quality import QualityReply
from spinney.protocols.vertical_boosting.job import BoostedJob
from spinney.transport.channel import Ask
from spinney.transport.messages import message
from spinney.trees.partition import Partition
from spinney.typing import Integers


@message
class BoostedLabelsReply:
    """The labels as numbers, in the rows' common order, and the range of a number."""

    target: Target
    span: tuple[float, float]
    signed: Signed | Unsigned = UNSIGNED


@message
class BoostedLabelsAsk(Ask[BoostedLabelsReply]):
    """What is the label of each row, as a number?"""

    job: BoostedJob
    reveals: ClassVar[str] = "the encoded label of every row, for all parties"
    reply_type: ClassVar[type[Any]] = BoostedLabelsReply


@message
class BoostedStartAsk(Ask[StartReply]):
    """Will you take part, from here on?"""

    job: BoostedJob
    target: Target  # empty if the party has its own, or must have none
    span: tuple[float, float]  # of a number
    sealed: tuple[Sealed, ...]  # encrypted gradients, if the party needs them now
    levels: tuple[Partition, ...]  # all earlier levels of all batches; none at the beginning
    n_own: tuple[int, ...]  # how many cuts of each level this party made
    signed: Signed | Unsigned = UNSIGNED  # the labels, by the label party
    reveals: ClassVar[str] = "which columns are constant"
    reply_type: ClassVar[type[Any]] = StartReply


@message
class BatchReply:
    """The loss before a batch of trees and, with encrypted labels, what the batch corrects."""

    is_behind: bool
    losses: Integers  # rows and loss of training rows, then of validation rows
    sealed: tuple[Sealed, ...]  # encrypted gradients and curvatures, if labels are encrypted


@message
class BatchAsk(Ask[BatchReply]):
    """How large is the loss, and what are the gradients of the next batch of trees?"""

    job: str
    depth: int  # how many levels of all batches are finished
    newest: tuple[Partition, ...]
    reveals: ClassVar[str] = (
        "the loss of all rows before a batch of trees, of validation rows apart; with encrypted "
        "labels the encrypted gradients of its rows"
    )
    reply_type: ClassVar[type[Any]] = BatchReply

    @property
    def step(self) -> int:
        """How many levels of all batches are finished."""
        return self.depth


@message
class ScoreAsk(Ask[QualityReply]):
    """How well do the finished trees predict the rows that they were trained on?"""

    job: str
    reveals: ClassVar[str] = "a confusion matrix, or error sums, over the rows that all share"
    reply_type: ClassVar[type[Any]] = QualityReply


STATE_JOB: tuple[type[Ask[Any]], ...] = (BoostedLabelsAsk, BoostedStartAsk)
"""The questions that state the whole job."""
