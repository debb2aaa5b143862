"""Extremely randomised trees over parties that hold different rows of the same columns (S5).

Anonymous (2020), *Federated Extra-Trees with Privacy Preserving*, Algorithms 1 and 2, with the
changes that make it exact, fast and closed: all trees grow together, a level a round; nobody tells
the smallest and largest values of a node.

| paper | here |
|---|---|
| client, master | party, coordinator |
| F*, candidate features | `max_features` that split, out of more that are drawn (`trees.cuts`) |
| v_min, v_max of a node | its public box: declared range cut by the path |
| v*, random threshold | a cut drawn by hash of (seed, tree, node, feature): nothing travels |
| Sum_L, Sum_R | `Counts`: cells left, right and missing, by class |
| C_L, C_R | their sum over parties (`channel.sum`) |

**Who learns what.** The coordinator learns sums over parties: counts of rows, missing values,
categories, classes and magnitudes of numbers, and how many rows of each class stand on each side
of every drawn cut. It sees each party's schema, and its quality counts (a confusion matrix, or
error sums). Parties learn the bin edges and the forest as it grows. **Who never learns what.**
Nobody but its party sees a row, a row's key or which node it stands in. Without `secure_sum` the
channel adds up replies that it could read.

**Rounds and bytes.** Schemas 1, facts 1, a level 1 each, quality 1: at most depth + 4. A reply
holds nodes x candidates x 2 x classes counters of a few bits each.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from spinney.errors import ProtocolError, SettingError
from spinney.protocols.facts import class_weights, leaf_values
from spinney.protocols.growing import Job, OpenNodes, PartyRows
from spinney.protocols.model import ForestModel
from spinney.protocols.quality import QualityAsk, answer_quality, quality_over_parties
from spinney.protocols.settings import ForestSettings
from spinney.protocols.setup import (
    CountsReply,
    EdgesAsk,
    FactsAsk,
    SchemaAsk,
    SchemaReply,
    agreed_schema,
    answer_setup,
    lay_bins,
)
from spinney.protocols.training import Phases, Training
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel, Vector
from spinney.trees.counts import Counters
from spinney.trees.cuts import Candidates, CutSearch, Drawing, add_up, cut_counts, drawn
from spinney.trees.dtypes import MAX_WEIGHT
from spinney.trees.fields import Fields
from spinney.trees.frontier import Slots
from spinney.trees.growth import Growth, LeafValues
from spinney.trees.split import BestSplits, Criterion, LeastLeaf
from spinney.trees.threads import thread_count
from spinney.typing import Integers, Progress, silent

NAME = "extra_trees"
_RESERVES = ((8, 2), (5, 4))  # below 2^8 rows twice as many features are drawn, below 2^5 four

Settings = ForestSettings


# --- messages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CutsAsk(OpenNodes, Ask[CountsReply]):
    """How many rows of these open nodes stand on each side of their cuts?"""

    reveals: ClassVar[str] = "counts by class, or sums of targets, on both sides of drawn cuts"
    reply_type: ClassVar[type[Any]] = CountsReply

    @cached_property
    def all_candidates(self) -> Candidates:
        """The candidates of all open nodes."""
        return drawn(self.frontier, drawing_of(self.job), self.job.binning)

    @cached_property
    def candidates(self) -> Candidates:
        """The candidates of these nodes."""
        return self.all_candidates.part(self.first, self.last)

    @property
    def slots(self) -> Slots:
        """What is asked of these nodes."""
        return self.candidates.slots

    @cached_property
    def fields(self) -> Fields:
        """How class counts stand in words when they are masked."""
        return Fields.of(self.slots, self.frontier.bits[self.first : self.last], self.job.n_classes)

    def to_ring(self, reply: CountsReply) -> tuple[Vector, ...]:
        """Return class counts as fields of words; target sums as they are."""
        if self.job.n_classes == 0:
            return reply.vectors()
        return (self.fields.pack(reply.counts.counters, thread_count(None)),)

    def from_ring(self, sums: tuple[Vector, ...]) -> CountsReply:
        """Return the sums as counts."""
        if self.job.n_classes == 0:
            return CountsReply.of_vectors(sums)
        counters = self.fields.unpack(sums[0].view(np.uint64), thread_count(None))
        return CountsReply.of_vectors((counters.reshape(-1, self.job.n_classes),))


def drawing_of(job: Job) -> Drawing:
    """Return how many candidates the nodes of a job get."""
    return Drawing(job.settings.n_slots(job.binning.columns.n_columns), 2, _RESERVES)


SUMMED: tuple[type[Ask[Any]], ...] = (FactsAsk, EdgesAsk, CutsAsk, QualityAsk)
"""The questions whose replies are added up; under `secure_sum` they are masked."""

ASKS: tuple[type[Ask[Any]], ...] = (SchemaAsk, *SUMMED)
"""Every question that a party answers."""


# --- a party -------------------------------------------------------------------------------------


class Party:
    """One organisation's side. What it keeps between questions only saves time."""

    def __init__(self, table: Table, *, n_jobs: int | None = None) -> None:
        self._n_threads = thread_count(n_jobs)
        self._table = table
        self._rows = PartyRows(table, self._n_threads)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        match ask:
            case SchemaAsk():
                return SchemaReply(self._table.schema)
            case FactsAsk() | EdgesAsk():
                return answer_setup(ask, self._table, self._n_threads)
            case CutsAsk():
                return self._counted(ask)
            case QualityAsk():
                return answer_quality(ask, self._rows, self._n_threads)
        raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")

    def _counted(self, ask: CutsAsk) -> CountsReply:
        standing = self._rows.standing(ask)  # Alg. 1, line 17: by the splits so far
        return CountsReply(  # lines 13 to 15
            cut_counts(
                self._rows.binned(ask.job),
                standing,
                ask.candidates,
                (ask.first, ask.last),
                n_classes=ask.job.n_classes,
                n_threads=self._n_threads,
            )
        )


