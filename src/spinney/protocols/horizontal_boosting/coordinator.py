"""The coordinator's side of boosted trees over rows: it sums gradients and picks the splits."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from spinney.errors import ProtocolError, SettingError
from spinney.protocols.boosted.model import finish_values
from spinney.protocols.boosted.objective import count_from_zero, target_of, weigh_classes
from spinney.protocols.boosted.scores import Course
from spinney.protocols.boosted.settings import (
    Settings,
    directions_of,
    require_columns,
    together_of,
)
from spinney.protocols.horizontal_boosting.messages import (
    WEIGHT_DROPPED,
    BatchOfJob,
    BoostingJob,
    CurveAsk,
    ErrorsAsk,
    GradientsAsk,
    TargetsAsk,
)
from spinney.protocols.horizontal_boosting.settings import NAME
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.facts import class_weights, target_range
from spinney.protocols.rows.levels import open_nodes, ranges_within
from spinney.protocols.rows.quality import dropped_bits, quality_of, with_majorities
from spinney.protocols.rows.setup import agree_on_schema, lay_bins
from spinney.protocols.training import Phases, Quality, Training
from spinney.tables.schema import Schema
from spinney.transport.channel import Channel
from spinney.trees.batch import BatchFrontier, GrownBatch
from spinney.trees.counts import Counters
from spinney.trees.forest import Forest
from spinney.trees.gradient_fields import Widths, widths_of
from spinney.trees.growth import Growth, StoppingRules
from spinney.trees.histogram import Above, add_derived
from spinney.trees.layout import join_forests
from spinney.trees.losses import LOSSES, SCORE_BITS
from spinney.trees.newton import NewtonSearch, NewtonValues, ValueBounds
from spinney.trees.split import BestSplits
from spinney.trees.threads import thread_count
from spinney.typing import Integers, Progress, silent

_MOST_WEIGHT_BITS = 38  # so that a mean target, of 24 bits, times the weight of rows has 62
_MOST_LOSS = 2.0**63  # in steps of 2^-24; every row's loss is at most its score
_MAY_CHANGE = ("max_iter", "learning_rate", "seed", "message_limit")  # in a longer job


@dataclass(frozen=True)
class SoFar:
    """Finished batches of a job, to which a longer job adds (`warm_start`)."""

    job: BoostingJob
    grown: tuple[GrownBatch, ...]
    forests: tuple[Forest, ...]
    curves: dict[str, tuple[float, ...]]

    def require_same(self, job: BoostingJob) -> None:
        """Raise unless a longer job goes on where this one ended."""
        if job.schema_digest != self.job.schema_digest:
            raise SettingError(
                "warm_start goes on with the columns and classes of the trees so far; these are "
                "others. Use warm_start=False."
            )
        before, now = asdict(self.job.settings), asdict(job.settings)
        changed = [name for name in now if name not in _MAY_CHANGE and now[name] != before[name]]
        if changed:
            raise SettingError(
                f"warm_start keeps the settings of the trees so far, but for max_iter and "
                f"learning_rate; {changed[0]} has changed. Use warm_start=False."
            )
        if replace(job, settings=self.job.settings).digest != self.job.digest:
            raise SettingError(
                "warm_start goes on with the rows of the trees so far; these are others. Use "
                "warm_start=False."
            )
        n_grown = sum(forest.n_trees for forest in self.forests) // job.n_outputs
        if n_grown > job.settings.max_iter:
            raise SettingError(
                f"max_iter={job.settings.max_iter} is less than the {n_grown} trees so far. With "
                "warm_start, max_iter is the number of all trees."
            )
        if n_grown % job.settings.batch_trees:
            raise SettingError(
                f"warm_start needs whole batches: {n_grown} trees so far are no multiple of "
                f"batch_trees={job.settings.batch_trees}."
            )


@dataclass(frozen=True)
class BoostingTraining(Training):
    """A training to which a longer one can add."""

    so_far: SoFar | None = None


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,
    progress: Progress = silent,
    so_far: SoFar | None = None,
) -> BoostingTraining:
    """Grow boosted trees with the parties on the channel, after those `so_far`, if given."""
    phases, n_threads = Phases(), thread_count(n_jobs)
    with phases.phase("agreeing"):
        schema = agree_on_schema(channel)
    with phases.phase("binning"):
        progress("binning", 0, 0)
        job = _lay_job(channel, schema, settings)
        if so_far is not None:
            so_far.require_same(job)
    with phases.phase("growing"):
        boosting = _Boosting(channel, job, n_threads, progress, so_far)
        boosting.run()
    with phases.phase("judging"):
        progress("judging", 0, 0)
        own_curves = _own_curves(channel, boosting)
        quality = _judged(channel, boosting, schema)
    curves = boosting.course.found
    return BoostingTraining(
        _model(schema, boosting),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        quality,
        None,
        asdict(settings),
        adds_up=boosting.adds_up,
        curves=curves,
        own_curves=own_curves,
        so_far=SoFar(job, boosting.grown, tuple(boosting.forests), curves),
    )


def _lay_job(channel: Channel, schema: Schema, settings: Settings) -> BoostingJob:
    """Count the tables, lay the bins, and find the score before the first tree."""
    require_columns(settings, schema.names)
    directions = directions_of(settings, schema.columns, len(schema.label.classes or ()))
    together = together_of(settings, schema)
    facts, binning = lay_bins(channel, schema, settings)
    loss, target = LOSSES[settings.loss], (0.0, 1.0)
    largest = settings.largest_weight
    if facts.classes.size:
        weights, counts = class_weights(settings, facts), facts.classes
        if largest is not None:
            counts = channel.sum(TargetsAsk(schema.digest(), largest)).sums
            if counts.shape != facts.classes.shape:
                raise ProtocolError("A party's weights do not fit the question.")
        if settings.class_weight is not None:
            counts = weigh_classes(counts, weights)
    else:
        target = target_of(schema.label, settings)
        weights = np.zeros(0)
        counts = channel.sum(TargetsAsk(schema.digest(), largest)).sums
        if counts.shape != (2,) or counts[0] < 1:
            raise ProtocolError("A party's sums of targets do not fit the question.")
        if largest is not None:
            counts = _unscaled(counts)
        if settings.loss == "poisson":
            counts = count_from_zero(counts, target)
    job = BoostingJob(
        settings,
        schema.digest(),
        binning,
        facts.classes.size,
        int(facts.n_rows[0]),
        len(channel.parties),
        tuple(loss.base(counts).tolist()),
        tuple(weights.tolist()),
        target,
        directions,
        together,
    )
    _require_room(job)
    return job


def _require_room(job: BoostingJob) -> None:
    """Raise if scores could grow so large that the loss, summed over all rows, overflows."""
    settings = job.settings
    furthest = settings.n_batches * settings.learning_rate * job.units.most
    if job.n_rows * (furthest + 1.0) * 2.0**SCORE_BITS >= _MOST_LOSS:
        raise SettingError(
            f"{settings.n_batches} batches of trees at learning_rate={settings.learning_rate:g} "
            "could move a score so far that the loss of all rows together overflows. Use fewer "
            "batches or a smaller learning_rate."
        )


def _unscaled(counts: Integers) -> Integers:
    """Return the weight of rows and their weighed targets, both in the same steps."""
    n, total = (int(count) for count in counts)
    drop = max(0, n.bit_length() - _MOST_WEIGHT_BITS)
    return np.array([max(n >> drop, 1), (total << WEIGHT_DROPPED) >> drop], np.int64)


@dataclass(frozen=True)
class _Before:
    """What is known of the level before."""

    parties: tuple[str, ...] = ()  # whose rows it counts
    above: Above | None = None  # its histograms, if nodes are derived from them


class _Boosting:
    """Batches of trees, one after another."""

    def __init__(
        self,
        channel: Channel,
        job: BoostingJob,
        n_threads: int,
        progress: Progress,
        so_far: SoFar | None = None,
    ) -> None:
        settings = job.settings
        self.job = job
        self.grown: tuple[GrownBatch, ...] = () if so_far is None else so_far.grown
        self.forests: list[Forest] = [] if so_far is None else [*so_far.forests]
        self.adds_up = True
        self.course = Course(job, {} if so_far is None else so_far.curves)
        self._channel = channel
        self._progress = progress
        self._rules = StoppingRules(
            settings.max_depth, 2, settings.min_samples_leaf, 0.0, is_regression=True
        )
        self._search = NewtonSearch(
            job.units,
            settings.l2_regularization,
            settings.min_samples_leaf,
            np.array(job.directions or (0,) * job.binning.columns.n_columns, np.int8),
            n_threads,
        )

    def run(self) -> None:
        """Grow all batches."""
        settings = self.job.settings
        for number in range(len(self.grown), settings.n_batches):
            batch = self.job.batch(number)
            growth = Growth(open_nodes(batch, ()), self._rules, np.zeros(0))
            before = _Before()
            bounds = ValueBounds(self._search, batch.n_trees) if self.job.directions else None
            while growth.frontier.n_open:
                done = number * settings.max_depth + growth.depth
                self._progress("growing", done, settings.n_batches * settings.max_depth)
                before = self._grow_level(growth, before, bounds)
                if self.course.is_over:
                    return
            self._finish(batch, growth, bounds)

    def _grow_level(self, growth: Growth, before: _Before, bounds: ValueBounds | None) -> _Before:
        """Grow a level from summed gradients; return what the next one must know of it."""
        frontier, job = growth.frontier, self.job
        width, parts = job.units.width, []
        widths = self._widths(growth, before)
        batches = list(ranges_within(frontier.asked, 8 * width, job.settings.message_limit))
        for first, last in batches:
            ask = GradientsAsk(job, self.grown, growth.levels, first, last, widths[first:last])
            reply = self._channel.sum(ask)
            if ask.n_losses:
                self.course.note(reply.losses)
                if self.course.is_over:
                    return before
            sums = reply.counts.counters
            if sums.shape != (ask.slots.n_cells, width):
                raise ProtocolError("A party's histograms do not have the cells asked for.")
            answered = self._channel.rounds[-1].answered
            if frontier.derived.any():
                if before.above is None or before.above.parties != answered:
                    growth.ask_about_all()  # parent and child count different rows
                    return _Before(answered)
                sums = add_derived(frontier, before.above, sums)
            parts.append(self._best(sums, growth, (first, last), bounds))
            if growth.levels and answered == before.parties:
                held = growth.open_moments[first:last]
                self.adds_up &= np.array_equal(parts[-1].total, held)
        within = job.settings.message_limit // (8 * width) if len(batches) == 1 else 0
        best = BestSplits.of_parts(parts)
        growth.grow(best, derive_within=within)
        if bounds is not None:
            level = growth.levels[-1]
            split = level.feature >= 0
            direction = self._search.direction[level.feature[split]]
            bounds.go(split, level.child_open, direction, growth.child_moments)
        is_needed = growth.frontier.derived.any() or self._channel.is_masked
        kept = Above(frontier.slots, sums, answered) if is_needed and len(batches) == 1 else None
        return _Before(answered, kept)

    def _widths(self, growth: Growth, before: _Before) -> Widths:
        """Return how many bits masked sums of the open nodes take, at most."""
        units, frontier = self.job.units, growth.frontier
        if not self._channel.is_masked:
            return np.zeros((0, 0, 0), np.uint8)
        if growth.levels:
            most = growth.open_moments[:, : units.width].copy()
            most[:, 1] += units.g_steps * most[:, 0]
        else:
            a_row = np.array([1, 2 * units.g_steps, units.h_steps][: units.width])
            most = np.tile(self.job.n_rows * a_row, (frontier.n_open, 1))
        return widths_of(frontier, most, before.above)

    def _best(
        self, sums: Counters, growth: Growth, nodes: tuple[int, int], bounds: ValueBounds | None
    ) -> BestSplits:
        """Return the best cuts of a range of open nodes, in columns that they may use."""
        frontier, (first, last) = growth.frontier, nodes
        assert isinstance(frontier, BatchFrontier)
        slots = frontier.slots.part(first, last)
        free = np.full(frontier.n_open, np.inf)
        low, high = (-free, free) if bounds is None else bounds.of_open
        best = self._search.best(sums, slots, frontier.columns, low[first:last], high[first:last])
        if frontier.allows_all:
            return best
        column = slots.feature[np.arange(last - first), best.slot.clip(0)]
        may = frontier.allowed[first:last][np.arange(last - first), column]
        return replace(best, slot=np.where(may, best.slot, -1))

    def _finish(self, batch: BatchOfJob, growth: Growth, bounds: ValueBounds | None) -> None:
        """Give every leaf of a batch its value."""
        values = NewtonValues(self.job.units, self.job.settings.l2_regularization, batch.scale)
        forest = growth.forest(self.job.binning, values)
        leaf = growth.leaf_moments.counters.astype(np.int64)
        whole = values.whole(leaf, None if bounds is None else bounds.of_leaves)
        forest.value[forest.leaves_by_level, 0] = whole
        self.grown = (*self.grown, GrownBatch(growth.levels, whole))
        self.forests.append(forest)


def _model(schema: Schema, boosting: _Boosting) -> ForestModel:
    """Return the finished model, whose leaf values are in units of scores, or of the target."""
    job = boosting.job
    forest = join_forests(boosting.forests)
    value, boosted = finish_values(job, job.base, schema.label, forest.value, forest.tree_start)
    forest = replace(forest, value=value, moments=np.ascontiguousarray(forest.moments[:, :1]))
    return ForestModel(NAME, schema, forest, job.binning.bin_of_category, boosted=boosted)


def _own_curves(channel: Channel, boosting: _Boosting) -> dict[str, tuple[float, ...]]:
    """Return how the loss fell at each party; nothing under masks, or for one party."""
    if channel.is_masked or len(channel.parties) == 1:
        return {}
    job, found = boosting.job, {}
    for name, reply in channel.ask(CurveAsk(job, boosting.grown)).items():
        if reply.losses.shape != (len(boosting.grown) + 1, 2):
            raise ProtocolError("A party's losses do not fit the question.")
        if reply.losses[:, 0].min() > 0:  # a party may have no row to train on
            found[name] = tuple(job.mean_loss(*pair) for pair in reply.losses.tolist())
    return found


def _judged(channel: Channel, boosting: _Boosting, schema: Schema) -> dict[str, Quality]:
    """Return the quality on the training rows: at each party, or under masks over all."""
    job = boosting.job
    ask = ErrorsAsk(job, boosting.grown)
    if channel.is_masked:  # a party's own counts would show what masks hide
        counts = {"all parties": channel.sum(ask).counts}
    else:
        counts = {name: reply.counts for name, reply in channel.ask(ask).items()}
    step = 1.0
    if not job.n_classes:
        low, high = target_range(schema.label)
        step = (high - low) / (2**SCORE_BITS - 1) * 2.0 ** dropped_bits(SCORE_BITS, job.n_rows)
    found = {name: quality_of(held, bootstrap=False, step=step) for name, held in counts.items()}
    return with_majorities(found, counts)
