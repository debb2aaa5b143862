"""The last round: how well does the finished forest predict at each party?

This round is the same for every horizontal protocol. A protocol that asks it says so in its own
"who learns what"; under masks only the sum over parties is opened.

**Who learns what.** The coordinator learns a confusion matrix, or error sums, of each party's own
rows. **Who never learns what.** Nobody learns which rows were scored, or the result of any of them.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.levels import BinnedRows, GrowingJob, open_nodes
from spinney.protocols.training import Quality, majorities
from spinney.transport.channel import Ask, Channel, Vector
from spinney.transport.messages import kept_beside, message
from spinney.trees.binning import BinnedTable, Binning
from spinney.trees.counts import Counts
from spinney.trees.forest import Forest, RowValues
from spinney.trees.frontier import tree_keys
from spinney.trees.growth import Growth
from spinney.trees.layout import LeafValues, forest_of_leaves
from spinney.trees.level import Level, splits_only
from spinney.trees.rows import bootstrap_weights
from spinney.typing import Bools, Floats, Integers, Keys, Values

_CHUNK = 8192


@message
class QualityReply:
    """Counts from which a forest's scores at one party follow."""

    counts: Integers  # (n_classes, n_classes) true by predicted; or (4,) n, error^2, y, y^2

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return (self.counts,)

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "QualityReply":
        """Return the reply with these integers."""
        return cls(vectors[0])


def judge_forest(
    table: BinnedTable,
    binning: Binning,
    forest: Forest,
    tree_keys: Keys,
    *,
    most_rows: int | None,
    place: tuple[int, int] | None = None,
    bootstrap: bool,
    drop_bits: int,
    n_classes: int,
    n_threads: int,
) -> QualityReply:
    """Score a forest on at most `most_rows` rows, evenly spaced; on all rows if None.

    `drop_bits` is how many low bits targets lose before they are squared. If the rows are a part of
    a table, `place` says where they begin and how many rows that has.
    """
    chosen = _judged(table.n_rows, most_rows, place)
    n = chosen.size
    counts = np.zeros((n_classes, n_classes) if n_classes else 4, np.int64)
    asked = np.unique(forest.feature[forest.feature >= 0]).astype(np.int64)
    for first in range(0, n, _CHUNK):
        part = chosen[first : first + _CHUNK]
        rows = row_values(table, binning, part, asked)
        seen = seen_by(tree_keys, table.keys[part], bootstrap=bootstrap)
        out = np.zeros((part.size, forest.value.shape[1]))
        forest.add_predictions(rows, out, seen=seen if bootstrap else None, n_threads=n_threads)
        n_judges = np.full(part.size, forest.n_trees) - seen.sum(axis=1)
        counts += count_judged(table.target[part], out, n_judges, n_classes, drop_bits)
    return QualityReply(counts)


def _judged(n_rows: int, most_rows: int | None, place: tuple[int, int] | None) -> Integers:
    """Return which rows are scored; those of all parts together are spaced evenly."""
    first, whole = place or (0, n_rows)
    n = whole if most_rows is None else min(most_rows, whole)
    spaced = np.linspace(0, whole - 1, n).astype(np.int64) if n else np.zeros(0, np.int64)
    return spaced[(spaced >= first) & (spaced < first + n_rows)] - first


def row_values(
    table: BinnedTable, binning: Binning, chosen: Integers, asked: Integers | None = None
) -> RowValues:
    """Return one value per cell; for a forest any number in the cell's bin is equivalent.

    Only the `asked` columns are filled, if they are named: few trees ask for few of thousands.
    """
    if asked is None or 2 * asked.size > table.n_columns:
        return _in_bins(table.rows(chosen), binning, np.arange(table.n_columns))
    found = _in_bins(table.rows(chosen, asked), binning, asked)
    rows = np.zeros((chosen.size, table.n_columns), found.dtype)
    rows[:, asked] = found
    return rows


