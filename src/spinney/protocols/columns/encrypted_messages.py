"""The questions and answers of trees over columns with encrypted labels.

**Who learns what.** See `columns.encrypted_coordinator`.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney.protocols.columns.growing import Offered
from spinney.protocols.columns.messages import Sealed, SplitReply
from spinney.protocols.columns.seat import UNSIGNED, Signed, Unsigned
from spinney.transport import codec
from spinney.transport.channel import Ask
from spinney.transport.messages import message
from spinney.trees.counts import Counts
from spinney.trees.partition import Partition, Turns
from spinney.typing import Bools, Integers


@message
class SealReply:
    """The encrypted labels, and the public key for adding them."""

    sealed: Sealed


@message
class SumsReply:
    """Encrypted label sums of the cells of every offered column, and the cells' row counts."""

    is_behind: bool
    key_id: str
    cells: NDArray[np.int32]  # of each offered column, node after node
    is_category: Bools
    has_missing: Bools
    counts: Counts  # (cells, 1) rows, counted as often as drawn
    sums: tuple[bytes, ...]  # of cells that hold rows, one for each plane
    signed: Signed | Unsigned = UNSIGNED  # for the label party: it opens no other sums
    turns: Turns | Unsigned = UNSIGNED  # of each offered column, if directions are limited

    def said(
        self, job: str, depth: int, n_slots: NDArray[np.uint16]
    ) -> tuple[str | bytes | int, ...]:
        """Return what the party signs: its sums, and the nodes that they belong to."""
        bare = codec.encode(replace(self, signed=UNSIGNED))
        return (job, depth, n_slots.astype("<i8").tobytes(), bare)


@message
class SumsAsk(Ask[SumsReply]):
    """What are the encrypted label sums of each open node over your columns' cells?"""

    job: str
    depth: int
    newest: tuple[Partition, ...]
    offered: Offered
    sealed: Sealed | Unsigned = UNSIGNED  # what to add up from now on, if it has changed
    reveals: ClassVar[str] = "how many rows are in each cell of a column, for the label party"
    reply_type: ClassVar[type[Any]] = SumsReply

    @property
    def step(self) -> int:
        """The depth of the open nodes."""
        return self.depth


@message
class Foreign:
    """Another party's sums, and the places of its columns in each node's draw."""

    n_slots: NDArray[np.uint16]
    place: NDArray[np.int32]
    reply: SumsReply


@message
class ChooseReply:
    """The chosen cut of each split node, and nothing else."""

    is_behind: bool
    winner: NDArray[np.int16]  # of every open node: the number of the sums, -2 own, -1 none
    slot: NDArray[np.int16]  # of every open node: which of its party's columns
    cut: NDArray[np.uint8]  # of every open node: the last cell that goes left
    missing_left: Bools
    bin_set: NDArray[np.uint64]  # (n_open, 4)
    child_open: Bools  # (2 * n_split,)
    signed: tuple[Signed, ...] | Unsigned = UNSIGNED  # for each of the others: its cuts
    seal: bytes | Unsigned = UNSIGNED  # of the children that stay open
    turns: Turns | Unsigned = UNSIGNED  # of each split node's cut, if directions are limited

    def cuts_of(self, node: Integers) -> tuple[bytes, ...]:
        """Return the chosen cuts of some nodes as bytes, which are signed."""
        return cuts_as_bytes(node, self.slot[node], self.cut[node], self.missing_left[node],
            self.bin_set[node])  # fmt: skip


def cuts_as_bytes(
    node: Integers,
    slot: NDArray[np.int16],
    cut: NDArray[np.uint8],
    missing_left: Bools,
    bin_set: NDArray[np.uint64],
) -> tuple[bytes, ...]:
    """Return chosen cuts as bytes, which the label party signs for the party that makes them."""
    numbers = (one.astype("<i8").tobytes() for one in (node, slot, cut, missing_left))
    return (*numbers, bin_set.astype("<u8").tobytes())


@message
class ChooseAsk(Ask[ChooseReply]):
    """What is the best cut of each open node?"""

    job: str
    depth: int
    newest: tuple[Partition, ...]
    offered: Offered  # the label party's own columns
    place: NDArray[np.int32]
    others: tuple[Foreign, ...]
    reveals: ClassVar[str] = "the best cut of each open node: whose column, by number, which cell"
    reply_type: ClassVar[type[Any]] = ChooseReply

    @property
    def step(self) -> int:
        """The depth of the open nodes."""
        return self.depth


@message
class CutAsk(Ask[SplitReply]):
    """Which rows go left by these chosen cuts of yours?"""

    job: str
    depth: int
    node: Integers
    slot: NDArray[np.int16]
    cut: NDArray[np.uint8]
    missing_left: Bools
    bin_set: NDArray[np.uint64]
    signed: Signed | Unsigned = UNSIGNED  # by the label party
    reveals: ClassVar[str] = "which rows of a node go left by the party's cut"
    reply_type: ClassVar[type[Any]] = SplitReply

    @property
    def step(self) -> int:
        """The depth of the open nodes."""
        return self.depth


ASKS: tuple[type[Ask[Any]], ...] = (SumsAsk, ChooseAsk, CutAsk)
