"""The coordinator's side of extra-trees: it draws cuts, sums counts and picks the best cut."""

from typing import Any

import numpy as np

from spinney.errors import ProtocolError, SettingError
from spinney.protocols.accounts.account import join
from spinney.protocols.extra_trees.estimates import BitSearch, Estimates, LabelRules, value_leaves
from spinney.protocols.extra_trees.labels import LabelPlan
from spinney.protocols.extra_trees.messages import CutsAsk, RangesAsk, candidates_of
from spinney.protocols.extra_trees.noisy_coordinator import grow_by_noisy_cuts
from spinney.protocols.extra_trees.party import extra_plan
from spinney.protocols.extra_trees.settings import NAME, Settings
from spinney.protocols.model import ForestModel
from spinney.protocols.row_forest.coordinator import finished
from spinney.protocols.row_forest.messages import noisy_job
from spinney.protocols.rows.drawing import drawing_of
from spinney.protocols.rows.levels import GrowingJob, lay_job, open_nodes
from spinney.protocols.rows.quality import quality_over_parties
from spinney.protocols.rows.setup import agree_on_schema
from spinney.protocols.training import Phases, Quality, Training
from spinney.transport.channel import Channel
from spinney.trees.counts import Counters
from spinney.trees.cuts import CutSearch, add_up, grow_by
from spinney.trees.dtypes import MAX_WEIGHT
from spinney.trees.growth import Growth
from spinney.trees.layout import LeafValues
from spinney.trees.own_rows import rows_told
from spinney.trees.ranges import cuts_between, join_ranges
from spinney.trees.split import Criterion, LeastLeaf
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
    phases, privacy = Phases(), settings.privacy
    how: dict[str, Any] = {"n_threads": thread_count(n_jobs), "progress": progress}
    if settings.thresholds is None:
        raise SettingError("thresholds must be 'public' or 'exchanged' for extra-trees; got None.")
    with phases.phase("agreeing"):
        schema = agree_on_schema(channel)
        plan = extra_plan(schema, settings, len(channel.parties)) if privacy else None
        if plan is not None:  # it raises before any party is asked
            join(channel, schema, settings)
    judged: tuple[dict[str, Quality], float | None] = {}, None
    adds_up, noise = True, None
    if plan is not None and not isinstance(plan, LabelPlan):
        with phases.phase("growing"):
            job = noisy_job(schema, settings, len(channel.parties))
            forest, noise = grow_by_noisy_cuts(channel, schema, job, **how)
    else:
        with phases.phase("binning"):
            progress("binning", 0, 0)
            job, values = lay_job(channel, schema, settings)
        with phases.phase("growing"):
            growth, adds_up = _grow(channel, job, values, plan, **how)
            if plan is not None:
                forest = value_leaves(growth, job, plan, values)
        if plan is None:
            with phases.phase("judging"):
                progress("judging", 0, 0)
                forest = growth.forest(job.binning, values)
                judged = quality_over_parties(channel, job, growth, values)
    model = ForestModel(NAME, schema, forest, job.binning.bin_of_category, noise=noise)
    return finished(channel, phases, model, settings, judged, adds_up=adds_up)


def _grow(
    channel: Channel,
    job: GrowingJob,
    values: LeafValues,
    plan: LabelPlan | None,
    *,
    n_threads: int,
    progress: Progress,
) -> tuple[Growth, bool]:
    """Grow all trees, one level per round; return them, and whether all rows came along."""
    settings, weights = job.settings, values.class_weight
    estimates = None if plan is None else Estimates(plan.response)
    rules = job.rules() if estimates is None else LabelRules.of(job.rules(), estimates)
    search: CutSearch | BitSearch
    search = by_class = CutSearch(
        drawing_of(settings, job.binning.columns.n_columns),
        Criterion.of(settings.criterion, weights, MAX_WEIGHT * job.n_rows),
        LeastLeaf(rules.min_samples_leaf, settings.min_weight_fraction_leaf),
        n_threads,
    )
    if plan is not None and estimates is not None and plan.n_bits:
        search = BitSearch.of(by_class, estimates)
    growth = Growth(open_nodes(job, ()), rules, weights, target_step=values.step)
    before: tuple[str, ...] | None = None
    adds_up = True
    while growth.frontier.n_open:
        progress("growing", growth.depth, settings.max_depth or ENDLESS)
        before, level_adds_up = _grow_level(channel, job, growth, search, before)
        adds_up &= level_adds_up
    return growth, adds_up