def _in_bins(codes: NDArray[Any], binning: Binning, columns: Integers) -> RowValues:
    """Return a value in the bin of each cell of some columns."""
    if binning.adaptive_bins:
        return codes
    # a code holds values up to its edge; the last one has no edge
    of_cells = np.tile(columns.astype(np.int32), len(codes))
    rows: RowValues = binning.thresholds(of_cells, codes.ravel()).reshape(codes.shape)
    categories = binning.columns.is_category[columns]
    rows[:, categories] = codes[:, categories]
    rows[codes == np.iinfo(codes.dtype).max] = np.nan
    return rows


def seen_by(tree_keys: Keys, row_keys: Keys, *, bootstrap: bool) -> Bools:
    """Return which trees have drawn which rows, (n_rows, n_trees)."""
    if not bootstrap:
        return np.zeros((row_keys.size, tree_keys.size), np.bool_)
    seen = np.empty((row_keys.size, tree_keys.size), np.bool_)
    for tree, key in enumerate(tree_keys):
        seen[:, tree] = bootstrap_weights(key, row_keys) > 0
    return seen


def out_of_bag(
    model: ForestModel, values: Values, row_keys: Keys, seed: int, *, n_threads: int = 1
) -> Floats:
    """Return the mean over the trees that have not drawn a row; NaN if all have drawn it."""
    forest = model.forest
    seen = seen_by(tree_keys(seed, forest.n_trees), row_keys, bootstrap=True)
    out: Floats = np.zeros((row_keys.size, forest.value.shape[1]))
    forest.add_predictions(model.rows(values), out, seen=seen, n_threads=n_threads)
    with np.errstate(invalid="ignore"):
        found: Floats = out / (~seen).sum(axis=1, keepdims=True)
    return found


def count_judged(
    target: NDArray[Any], out: Floats, n_judges: Integers, n_classes: int, drop_bits: int
) -> Integers:
    """Compare summed predictions of some trees with the rows' targets, as counts."""
    known = n_judges > 0
    truth = target[known].astype(np.int64)
    if n_classes:
        return _confusion(truth, out[known].argmax(axis=1), n_classes)
    guess = np.rint(out[known, 0] / n_judges[known]).astype(np.int64)
    return _error_sums(truth >> drop_bits, guess >> drop_bits)


def _confusion(truth: Integers, guess: Integers, n_classes: int) -> Integers:
    cells = np.bincount(truth * n_classes + guess, minlength=n_classes**2)
    return cells.reshape(n_classes, n_classes).astype(np.int64)


def _error_sums(truth: Integers, guess: Integers) -> Integers:
    squares = ((truth - guess) ** 2).sum()
    return np.array([truth.size, squares, truth.sum(), (truth**2).sum()], np.int64)


def quality_of(counts: Integers, *, bootstrap: bool, step: float) -> Quality:
    """Return the scores that follow from the counts; `step` is the sums' step in target units."""
    rows = "out-of-bag" if bootstrap else "training"
    if counts.ndim == 2:
        n = int(counts.sum())
        return Quality(rows, n, _class_scores(counts) if n else {})
    n, squares, total, total_squares = (int(count) for count in counts)
    if not n:
        return Quality(rows, 0, {})
    spread = (n * total_squares - total * total) / n  # integer arithmetic first: no cancellation
    r2 = 1.0 - squares / spread if spread > 0 else float("nan")
    return Quality(rows, n, {"r2": r2, "rmse": float(np.sqrt(squares / n) * step)})


def _class_scores(confusion: Integers) -> dict[str, float]:
    hits = np.diag(confusion)
    size = confusion.sum(axis=0) + confusion.sum(axis=1)
    f1 = np.divide(2 * hits, size, out=np.zeros(hits.size), where=size > 0)
    held = size > 0
    binary = confusion.shape[0] == 2
    return {
        "accuracy": float(hits.sum() / confusion.sum()),
        "f1": float(f1[1] if binary else f1[held].mean()),
    }


