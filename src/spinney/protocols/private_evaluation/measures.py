"""How good a model is, from the noisy histograms of an evaluation."""

from itertools import pairwise
from math import inf, sqrt
from typing import Final

import msgspec
import numpy as np

from spinney.protocols.private_evaluation.cells import ERRORS, MATRICES, SCORES, Cells
from spinney.protocols.private_evaluation.estimates import (
    Error,
    Measured,
    Noisy,
    above_zero,
    area,
    in_unit,
    quotient,
    ratio,
    rows_in,
    share,
)
from spinney.typing import Floats

__all__ = ["CalibrationPoint", "Measured", "Noisy", "PartQuality", "PrivateQuality", "qualities_of"]

_POINTS: Final = 10  # of a calibration curve, at most


class CalibrationPoint(msgspec.Struct, frozen=True):
    """Rows with similar scores: their mean score, and the share of them that is of the class."""

    score: float
    share: Measured
    rows: float


class PartQuality(msgspec.Struct, frozen=True):
    """The quality on some of the rows: of all parties, of one, or of a subgroup.

    A measure that the noise hides, because there may be no rows behind it, is left out and named
    in `unknown`.
    """

    of: str
    measures: dict[str, Measured]
    unknown: tuple[str, ...] = ()
    confusion: tuple[tuple[float, ...], ...] = ()  # true by predicted, with noise
    calibration: tuple[CalibrationPoint, ...] = ()  # of the second class, or of all classes


class PrivateQuality(msgspec.Struct, frozen=True):
    """How good a model is, measured with noise."""

    rows: str  # which rows: "held-out", "training", "given" or "cross-validated"
    epsilon: str  # what it cost, exact
    classes: tuple[str, ...]
    parts: tuple[PartQuality, ...]
    n_folds: int = 1

    def __str__(self) -> str:
        lines = [f"quality of {self.rows} rows, with noise of epsilon {self.epsilon}"]
        for part in self.parts:
            lines.append(f"  {part.of}")
            lines += [
                f"    {name:<14} {m.value:.4f}   95 %: {m.low:.4f} to {m.high:.4f}"
                for name, m in part.measures.items()
            ]
            if part.unknown:
                lines.append(f"    too few rows for this noise: {', '.join(part.unknown)}")
        return "\n".join(lines)

    def in_short(self) -> str:
        """Return the first measures over all parties, in one line."""
        found = list(self.parts[0].measures.items())[1:3]
        told = ", ".join(f"{name} {m.value:.3f} ({m.low:.3f} to {m.high:.3f})" for name, m in found)
        on = f"{self.rows} rows, with noise of epsilon {self.epsilon}"
        return f"{told or 'nothing can be told'} on {on}"

    def measured(self, name: str, of: str = "all parties") -> Measured:
        """Return a measure of a part, by their names; raise `KeyError` if it is not known."""
        return next(part.measures for part in self.parts if part.of == of)[name]


def qualities_of(cells: Cells, noisy: tuple[Noisy, ...], of: str) -> list[PartQuality]:
    """Return the quality on all counted rows, and on each subgroup of them."""
    by_name = {one.what: one for one in noisy}
    names = cells.groups.names
    named = [(f"{of}, {name}" if of != "all parties" else name) for name in names]
    if ERRORS in by_name:
        errors = by_name[ERRORS]
        found = [_of_numbers(cells, errors, np.ones(len(names)), of)]
        if len(names) > 1:
            lines = np.eye(len(names))
            found += [_of_numbers(cells, errors, lines[i], n) for i, n in enumerate(named)]
        return found
    found = [_of_classes(cells, by_name[SCORES], by_name.get(MATRICES), of)]
    if len(names) > 1:
        matrices = by_name[MATRICES]
        found += [_of_group(matrices.part(matrices.counts[i]), n) for i, n in enumerate(named)]
    return found