def _grow_level(
    channel: Channel,
    job: GrowingJob,
    growth: Growth,
    search: CutSearch | BitSearch,
    before: tuple[str, ...] | None,
) -> tuple[tuple[str, ...], bool]:
    """Grow a level from summed counts; return whose they are, and whether all rows came along."""
    frontier, parts, adds_up = growth.frontier, [], True
    candidates = candidates_of(frontier)  # Alg. 2, lines 7 to 13
    for first, last in job.batches(candidates.slots):
        ask = CutsAsk(job, growth.levels, first, last)
        if job.settings.thresholds == "exchanged":
            ask = _with_exchanged(channel, ask)
        counters = channel.sum(ask).counts.counters  # line 14
        answered = channel.rounds[-1].answered
        # A party that left took its rows with it.
        held = growth.open_moments[first:last] if answered == before else None
        adds_up &= _require_possible(ask, counters, held)
        of_tree = growth.root_weight[first:last]
        later = frontier.line[first:last] > 0
        parts.append(
            search.best(counters, ask.candidates, frontier.columns, of_tree, only_first=later)
        )
    is_public = job.settings.thresholds == "public"
    grow_by(growth, parts, is_public=is_public)  # lines 16 to 18
    return answered, adds_up


def _with_exchanged(channel: Channel, ask: CutsAsk) -> CutsAsk:
    """Return the question with cuts drawn between the parties' smallest and largest values."""
    first, last = ask.first, ask.last
    about = RangesAsk(ask.job, ask.levels, first, last)
    replies = channel.ask(about)  # Alg. 2, lines 9 to 11
    ranges = join_ranges([reply.ranges for reply in replies.values()])
    keys = ask.frontier.key[first:last]
    cuts = cuts_between(ranges, about.candidates, keys, ask.job.binning)  # line 12
    return CutsAsk(ask.job, ask.levels, first, last, cuts.ravel())


def _require_possible(ask: CutsAsk, counters: Counters, held: Integers | None) -> bool:
    """Raise unless the sums are possible for the rows: a party may be wrong, or lie.

    Return whether nodes hold all rows that their parents sent there; a party may count itself out.
    """
    if counters.shape != (ask.slots.n_cells, ask.job.cell_counters):
        raise ProtocolError("A party's counts do not have the cells asked for.")
    told, rows = rows_told(ask.slots, counters)
    lacking = held[told] - rows if held is not None else np.zeros_like(rows)
    if not add_up(ask.candidates, counters) or np.any(lacking < 0):
        raise ProtocolError(
            "The parties' counts are impossible: the two sides of a cut do not add up to the rows "
            "of its node. One of the parties answers wrongly; nothing was used. Rerun, leaving out "
            "one party at a time, to find it."
        )
    if not _fits_rows(ask.job, counters):
        raise ProtocolError(
            "The parties' sums are impossible: they are too large for the number of rows, each of "
            "which reports a bit once or a target within its range. One of the parties answers "
            "wrongly; nothing was used. Rerun, leaving out one party at a time, to find it."
        )
    return not lacking.any()


def _fits_rows(job: GrowingJob, counters: Counters) -> bool:
    """Return whether sums of bits or targets are possible for the number of rows."""
    if job.n_classes == job.cell_counters:
        return True  # counts by class already give the number of rows
    most = 1 if job.n_classes else 2**job.target_bits - 1
    return not bool((counters[:, 1:] > counters[:, :1] * most).any())
