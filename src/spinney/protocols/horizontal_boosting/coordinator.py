"""The coordinator's side of boosted trees over rows: it sums gradients and picks the splits."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from spinney.errors import ProtocolError, SettingError, TableError
from spinney.protocols.horizontal_boosting.messages import (
    BatchOfJob,
    BoostingJob,
    ErrorsAsk,
    GradientsAsk,
    TargetsAsk,
)
from spinney.protocols.horizontal_boosting.settings import (
    NAME,
    Settings,
    directions_of,
    together_of,
)
from spinney.protocols.model import Boosted, ForestModel
from spinney.protocols.rows.facts import FactsReply, class_weights, target_range
from spinney.protocols.rows.levels import open_nodes, ranges_within
from spinney.protocols.rows.quality import dropped_bits, quality_of
from spinney.protocols.rows.setup import agree_on_schema, lay_bins
from spinney.protocols.training import Phases, Quality, Training
from spinney.tables.schema import Schema
from spinney.transport.channel import Channel
from spinney.trees.batch import BatchFrontier, GrownBatch
from spinney.trees.counts import Counters
from spinney.trees.forest import Forest
from spinney.trees.growth import Growth, StoppingRules
from spinney.trees.histogram import Above, add_derived
from spinney.trees.layout import join_forests
from spinney.trees.losses import LOSSES, SCORE_BITS, log_ratio
from spinney.trees.newton import NewtonSearch, NewtonValues, ValueBounds
from spinney.trees.split import BestSplits
from spinney.trees.threads import thread_count
from spinney.typing import Floats, Integers, Progress, silent

_LINKS = {
    "log_loss": ("logistic", "softmax"),
    "squared_error": ("identity",) * 2,
    "poisson": ("log",) * 2,
}


def train(
    channel: Channel,
    settings: Settings,
    *,
    n_jobs: int | None = None,
    progress: Progress = silent,
) -> Training:
    """Grow boosted trees with the parties on the channel."""
    phases, n_threads = Phases(), thread_count(n_jobs)
    with phases.phase("agreeing"):
        schema = agree_on_schema(channel)
    with phases.phase("binning"):
        progress("binning", 0, 0)
        job = _lay_job(channel, schema, settings)
    with phases.phase("growing"):
        boosting = _Boosting(channel, job, n_threads, progress)
        boosting.run()
    with phases.phase("judging"):
        progress("judging", 0, 0)
        quality = _judged(channel, boosting, schema)
    return Training(
        _model(schema, boosting),
        channel.parties,
        tuple(channel.rounds),
        phases.seconds,
        quality,
        None,
        asdict(settings),
        adds_up=boosting.adds_up,
        curves={name: tuple(found) for name, found in boosting.curves.items() if found},
    )


def _lay_job(channel: Channel, schema: Schema, settings: Settings) -> BoostingJob:
    """Count the tables, lay the bins, and find the score before the first tree."""
    directions, together = directions_of(settings, schema), together_of(settings, schema)
    facts, binning = lay_bins(channel, schema, settings)
    loss, target = LOSSES[settings.loss], (0.0, 1.0)
    if facts.classes.size:
        weights = class_weights(settings, facts)
        counts = facts.classes if settings.class_weight is None else _weighted(facts, weights)
    else:
        target = _target_of(schema, settings)
        weights = np.zeros(0)
        counts = channel.sum(TargetsAsk(schema.digest())).sums
        if counts.shape != (2,) or counts[0] < 1:
            raise ProtocolError("A party's sums of targets do not fit the question.")
        if settings.loss == "poisson":
            counts = _from_zero(counts, target)
    return BoostingJob(
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


def _target_of(schema: Schema, settings: Settings) -> tuple[float, float]:
    """Return the declared range of a number; raise if the loss does not fit it."""
    low, high = target_range(schema.label)
    if settings.loss == "poisson" and not 0.0 <= low < high:
        raise SettingError(
            f"loss='poisson' is for counts; the range of the label {schema.label.name!r} goes from "
            f"{low:g} to {high:g}. Declare a range from 0 on, or use loss='squared_error'."
        )
    return low, high


def _from_zero(counts: Integers, target: tuple[float, float]) -> Integers:
    """Return sums of targets that count from the range's begin as sums that count from 0."""
    n, total = (int(count) for count in counts)
    floor = round(target[0] / target[1] * 2**SCORE_BITS)
    steps = 2**SCORE_BITS - 1
    return np.array([n, n * floor + total * (2**SCORE_BITS - floor) // steps], np.int64)


def _weighted(facts: FactsReply, weights: Floats) -> Integers:
    """Return the weight of each class's rows, as whole numbers in proportion."""
    shares: Floats = facts.classes * (weights / weights.max())
    return np.rint(shares * 2.0**20).astype(np.int64)


@dataclass(frozen=True)
class _Before:
    """What is known of the level before."""

    parties: tuple[str, ...] = ()  # whose rows it counts
    above: Above | None = None  # its histograms, if nodes are derived from them


class _Boosting:
    """Batches of trees, one after another."""

    def __init__(
        self, channel: Channel, job: BoostingJob, n_threads: int, progress: Progress
    ) -> None:
        settings = job.settings
        self.job = job
        self.grown: tuple[GrownBatch, ...] = ()
        self.forests: list[Forest] = []
        self.adds_up = True
        self.curves: dict[str, list[float]] = {"training": [], "validation": []}
        self._is_over = False
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
        for number in range(settings.n_batches):
            batch = self.job.batch(number)
            growth = Growth(open_nodes(batch, ()), self._rules, np.zeros(0))
            before = _Before()
            bounds = ValueBounds(self._search, batch.n_trees) if self.job.directions else None
            while growth.frontier.n_open:
                done = number * settings.max_depth + growth.depth
                self._progress("growing", done, settings.n_batches * settings.max_depth)
                before = self._grow_level(growth, before, bounds)
                if self._is_over:
                    return
            self._finish(batch, growth, bounds)

    def _note(self, losses: Integers) -> None:
        """Keep the losses after the batches so far; notice if they no longer fall."""
        if losses.shape != (4,):
            raise ProtocolError("A party's losses do not fit the question.")
        settings, step = self.job.settings, self.job.loss.loss_step
        for at, name in ((0, "training"), (2, "validation")):
            if losses[at] > 0:
                self.curves[name].append(int(losses[at + 1]) / int(losses[at]) * step)
        if not settings.early_stopping:
            return
        if losses[0] <= 0 or losses[2] <= 0:
            raise TableError(
                "early_stopping set all rows apart, or none: the parties hold too few rows for "
                f"validation_fraction={settings.validation_fraction:g}. Turn it off."
            )
        found, n = self.curves["validation"], settings.n_iter_no_change
        self._is_over = len(found) > n and min(found[-n:]) > found[-n - 1] - settings.tol

    def _grow_level(self, growth: Growth, before: _Before, bounds: ValueBounds | None) -> _Before:
        """Grow a level from summed gradients; return what the next one must know of it."""
        frontier, job = growth.frontier, self.job
        width, parts = job.units.width, []
        batches = list(ranges_within(frontier.asked, 8 * width, job.settings.message_limit))
        for first, last in batches:
            ask = GradientsAsk(job, self.grown, growth.levels, first, last)
            reply = self._channel.sum(ask)
            if ask.n_losses:
                self._note(reply.losses)
                if self._is_over:
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
            bounds.go(growth.levels[-1], best)
        kept = Above(frontier.slots, sums, answered) if growth.frontier.derived.any() else None
        return _Before(answered, kept)

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
    n_outputs, unit, low = job.n_outputs, 2.0**-SCORE_BITS, 0.0
    if not job.n_classes:
        low, high = target_range(schema.label)
        unit = (high - low) / (2**SCORE_BITS - 1)
    if job.settings.loss == "poisson":
        unit, low = 2.0**-SCORE_BITS, log_ratio(*high.as_integer_ratio()) * 2.0**-SCORE_BITS
    value = forest.value * unit
    if n_outputs > 1:
        tree = np.repeat(np.arange(forest.n_trees), np.diff(forest.tree_start))
        value = value * (tree[:, None] % n_outputs == np.arange(n_outputs))
    base = low + np.array(job.base, np.float64) * unit
    link = _LINKS[job.settings.loss][n_outputs > 1]
    forest = replace(forest, value=value, moments=np.ascontiguousarray(forest.moments[:, :1]))
    boosted = Boosted(link, base, job.settings.batch_trees)
    return ForestModel(NAME, schema, forest, job.binning.bin_of_category, boosted=boosted)


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
    return {name: quality_of(held, bootstrap=False, step=step) for name, held in counts.items()}