def _of_numbers(cells: Cells, errors: Noisy, groups: Floats, of: str) -> PartQuality:
    """Return the errors of predicted numbers; within a bin they are taken as spread evenly."""
    assert cells.schema.label.range is not None
    low, high = cells.schema.label.range
    ends = np.concatenate([[0.0], cells.edges[0], [high - low]])
    a, b = ends[:-1], ends[1:]
    used = groups[:, None] * np.ones(a.size)
    rows = rows_in(errors.counts[used > 0], errors)
    mae = quotient(used * (a + b) / 2, used, errors)
    mse = quotient(used * _mean_square(a, b), used, errors)
    if mae is None or mse is None:
        return PartQuality(of, {"rows": rows}, ("mae", "rmse"))
    rmse = Measured(*(round(sqrt(x), 6) for x in (mse.value, mse.low, mse.high)))
    return PartQuality(of, {"rows": rows, "mae": mae, "rmse": rmse})


def _of_classes(cells: Cells, scores: Noisy, matrices: Noisy | None, of: str) -> PartQuality:
    counted_apart = matrices is not None and cells.n_classes > 2
    if matrices is None or not counted_apart:
        half = int(np.searchsorted(cells.edges[0], 0.5)) + 1  # the first bin above one half
        sides = np.split(scores.counts[0], [half], axis=1)
        confusion = np.stack([side.sum(axis=1) for side in sides], axis=1)
        guess = np.arange(scores.counts.shape[2]) >= half
        right = np.stack([~guess, guess]).astype(np.float64)[None]
        accuracy = share(right, np.ones_like(right), scores)
        rows = rows_in(scores.counts, scores)
    else:
        confusion = matrices.counts.sum(axis=0)
        right = np.broadcast_to(np.eye(cells.n_classes), matrices.counts.shape)
        accuracy = share(right, np.ones_like(right), matrices)
        rows = rows_in(matrices.counts, matrices)
    found = {
        "accuracy": accuracy,
        "auc": _mean_area(cells, scores),
        "log_loss": _log_loss(cells, scores),
        "brier": _brier(cells, scores, rows.value if counted_apart else inf),
    }
    return PartQuality(
        of,
        {"rows": rows, **{name: m for name, m in found.items() if m is not None}},
        tuple(name for name, m in found.items() if m is None),
        tuple(tuple(float(x) for x in line) for line in confusion),
        _calibration(cells, scores),
    )


def _of_group(matrix: Noisy, of: str) -> PartQuality:
    """Return the rates of a subgroup, from its confusion matrix."""
    k = matrix.counts.shape[0]
    all_cells, right = np.ones((k, k)), np.eye(k)
    found: dict[str, Measured | None] = {"accuracy": share(right, all_cells, matrix)}
    if k == 2:
        of_second = np.array([[0.0, 0.0], [1.0, 1.0]])
        found["base rate"] = share(of_second, all_cells, matrix)
        found["predicted rate"] = share(of_second.T, all_cells, matrix)
        found["true positives"] = share(of_second * of_second.T, of_second, matrix)
        of_first = 1 - of_second
        found["false positives"] = share(of_first * of_second.T, of_first, matrix)
    return PartQuality(
        of,
        {
            "rows": rows_in(matrix.counts, matrix),
            **{name: m for name, m in found.items() if m is not None},
        },
        tuple(name for name, m in found.items() if m is None),
        tuple(tuple(float(x) for x in line) for line in matrix.counts),
    )


def _mean_area(cells: Cells, scores: Noisy) -> Measured | None:
    """Return the AUC, or its mean over the classes, each against the others."""
    widths = [b - a for a, b in map(_ends, cells.edges)]
    areas = [area(*one, scores) for one in zip(scores.counts, widths, strict=True)]
    known = [found for found in areas if found is not None]
    n = len(known)
    if n < len(areas):  # a mean over some classes would be of another kind
        return None
    if n == 1:
        return known[0].measured
    error = Error.added([one.error.times(1 / n) for one in known])
    return in_unit(sum(one.value for one in known) / n, error)


def _log_loss(cells: Cells, scores: Noisy) -> Measured | None:
    """Return the mean of minus the logarithm of the true class's score."""
    cost, used = np.zeros(scores.counts.shape), np.zeros(scores.counts.shape)
    hidden = 0.0
    for place, edges in enumerate(cells.edges):
        a, b = _ends(edges)
        cost[place, 1], used[place, 1] = _mean_surprise(a, b), 1.0
        part, own = _parts(scores.counts[place])
        middle = (a + b) / 2
        slope, bend = -own / middle, own / middle**2
        if cells.n_classes == 2:  # the first class's score is what the second's leaves
            cost[place, 0], used[place, 0] = _mean_surprise(1 - b, 1 - a), 1.0
            slope, bend = slope + (1 - own) / (1 - middle), bend + (1 - own) / (1 - middle) ** 2
        hidden += _hidden(part, slope, bend, b - a)
    return quotient(cost, used, scores, hidden)