def with_majorities(
    quality: Mapping[str, Quality], confusions: Mapping[str, Integers]
) -> dict[str, Quality]:
    """Return the qualities of parties with the shares of their most common classes."""
    if any(counts.ndim < 2 for counts in confusions.values()):
        return dict(quality)
    classes = {name: counts.sum(axis=1) for name, counts in confusions.items()}
    found = majorities(classes)
    return {
        name: replace(one, scores={**one.scores, **found[name]}) for name, one in quality.items()
    }


_QUALITY_ROWS = 2048  # rows that a party scores the forest on, unless it must use all


@message
class QualityAsk(Ask[QualityReply]):
    """How well does the finished forest predict your rows?"""

    job: GrowingJob
    levels: tuple[Level, ...]
    leaf_moments: Counts
    class_weight: Floats  # empty for regression: the forest then predicts fixed-point targets
    reveals: ClassVar[str] = "a confusion matrix, or error sums, over own rows"
    reply_type: ClassVar[type[Any]] = QualityReply

    @property
    def story(self) -> tuple[Level, ...]:
        """The levels of the finished forest."""
        return splits_only(self.levels)

    @kept_beside
    def forest(self) -> Forest:
        """The finished forest."""
        n_trees = self.job.settings.n_estimators
        n_leaves = n_trees + sum(int((level.feature >= 0).sum()) for level in self.levels)
        shape = (n_leaves, self.job.n_classes or 2)
        open_nodes(self.job, self.levels)  # raises if a level does not fit
        if self.leaf_moments.counters.shape != shape or self.class_weight.shape != (
            self.job.n_classes,
        ):
            raise ProtocolError("The question's leaves do not fit its forest.")
        return forest_of_leaves(
            self.job.settings.n_estimators,
            self.levels,
            self.leaf_moments.counters,
            self.job.binning,
            LeafValues(self.class_weight, bits=self.job.target_bits),
        )


def dropped_bits(target_bits: int, n_rows: int) -> int:
    """Return how many low bits targets must lose so that squares over all rows can be summed."""
    return max(0, target_bits - (62 - n_rows.bit_length()) // 2)


def answer_quality(ask: QualityAsk, rows: BinnedRows, n_threads: int) -> QualityReply:
    """Score the forest on a party's rows."""
    settings, forest = ask.job.settings, ask.forest
    rows.forget_standing()
    return judge_forest(
        rows.binned(ask.job),
        ask.job.binning,
        forest,
        tree_keys(settings.seed, settings.n_estimators),
        most_rows=None if settings.oob_score else _QUALITY_ROWS,
        place=rows.table.place,
        bootstrap=settings.bootstrap,
        drop_bits=dropped_bits(ask.job.target_bits, ask.job.n_rows),
        n_classes=ask.job.n_classes,
        n_threads=n_threads,
    )


def quality_over_parties(
    channel: Channel, job: GrowingJob, growth: Growth, values: LeafValues
) -> tuple[dict[str, Quality], float | None]:
    """Return the forest's quality at each party, and its first score over all of them."""
    ask = QualityAsk(job, growth.levels, growth.leaf_moments, values.class_weight)
    if channel.is_masked:  # a party's own counts would show what masks hide
        counts = {"all parties": channel.sum(ask).counts}
    else:
        counts = {name: reply.counts for name, reply in channel.ask(ask).items()}
    step = values.step * 2.0 ** dropped_bits(job.target_bits, job.n_rows)
    how: dict[str, Any] = {"bootstrap": job.settings.bootstrap, "step": step}
    pooled = quality_of(np.sum(list(counts.values()), axis=0), **how)
    quality = {name: quality_of(held, **how) for name, held in counts.items()}
    quality = with_majorities(quality, counts)
    if job.terms:  # scored on perturbed rows: the true rows would cost budget
        quality = {name: replace(q, rows=f"{q.rows}, perturbed") for name, q in quality.items()}
    return quality, next(iter(pooled.scores.values()), None)
