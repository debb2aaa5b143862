"""The questions of extra-trees: counts on both sides of cuts that everybody draws identically.

**Who learns what.** See `spinney.protocols.extra_trees`.
"""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import ClaimsAsk, JoinAsk
from spinney.protocols.accounts.replies import NoisyReply
from spinney.protocols.row_forest.messages import LeafAsk, NoisyLevelAsk
from spinney.protocols.rows.levels import OpenNodes
from spinney.protocols.rows.quality import QualityAsk
from spinney.protocols.rows.setup import (
    NOT_KNOWN,
    CountsReply,
    EdgesAsk,
    FactsAsk,
    OwnEdgesAsk,
    SchemaAsk,
    ToldReply,
)
from spinney.transport.carried import Carried
from spinney.transport.channel import Ask, Vector
from spinney.transport.messages import kept_beside, message
from spinney.trees.counts import Counts
from spinney.trees.cuts import Candidates, CutFrontier
from spinney.trees.fields import Fields
from spinney.trees.frontier import Frontier, Slots
from spinney.trees.ranges import Ranges
from spinney.trees.threads import thread_count
from spinney.trees.told import ToldCounts


def candidates_of(frontier: Frontier) -> Candidates:
    """Return the candidates of open nodes; parties in one process draw them once."""
    assert isinstance(frontier, CutFrontier)
    return frontier.candidates


@message
class CandidateNodes(OpenNodes):
    """A range of open nodes and the candidates that everybody draws for them."""

    @property
    def all_candidates(self) -> Candidates:
        """The candidates of all open nodes."""
        return candidates_of(self.frontier)

    @kept_beside
    def candidates(self) -> Candidates:
        """The candidates of these nodes."""
        return self.all_candidates.part(self.first, self.last)

    @property
    def slots(self) -> Slots:
        """The cells that are asked about in these nodes."""
        return self.candidates.slots


@message
class RangesReply:
    """A party's smallest and largest bins."""

    ranges: Ranges


@message
class RangesAsk(CandidateNodes, Ask[RangesReply]):
    """What are your smallest and largest values in these nodes? (Only thresholds="exchanged".)"""

    reveals: ClassVar[str] = "smallest and largest bins of features in tree nodes"
    refused_under_masks: ClassVar[bool] = True
    reply_type: ClassVar[type[Any]] = RangesReply
    is_relayed: ClassVar[bool] = True


def _no_cuts() -> NDArray[np.uint8]:
    return np.zeros(0, np.uint8)


@message
class CutsAsk(CandidateNodes, Ask[CountsReply]):
    """How many rows of these open nodes are on each side of their cuts?"""

    cuts: NDArray[np.uint8] = field(
        default_factory=_no_cuts
    )  # exchanged thresholds, node after node
    reveals: ClassVar[str] = "counts by class, or sums of targets, on both sides of drawn cuts"
    reply_type: ClassVar[type[Any]] = CountsReply

    @kept_beside
    def candidates(self) -> Candidates:
        """The candidates of these nodes, with the question's cuts if it has any."""
        own = self.all_candidates.part(self.first, self.last)
        if self.job.settings.thresholds != "exchanged":
            if self.cuts.size:
                raise ProtocolError("The question brings cuts, but in this job parties draw them.")
            return own
        if self.cuts.size != own.cut.size:
            raise ProtocolError("The question's cuts do not fit its nodes.")
        return own.cut_at(self.cuts.reshape(own.cut.shape))

    @kept_beside
    def fields(self) -> Fields:
        """How counts are packed into words for masking."""
        return Fields.of(
            self.slots, self.frontier.bits[self.first : self.last], self.job.cell_counters
        )

    def laid_out(self, total: CountsReply) -> CountsReply | ToldReply:
        """Return counts in few bytes; target sums in runs of their slots."""
        if self.job.n_classes:
            return ToldReply(ToldCounts(total.counts.counters, self.slots.cells, NOT_KNOWN))
        return CountsReply(Counts(total.counts.counters, self.slots.ends.reshape(-1)))

    def taken_in(self, told: Carried) -> CountsReply:
        """Return counts that were told."""
        if not self.job.n_classes:
            return told.open(CountsReply, unpacked=self.reply_bytes)
        counts = told.open(ToldReply).counts
        counters = counts.read(self.slots.cells, NOT_KNOWN, self.job.cell_counters)
        return CountsReply.of_vectors((counters,))

    def to_ring(self, reply: CountsReply) -> tuple[Vector, ...]:
        """Return counts packed into words; target sums unchanged."""
        if self.job.n_classes == 0:
            return reply.vectors()
        return (self.fields.pack(reply.counts.counters, thread_count(None)),)

    def from_ring(self, sums: tuple[Vector, ...]) -> CountsReply:
        """Return the sums as counts."""
        if self.job.n_classes == 0:
            return CountsReply.of_vectors(sums)
        counters = self.fields.unpack(sums[0].view(np.uint64), thread_count(None))
        return CountsReply.of_vectors((counters.reshape(-1, self.job.cell_counters),))


@message
class NoisyCutsAsk(CandidateNodes, NoisyLevelAsk):
    """How many rows are on each side of these nodes' cuts, with noise?"""

    reveals: ClassVar[str] = "counts, or sums of targets, on both sides of drawn cuts, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply


SUMMED: tuple[type[Ask[Any]], ...] = (
    FactsAsk,
    EdgesAsk,
    OwnEdgesAsk,
    CutsAsk,
    QualityAsk,
    NoisyCutsAsk,
    LeafAsk,
)
"""The questions whose replies are summed; under `secure_sum` they are masked."""


ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, JoinAsk, ClaimsAsk, RangesAsk, *SUMMED)
"""Every question that a party answers; this module defines those about cuts."""