def _brier(cells: Cells, scores: Noisy, known: float) -> Measured | None:
    """Return the mean squared error of the second class's score, or its sum over classes.

    `known` is the number of rows by other noise.
    """
    parts = []
    for place, edges in enumerate(cells.edges):
        a, b = _ends(edges)
        cost = np.stack([_mean_square(a, b), _mean_square(1 - b, 1 - a)])
        part = scores.part(scores.counts[place])
        if not part.is_enough(part.counts, known):
            return None
        rows, own = _parts(part.counts)
        hidden = _hidden(rows, (a + b) - 2 * own, np.full(a.size, 2.0), b - a)
        if len(cells.edges) == 1:
            return quotient(cost, np.ones_like(cost), part, hidden)
        found = ratio(cost, np.ones_like(cost), part)
        if found is None:
            return None
        value, error = found
        parts.append((value, Error(error.sampling + hidden**2, error.noise, error.cumulant)))
    return above_zero(sum(value for value, _ in parts), Error.added([e for _, e in parts]))


def _parts(counts: Floats) -> tuple[Floats, Floats]:
    """Return each bin's part of all rows, and which part of it is of this class."""
    rows = np.maximum(counts.sum(axis=0), 0.0)
    own = np.minimum(np.maximum(counts[1], 0.0) / np.maximum(rows, 1.0), 1.0)
    return rows / max(float(rows.sum()), 1.0), own


def _hidden(part: Floats, slope: Floats, bend: Floats, width: Floats) -> float:
    """Return by how much a mean cost may err because scores are not spread evenly in their bins.

    If their density grows from nothing over a bin, their mean is off by a sixth of its width, and
    always to the same side; their spread is off by half of an even one. Two standard deviations.
    """
    off = np.abs(slope) * width / 6 + np.abs(bend) / 2 * width**2 / 24
    return float((part * off).sum() / 2)


def _calibration(cells: Cells, scores: Noisy) -> tuple[CalibrationPoint, ...]:
    """Return the shares of rows by score; neighbouring bins are joined until they hold enough."""
    middle = np.concatenate([(a + b) / 2 for a, b in map(_ends, cells.edges)])
    counts = scores.counts.transpose(1, 0, 2).reshape(2, -1)
    order = np.argsort(middle, kind="stable")
    middle, counts = middle[order], counts[:, order]
    ends, least = [0], counts.sum() / _POINTS
    for last in range(1, middle.size + 1):
        part = counts[:, ends[-1] : last]
        if part.sum() >= least and scores.is_enough(part):
            ends.append(last)
    ends[-1] = middle.size if len(ends) > 1 else 0  # the last point takes what is left
    return tuple(
        _point(middle[first:last], scores.part(counts[:, first:last]))
        for first, last in pairwise(ends)
        if scores.is_enough(counts[:, first:last])
    )


def _point(middle: Floats, part: Noisy) -> CalibrationPoint:
    own = np.stack([np.zeros(middle.size), np.ones(middle.size)])
    found = share(own, np.ones_like(own), part)
    assert found is not None  # it is enough
    rows = np.maximum(part.counts.sum(axis=0), 0.0)
    score = float(np.average(middle, weights=rows))
    return CalibrationPoint(round(score, 4), found, float(part.counts.sum()))


def _ends(edges: Floats) -> tuple[Floats, Floats]:
    ends = np.concatenate([[0.0], edges, [1.0]])
    return ends[:-1], ends[1:]


def _mean_surprise(a: Floats, b: Floats) -> Floats:
    """Return the mean of -log(x) over a < x < b."""
    low = np.where(a > 0, a * np.log(np.where(a > 0, a, 1.0)), 0.0)
    mean: Floats = 1 - (b * np.log(b) - low) / (b - a)
    return mean


def _mean_square(a: Floats, b: Floats) -> Floats:
    """Return the mean of x**2 over a < x < b."""
    mean: Floats = (a * a + a * b + b * b) / 3
    return mean
