"""The questions of a horizontal forest: histograms over shared bins, or over a party's own bins.

**Who learns what.** See `spinney.protocols.horizontal_forest`.
"""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from spinney.protocols.accounts.account import ClaimsAsk, JoinAsk
from spinney.protocols.row_forest.messages import NOISY
from spinney.protocols.rows.levels import OpenNodes
from spinney.protocols.rows.quality import QualityAsk
from spinney.protocols.rows.setup import (
    CountsReply,
    EdgesAsk,
    FactsAsk,
    OwnEdgesAsk,
    SchemaAsk,
    ToldReply,
)
from spinney.transport.carried import Carried
from spinney.transport.channel import Ask, Running, Vector
from spinney.transport.messages import kept_beside, message
from spinney.trees.adaptive import AdaptiveHistograms
from spinney.trees.counts import Counts
from spinney.trees.fields import Fields
from spinney.trees.threads import thread_count
from spinney.trees.told import ToldCounts
from spinney.trees.told_ahead import TOLD_WORTH, MaskedToldAhead, OpenToldAhead
from spinney.typing import Integers


@message
class AdaptiveReply:
    """A party's own histograms."""

    histograms: AdaptiveHistograms


@message
class AdaptiveAsk(OpenNodes, Ask[AdaptiveReply]):
    """What are your own histograms of these open nodes? (Only with `binning="adaptive"`.)"""

    reveals: ClassVar[str] = "histograms of tree nodes with the means of their bins"
    refused_under_masks: ClassVar[bool] = True
    reply_type: ClassVar[type[Any]] = AdaptiveReply
    is_relayed: ClassVar[bool] = True


_NARROW_BITS = 16


def _unknown() -> Integers:
    return np.zeros((0, 0), np.int64)


@message
class LevelAsk(OpenNodes, Ask[CountsReply]):
    """How are the rows of these open nodes distributed over the cells of their features?"""

    held: Integers = field(default_factory=_unknown)  # rows of each node by class, or unknown
    reveals: ClassVar[str] = (
        "histograms of tree nodes by class, or sums of targets, over bins that all parties know"
    )
    reply_type: ClassVar[type[Any]] = CountsReply
    ring_is_fresh: ClassVar[bool] = True
    told_worth: ClassVar[int] = TOLD_WORTH

    @property
    def is_told_back(self) -> bool:  # type: ignore[override]  # of a class in general: no
        """Whether the rows of all nodes are known, without which no histogram can be told."""
        return self.held.size > 0

    def running(self, n_parties: int, *, is_masked: bool) -> Running | None:
        """Return what tells class counts while they come in."""
        if not self.is_told_back:
            return None
        cells, held = self.slots.cells, self.held
        if is_masked:
            return MaskedToldAhead(cells, held, self.fields)
        return OpenToldAhead(cells, held, n_parties)

    def numbers_ahead(self, reply: CountsReply) -> Vector | None:
        """Return class counts as they are packed, if each slot is a run."""
        counts, ends = reply.counts, self.slots.ends.reshape(-1)
        if not self.is_told_back or not np.array_equal(counts.run_ends, ends):
            return None
        return np.frombuffer(counts.stream, np.uint8)

    @property
    def reply_bytes(self) -> int:
        """The counters of each cell, and the end of each slot's run."""
        return self.slots.n_cells * self.job.cell_bytes + 8 * self.slots.cells.size

    @kept_beside
    def is_narrow(self) -> bool:
        """Whether every count of these nodes, summed over all parties, fits 16 bits."""
        return int(self.frontier.bits[self.first : self.last].max(initial=0)) <= _NARROW_BITS

    @kept_beside
    def fields(self) -> Fields:
        """How class counts are packed into words for masking."""
        bits = self.frontier.bits[self.first : self.last]
        return Fields.of(self.slots, bits, self.job.n_classes, self.held)

    def laid_out(self, total: CountsReply) -> CountsReply | ToldReply:
        """Return class counts in few bytes; target sums in runs of their slots."""
        if self.job.n_classes:
            return ToldReply(ToldCounts(total.counts.counters, self.slots.cells, self.held))
        return CountsReply(Counts(total.counts.counters, self.slots.ends.reshape(-1)))

    def taken_in(self, told: Carried) -> CountsReply:
        """Return histograms that were told."""
        if not self.job.n_classes:
            return told.open(CountsReply, unpacked=self.reply_bytes)
        counts = told.open(ToldReply).counts
        counters = counts.read(self.slots.cells, self.held, self.job.cell_counters)
        return CountsReply.of_vectors((counters,))

    def to_ring(self, reply: CountsReply) -> tuple[Vector, ...]:
        """Return class counts packed into words; target sums unchanged."""
        if self.job.n_classes == 0:
            return reply.vectors()
        return (self.fields.pack(reply.counts.counters, thread_count(None)),)

    def from_ring(self, sums: tuple[Vector, ...]) -> CountsReply:
        """Return the sums as histograms."""
        if self.job.n_classes == 0:
            return CountsReply.of_vectors(sums)
        words = sums[0].view(np.uint64)
        counters = self.fields.unpack(words, thread_count(None), narrow=self.is_narrow)
        return CountsReply.of_vectors((counters.reshape(-1, self.job.n_classes),))

    def is_read_from(self, ring: tuple[Vector, ...], total: CountsReply) -> bool:
        """Return whether class counts are histograms, which have one reading."""
        if self.job.n_classes == 0:
            return Ask.is_read_from(self, ring, total)  # slots renew a class: `super` fails
        return self.fields.are_histograms(total.counts.counters, thread_count(None))


SUMMED: tuple[type[Ask[Any]], ...] = (FactsAsk, EdgesAsk, OwnEdgesAsk, LevelAsk, QualityAsk, *NOISY)
"""The questions whose replies are summed; under `secure_sum` they are masked."""


ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, JoinAsk, ClaimsAsk, AdaptiveAsk, *SUMMED)
"""Every question that a party answers."""