# --- the coordinator -----------------------------------------------------------------------------


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> Training:
    """Grow a forest with the parties on the channel."""
    phases, n_threads = Phases(), thread_count(n_jobs)
    if settings.thresholds is None:
        raise SettingError("thresholds must be 'public' or 'exchanged' for extra-trees; got None.")
    with phases.phase("agreeing"):
        schema = agreed_schema(channel)
    with phases.phase("binning"):
        progress("binning", 0, 0)
        facts, binning = lay_bins(channel, schema, settings)
        sizes = (facts.classes.size, int(facts.n_rows[0]), len(channel.parties))
        job = Job(settings, schema.digest(), binning, *sizes)
    with phases.phase("growing"):
        values = leaf_values(schema, class_weights(settings, facts), job.target_bits)
        growth = _grow(channel, job, values, n_threads=n_threads, progress=progress)
    with phases.phase("judging"):
        progress("judging", 0, 0)
        forest = growth.forest(job.binning, values)
        quality, score = quality_over_parties(channel, job, growth, values, forest)
    return Training(
        ForestModel(NAME, schema, forest, job.binning.bin_of_category),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        quality,
        score if settings.oob_score else None,
        asdict(settings),
    )


def _grow(
    channel: Channel, job: Job, values: LeafValues, *, n_threads: int, progress: Progress
) -> Growth:
    """Grow all trees, a level a round."""
    settings, weights = job.settings, values.class_weight
    growth = Growth(job.roots(), job.rules(), weights, target_step=values.step)
    search = CutSearch(
        drawing_of(job),
        Criterion.of(settings.criterion, weights, MAX_WEIGHT * job.n_rows),
        LeastLeaf(growth.rules.min_samples_leaf, settings.min_weight_fraction_leaf),
        n_threads,
    )
    before: tuple[str, ...] | None = None
    while growth.frontier.n_open:
        progress("growing", growth.depth, settings.max_depth or 0)
        before = _grow_level(channel, job, growth, search, before)
    return growth


def _grow_level(
    channel: Channel,
    job: Job,
    growth: Growth,
    search: CutSearch,
    before: tuple[str, ...] | None,
) -> tuple[str, ...]:
    """Grow a level from summed counts; return whose they are."""
    frontier, parts = growth.frontier, []
    candidates = drawn(frontier, search.drawing, job.binning)  # Alg. 2, lines 7 to 13
    for first, last in job.batches(candidates.slots):
        ask = CutsAsk(job, growth.levels, first, last)
        ask.__dict__.update(frontier=frontier, all_candidates=candidates)  # known here
        counters = channel.sum(ask).counts.counters  # line 14
        answered = channel.rounds[-1].answered
        is_known = answered == before  # a party that left took its rows with it
        held = growth.open_moments[first:last] if is_known else None
        _require_possible(ask, counters, held)
        of_tree = growth.root_weight[first:last]
        parts.append(search.best(counters, ask.candidates, frontier.columns, of_tree))
    best = BestSplits.of_parts([part.best for part in parts])  # lines 16 to 17
    growth.grow(best, features=np.concatenate([part.features for part in parts]))
    return answered


def _require_possible(ask: CutsAsk, counters: Counters, held: Integers | None) -> None:
    """Raise unless sums can be those of rows: a party may be wrong, or lie."""
    if len(counters) != ask.slots.n_cells:
        raise ProtocolError("A party's counts do not have the cells asked for.")
    if not add_up(ask.candidates, counters, held):
        raise ProtocolError(
            "The parties' counts are impossible: the two sides of a cut do not add up to the rows "
            "that its node holds. One of the parties answers wrongly; nothing was used. Run the "
            "job without one party after another to find it."
        )
