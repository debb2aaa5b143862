"""Explain the predictions of a finished forest, from counts at the parties that are summed.

Permutation importances (Breiman 2001, section 10): the loss in score if a column's values are
shuffled. A party shuffles among its own rows, by their keys, so the same rows are always shuffled
the same way. Partial dependence (Friedman 2001, section 8.2): the mean prediction with one column
set to a value for all rows. It is summed in fixed point, so the sum over parties equals that of the
pooled rows, bit for bit. There is also the score as trees are added.

**Who learns what.** The coordinator learns, summed over parties, a confusion matrix (or four sums
of errors) for the forest, for each shuffled column and for some numbers of trees, and sums of
predictions for each value asked about. **Who never learns what.** Nobody learns which rows were
scored. Under masks nobody learns one party's counts. Nothing here carries noise: a private job
does not ask it.

One round. Down: the model. Up: 8 bytes for each number above.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.protocols.model import ForestModel
from spinney.seeds import derive_seed, mix
from spinney.tables.table import Table
from spinney.transport.channel import Ask, Channel, Vector
from spinney.transport.messages import kept_beside, message
from spinney.trees.forest import RowValues
from spinney.trees.threads import thread_count
from spinney.typing import Floats, Integers, Keys

NAME = "explaining"
_UNIT = 1 << 20  # fixed-point unit of a predicted share, or of a target's place in its range
_TARGET_STEPS = 65535  # errors are in these steps of the target's range: squares fit 32 bits
_MOST_ROWS = 2000  # the most rows scored at one party
_MOST_ASKS = 1 << 16


@message
class ExplainReply:
    """Counts of one party, or of all."""

    judged: Integers  # (n_cases, width): each case's confusion matrix, or n, error^2, y, y^2
    dependence: Integers  # (n_points, n_outputs), fixed point

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return self.judged, self.dependence

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "ExplainReply":
        """Return the reply with these integers."""
        return cls(*vectors)


@message
class ExplainAsk(Ask[ExplainReply]):
    """How well does the forest predict your rows: as they are, shuffled, and with values set?"""

    model: NDArray[np.uint8]  # the model's file
    shuffled: Integers  # columns
    n_repeats: int
    tree_counts: Integers  # ascending; the last is all trees
    point_column: Integers  # (n_points,)
    point_value: NDArray[np.float32]  # categories by their bin
    seed: int
    reveals: ClassVar[str] = (
        "confusion matrices or error sums with columns shuffled, and sums of predictions"
    )
    reply_type: ClassVar[type[Any]] = ExplainReply

    @kept_beside
    def forest_model(self) -> ForestModel:
        """The model, checked like a model from a file."""
        return ForestModel.from_bytes(self.model.tobytes(), name="the question's model")

    def check(self) -> None:
        """Raise unless the question fits its model; no message is trusted."""
        model = self.forest_model
        n_columns, n_trees = len(model.schema.columns), model.forest.n_trees
        counts = self.tree_counts
        sound = (
            _is_within(self.shuffled, n_columns)
            and _is_within(self.point_column, n_columns)
            and self.point_value.shape == self.point_column.shape
            and not np.isnan(self.point_value).any()
            and 1 <= self.n_repeats <= 100
            and self.shuffled.size * self.n_repeats + self.point_column.size <= _MOST_ASKS
            and counts.size > 0
            and counts[0] >= 1
            and bool(np.all(np.diff(counts) > 0))
            and counts[-1] == n_trees
            and all(
                0 <= value < 256
                for column, value in zip(self.point_column, self.point_value, strict=True)
                if len(model.bin_of_category[column])
            )
        )
        if not sound:
            raise ProtocolError("The question does not fit its model; nothing was answered.")


SUMMED: tuple[type[Ask[Any]], ...] = (ExplainAsk,)


class Party:
    """One organisation's side: it scores a given forest on its own rows."""

    def __init__(self, table: Table, *, n_jobs: int | None = None) -> None:
        self._table = table
        self._n_threads = thread_count(n_jobs)

    def answer(self, ask: Ask[Any]) -> ExplainReply:
        """Answer a question."""
        if not isinstance(ask, ExplainAsk):
            raise ProtocolError(f"A party in {NAME} does not answer {type(ask).__name__}.")
        ask.check()
        model = ask.forest_model
        if model.schema.digest() != self._table.schema.digest():
            raise ProtocolError("The model's schema differs from that of this party's table.")
        rows, target, keys = self._rows(model)
        judge = _Judge(model, target, self._n_threads)
        cases = [*judge.by_trees(rows, ask.tree_counts)]
        for column in ask.shuffled.tolist():
            for repeat in range(ask.n_repeats):
                shuffled = rows.copy()
                order = shuffling(keys, derive_seed(ask.seed, column, repeat))
                shuffled[:, column] = rows[order, column]
                cases.append(judge.counted(judge.predicted(shuffled)))
        points = []
        for column, value in zip(ask.point_column.tolist(), ask.point_value, strict=True):
            changed = rows.copy()
            changed[:, column] = value
            points.append(judge.summed(judge.predicted(changed)))
        sums = np.array(points, np.int64).reshape(len(points), model.n_outputs)
        return ExplainReply(np.array(cases, np.int64), sums)

    def _rows(self, model: ForestModel) -> tuple[RowValues, NDArray[Any], Keys]:
        """Return at most `_MOST_ROWS` rows, evenly spaced, in the form the forest reads."""
        n = self._table.n_rows
        step = max(1, -(-n // _MOST_ROWS))
        values, targets, keys = [], [], []
        first = 0
        for batch in self._table.batches():
            chosen = np.arange(-first % step, len(batch.target), step)
            values.append(batch.values[:, chosen])
            targets.append(batch.target[chosen])
            keys.append(batch.keys[chosen])
            first += len(batch.target)
        if not values:
            empty = np.zeros((0, len(model.schema.columns)), np.float32)
            return empty, np.zeros(0), np.zeros(0, np.uint64)
        rows = model.rows(np.concatenate(values, axis=1))
        return rows, np.concatenate(targets), np.concatenate(keys)


def shuffling(keys: Keys, seed: int) -> Integers:
    """Return which row's value each row gets; it depends on the rows' keys, not their order."""
    order = np.empty(keys.size, np.int64)
    order[np.argsort(keys)] = np.argsort(mix(keys ^ np.uint64(seed)))
    return order


class _Judge:
    """Predicts, and counts how predictions compare with the truth."""

    def __init__(self, model: ForestModel, target: NDArray[Any], n_threads: int) -> None:
        self._model = model
        self._target = target
        self._n_threads = n_threads
        self._low, self._width = _scale(model)

    def predicted(self, rows: RowValues) -> Floats:
        """Return the forest's predictions."""
        out = np.zeros((len(rows), self._model.forest.value.shape[1]))
        self._model.forest.add_predictions(rows, out, n_threads=self._n_threads)
        return self._model.of_sums(out)

    def by_trees(self, rows: RowValues, counts: Integers) -> list[Integers]:
        """Return the counts for growing numbers of the first trees."""
        forest = self._model.forest
        out = np.zeros((len(rows), self._model.forest.value.shape[1]))
        found, before = [], 0
        for n in counts.tolist():
            part = replace(forest, tree_start=forest.tree_start[before : n + 1])
            part.add_predictions(rows, out, n_threads=self._n_threads)
            found.append(self.counted(self._model.of_sums(out, n)))
            before = n
        return found

    def counted(self, means: Floats) -> Integers:
        """Return a confusion matrix, true by predicted; or rows and sums of error^2, y, y^2."""
        classes = self._model.schema.label.classes
        if classes is not None:
            k = len(classes)
            cells = self._target.astype(np.int64) * k + means.argmax(axis=1)
            return np.bincount(cells, minlength=k * k).astype(np.int64)
        truth, guess = self._steps(self._target), self._steps(means[:, 0])
        squares = ((truth - guess) ** 2).sum()
        return np.array([truth.size, squares, truth.sum(), (truth**2).sum()], np.int64)

    def summed(self, means: Floats) -> Integers:
        """Return the sum of predictions in fixed point."""
        shares = (means - self._low) / self._width
        total: Integers = np.rint(shares * _UNIT).astype(np.int64).sum(axis=0)
        return total

    def _steps(self, values: NDArray[Any]) -> Integers:
        within = ((values - self._low) / self._width).clip(0, 1)
        steps: Integers = np.rint(within * _TARGET_STEPS).astype(np.int64)
        return steps


@dataclass(frozen=True)
class Explained:
    """The results that follow from the sums."""

    n_rows: int
    score: str  # "accuracy" or "r2"
    baseline: float
    loss: dict[int, tuple[float, float]]  # by column: mean and spread of the loss by shuffling
    by_trees: tuple[tuple[int, float], ...]
    points: tuple[tuple[int, float, tuple[float, ...]], ...]  # column, value, mean prediction


def explain(channel: Channel, ask: ExplainAsk) -> Explained | None:
    """Ask the parties on the channel and return the results; None if there are no rows."""
    model = ask.forest_model
    reply = channel.sum(ask)
    n_curve = ask.tree_counts.size
    width = 4 if model.schema.label.classes is None else model.n_outputs**2
    n_cases = n_curve + ask.shuffled.size * ask.n_repeats
    shape = (ask.point_column.size, model.n_outputs)
    if reply.judged.shape != (n_cases, width) or reply.dependence.shape != shape:
        raise ProtocolError("The parties' counts do not have the shape asked for.")
    is_class = model.schema.label.kind == "class"
    n_rows = int(reply.judged[0].sum() if is_class else reply.judged[0, 0])
    if not n_rows:
        return None
    scores = [_accuracy(counts) if is_class else _r2(counts) for counts in reply.judged]
    baseline = scores[n_curve - 1]
    shuffled = np.array(scores[n_curve:]).reshape(ask.shuffled.size, ask.n_repeats)
    low, span = _scale(model)
    means = low + reply.dependence / (_UNIT * n_rows) * span
    return Explained(
        n_rows,
        "accuracy" if is_class else "r2",
        baseline,
        {
            column: (float(baseline - found.mean()), float(found.std()))
            for column, found in zip(ask.shuffled.tolist(), shuffled, strict=True)
        },
        tuple(zip(ask.tree_counts.tolist(), scores[:n_curve], strict=True)),
        tuple(
            (column, float(value), tuple(found.tolist()))
            for column, value, found in zip(
                ask.point_column.tolist(), ask.point_value, means, strict=True
            )
        ),
    )


def question_of(
    model: ForestModel,
    *,
    n_shuffled: int = 20,
    n_dependent: int = 8,
    n_repeats: int = 5,
    n_points: int = 12,
    seed: int = 0,
) -> ExplainAsk:
    """Return the question about a model: it covers the columns that lower impurity most."""
    forest = model.forest
    shares = model.importances()
    ranked = [int(c) for c in np.argsort(-shares, kind="stable") if shares[c] > 0]
    points = [(c, v) for c in ranked[:n_dependent] for v in _points(model, c, n_points)]
    counts = {1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, forest.n_trees}
    return ExplainAsk(
        np.frombuffer(model.to_bytes(), np.uint8),
        np.array(ranked[:n_shuffled], np.int64),
        n_repeats,
        np.array(sorted(n for n in counts if n <= forest.n_trees), np.int64),
        np.array([c for c, _ in points], np.int64),
        np.array([v for _, v in points], np.float32),
        seed,
    )


def _points(model: ForestModel, column: int, most: int) -> list[float]:
    """Return the values to set for a column: its bins, or between and beyond the forest's cuts."""
    forest, bins = model.forest, model.bin_of_category[column]
    if len(bins):
        return [float(b) for b in np.unique(bins)[:most]]
    cuts = np.unique(forest.threshold[forest.feature == column]).astype(np.float64)
    cuts = cuts[np.isfinite(cuts)]  # an infinite cut only separates missing values
    if model.schema.columns[column].kind == "boolean":
        return [0.0, 1.0]
    if not cuts.size:
        return [0.0]
    inner = np.unique(np.quantile(cuts, np.linspace(0, 1, most - 1), method="nearest"))
    beyond = cuts[-1] + ((cuts[-1] - cuts[0]) / most or max(1.0, abs(cuts[-1])))
    declared = model.schema.columns[column].range
    if model.schema.names[column] in model.undeclared.ranges:
        declared = None  # its end is a cell of a row
    if declared is not None and declared[1] > cuts[-1]:
        beyond = min(beyond, declared[1])
    return [*inner.tolist(), float(beyond)]


def _is_within(columns: Integers, n_columns: int) -> bool:
    return columns.ndim == 1 and bool(np.all((columns >= 0) & (columns < n_columns)))


def _scale(model: ForestModel) -> tuple[float, float]:
    """Return the lowest prediction and the width of the range of predictions."""
    label = model.schema.label
    if label.kind == "class":
        return 0.0, 1.0
    if label.range is None:
        raise ProtocolError("The label has no range, so its errors cannot be summed. Declare one.")
    low, high = label.range
    return low, (high - low) or 1.0


def _accuracy(counts: Integers) -> float:
    k = int(np.sqrt(counts.size))
    return float(np.trace(counts.reshape(k, k)) / counts.sum())


def _r2(counts: Integers) -> float:
    n, squares, total, total_squares = (int(count) for count in counts)
    spread = total_squares - total * total / n
    return 1.0 - squares / spread if spread > 0 else 0.0
