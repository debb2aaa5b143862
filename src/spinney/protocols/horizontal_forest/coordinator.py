"""The coordinator's side of a horizontal forest: it sums histograms and picks the splits."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.protocols.accounts.account import join
from spinney.protocols.horizontal_forest.messages import AdaptiveAsk, LevelAsk
from spinney.protocols.horizontal_forest.settings import NAME, Settings
from spinney.protocols.model import ForestModel
from spinney.protocols.row_forest.coordinator import finished, grow_noisily
from spinney.protocols.row_forest.messages import noisy_job
from spinney.protocols.row_forest.party import private_plan
from spinney.protocols.rows.levels import GrowingJob, SplitSearch, lay_job, open_nodes
from spinney.protocols.rows.quality import quality_over_parties
from spinney.protocols.rows.setup import agree_on_schema
from spinney.protocols.training import Phases, Quality, Training
from spinney.transport.channel import Channel
from spinney.trees.adaptive import merge_histograms, midpoints
from spinney.trees.dtypes import MAX_WEIGHT
from spinney.trees.frontier import Frontier
from spinney.trees.growth import Growth
from spinney.trees.histogram import Above, add_derived
from spinney.trees.layout import LeafValues
from spinney.trees.split import BestSplits, Criterion, LeastLeaf, cells_of_alike
from spinney.trees.threads import thread_count
from spinney.typing import ENDLESS, Integers, Progress, silent


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> Training:
    """Grow a forest with the parties on the channel."""
    phases, n_threads, privacy = Phases(), thread_count(n_jobs), settings.privacy
    with phases.phase("agreeing"):
        schema = agree_on_schema(channel)
        if privacy:
            private_plan(schema, settings, len(channel.parties))  # raises before any party is asked
            join(channel, schema, settings)
    judged: tuple[dict[str, Quality], float | None] = {}, None
    adds_up, noise = True, None
    if privacy and not privacy.perturbs_input:
        with phases.phase("growing"):
            job = noisy_job(schema, settings, len(channel.parties))
            forest, noise = grow_noisily(
                channel, schema, job, n_threads=n_threads, progress=progress
            )
    else:
        with phases.phase("binning"):
            progress("binning", 0, 0)
            job, values = lay_job(channel, schema, settings)
        with phases.phase("growing"):
            how: dict[str, Any] = {"n_threads": n_threads, "progress": progress}
            growth, adds_up = _grow(channel, job, values, **how)
        with phases.phase("judging"):
            progress("judging", 0, 0)
            forest = growth.forest(job.binning, values)
            judged = quality_over_parties(channel, job, growth, values)
    model = ForestModel(NAME, schema, forest, job.binning.bin_of_category, noise=noise)
    return finished(channel, phases, model, settings, judged, adds_up=adds_up)


def _grow(
    channel: Channel, job: GrowingJob, values: LeafValues, *, n_threads: int, progress: Progress
) -> tuple[Growth, bool]:
    """Grow all trees, one level per round; return them, and whether all rows came along."""
    settings = job.settings
    weights = values.class_weight
    growth = Growth(open_nodes(job, ()), job.rules(), weights, target_step=values.step)
    search = SplitSearch(
        Criterion.of(settings.criterion, weights, MAX_WEIGHT * job.n_rows),
        LeastLeaf(growth.rules.min_samples_leaf, settings.min_weight_fraction_leaf),
        n_threads,
    )
    before = _Before()
    while growth.frontier.n_open:
        progress("growing", growth.depth, settings.max_depth or ENDLESS)
        if job.binning.adaptive_bins:
            grow_adaptively(channel, job, growth, search)
        else:
            before = _grow_by_counts(channel, job, growth, search, before)
    return growth, before.adds_up


@dataclass(frozen=True)
class _Before:
    """What is known of the level before."""

    parties: tuple[str, ...] = ()  # whose rows it counts
    above: Above | None = None  # its histograms, if nodes are derived from them
    adds_up: bool = True  # whether nodes so far held the rows that their parents sent there


def _grow_by_counts(
    channel: Channel, job: GrowingJob, growth: Growth, search: SplitSearch, before: _Before
) -> _Before:
    """Grow a level from summed counts; return what the next one must know of it.

    A party may count itself out of small nodes. Then a child is not what its sibling lacks of its
    parent, so that all nodes must be asked about.
    """
    frontier, adds_up = growth.frontier, before.adds_up
    parts, where = [], []
    batches = list(job.batches(frontier.asked))
    for first, last in batches:
        ask = LevelAsk(job, growth.levels, first, last, held_by_class(job, growth)[first:last])
        counters = channel.sum(ask).counts.counters
        if counters.shape != (ask.slots.n_cells, job.cell_counters):
            raise ProtocolError("A party's histograms do not have the cells asked for.")
        answered = channel.rounds[-1].answered
        is_derived = frontier.derived.any()
        if is_derived:
            if before.above is None or before.above.parties != answered:
                growth.ask_about_all()  # parent and child count different rows
                return _Before(answered, None, adds_up)
            counters = add_derived(frontier, before.above, counters)
        best = search.best(counters, growth, first, last)
        if growth.levels and answered == before.parties:
            adds_up &= _adds_up(best.total, growth.open_moments[first:last], frontier, first)
        if is_derived and not adds_up:
            growth.ask_about_all()
            return _Before(answered, None, adds_up)
        parts.append(best)
        of_part = frontier.slots.part(first, last)
        where.append(cells_of_alike(counters, best, of_part, is_regression=not job.n_classes))
    is_kept = adds_up and len(batches) == 1
    within = job.settings.message_limit // job.cell_bytes if is_kept else 0
    # Alg. 1, line 3: best value
    growth.grow(BestSplits.of_parts(parts), derive_within=within, where=np.concatenate(where))
    kept = Above(frontier.slots, counters, answered) if growth.frontier.derived.any() else None
    return _Before(answered, kept, adds_up)


def _adds_up(total: Integers, sent: Integers, frontier: Frontier, first: int) -> bool:
    """Return whether the nodes from `first` on hold what their parents sent, where cells tell."""
    if np.array_equal(total, sent):
        return True
    told = frontier.slots.cells[first : first + len(total), 0] > 0
    return np.array_equal(total[told], sent[told])


def held_by_class(job: GrowingJob, growth: Growth) -> Integers:
    """Return how many rows of each class the open nodes hold, at most; nothing if unknown.

    Parties that left took rows with them, and none came.
    """
    known = bool(growth.levels) and job.n_classes > 0
    return growth.open_moments if known else np.zeros((0, 0), np.int64)


def grow_adaptively(channel: Channel, job: GrowingJob, growth: Growth, search: SplitSearch) -> None:
    """Grow a level from the parties' own histograms, merged (Alg. 3)."""
    frontier = growth.frontier
    parts: list[BestSplits] = []
    thresholds: list[NDArray[np.float32]] = []
    for first, last in job.batches(frontier.slots):
        ask = AdaptiveAsk(job, growth.levels, first, last)
        replies = channel.ask(ask)
        found = merge_histograms(
            [reply.histograms for reply in replies.values()],
            frontier.columns,
            ask.slots,
            is_regression=job.n_classes == 0,
        )
        best = search.best(found.moments, growth, first, last)
        parts.append(best)
        thresholds.append(midpoints(best, found, frontier.columns, ask.slots))
    growth.grow(BestSplits.of_parts(parts), threshold=np.concatenate(thresholds))
