"""The questions and answers of trees over columns, besides those that state a job.

**Who learns what.** See `vertical_forest`.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney.protocols.columns.growing import Offered
from spinney.protocols.columns.job import Target
from spinney.protocols.columns.seat import UNSIGNED, Signed, Unsigned
from spinney.transport.channel import Ask
from spinney.transport.messages import message
from spinney.trees.partition import Partition, Turns
from spinney.typing import Bools, Floats, Integers


@message
class HoldingsReply:
    """What a party holds, in numbers."""

    n_rows: int
    n_columns: int
    holds_label: bool
    n_classes: int
    target_step: float


@message
class HoldingsAsk(Ask[HoldingsReply]):
    """How many rows and columns do you hold, and do you hold the labels?"""

    reveals: ClassVar[str] = (
        "how many rows and columns, whether it has the labels, how many classes"
    )
    reply_type: ClassVar[type[Any]] = HoldingsReply


@message
class LabelsReply:
    """The labels as numbers, in the rows' common order."""

    target: Target
    signed: Signed | Unsigned = UNSIGNED


@message
class Sealed:
    """Labels that a party can add but not read; see `columns.encrypted_coordinator`."""

    scheme: str
    public_key: bytes
    planes: tuple[bytes, ...]  # one per part of the classes: ciphertexts of all rows and a zero
    field_bits: int
    signed: Signed | Unsigned = UNSIGNED  # by the label party: others add up no other numbers

    def said(self, job: str) -> tuple[str | bytes | int, ...]:
        """Return what the label party signs."""
        return (job, self.scheme, self.public_key, self.field_bits, *self.planes)


@message
class StartReply:
    """The state of a party after it has started, or started again."""

    sizes: Integers  # the row entries of every open node
    exhausted: Bools  # own columns that have only one value


@message
class GainReply:
    """The best gain of each open node by a party's columns; minus infinity if not worth cutting."""

    is_behind: bool  # the party was stopped meanwhile and must start again
    gain: Floats
    slot: NDArray[np.int16]  # which of the offered columns it is


@message
class GainAsk(Ask[GainReply]):
    """What is the gain of your best cut of each open node?"""

    job: str
    depth: int
    newest: tuple[Partition, ...]  # of the previous level; none at the roots
    offered: Offered
    reveals: ClassVar[str] = "the best gain of each open node, and the number of its column"
    reply_type: ClassVar[type[Any]] = GainReply

    @property
    def step(self) -> int:
        """The depth of the open nodes."""
        return self.depth


@message
class SplitReply:
    """How the rows of some nodes are split."""

    is_behind: bool
    sides: NDArray[np.uint8]
    child_open: Bools
    exhausted: Bools  # for both children: whether the column can no longer cut it
    seal: bytes | Unsigned = UNSIGNED  # see `columns.level_seal`
    turns: Turns | Unsigned = UNSIGNED  # in which direction each cut may change the prediction


def behind_split() -> SplitReply:
    """Return the reply of a party that must start again."""
    none = np.zeros(0, np.bool_)
    return SplitReply(True, np.zeros(0, np.uint8), none, none)


@message
class SplitAsk(Ask[SplitReply]):
    """Which rows go left in these nodes, where you have the best cut?"""

    job: str
    depth: int
    node: Integers
    reveals: ClassVar[str] = "which rows of a node go left by the party's cut"
    reply_type: ClassVar[type[Any]] = SplitReply

    @property
    def step(self) -> int:
        """The depth of the open nodes."""
        return self.depth


@message
class FinishReply:
    """The party has its part."""

    is_behind: bool
    n_nodes: int


@message
class FinishAsk(Ask[FinishReply]):
    """Do you have all of your part of the forest?"""

    job: str
    depth: int
    newest: tuple[Partition, ...]
    party: str
    numbers: Integers  # the numbers of the party's columns among all columns
    reveals: ClassVar[str] = "that the party has its part of the forest"
    reply_type: ClassVar[type[Any]] = FinishReply
