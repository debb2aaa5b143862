"""What is counted: the histograms of an evaluation, and a party's exact counts.

Which cells there are follows from the model and the settings alone. Half of the edges of a score's
bins divide 0 to 1 equally, so that 1/2 is one of them and predictions follow from scores. The
other half lie where the model's scores probably do: at the means, over its trees, of the quantiles
of its leaves' values. A forest's scores are less spread than that, since its trees differ, so
these edges enclose them. Boosted trees add up, so their mean and spread do (`_boosted_quantiles`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError
from spinney.protocols.model import Boosted, ForestModel
from spinney.protocols.private_evaluation.settings import Settings, fold_of
from spinney.tables.schema import Schema
from spinney.tables.table import Batch, Table
from spinney.typing import Floats, Integers

_BINS: Final = 20  # of scores; tests/statistical/test_evaluation_coverage.py
_ERROR_BINS: Final = 36
SCORES: Final = "rows by class and score"
MATRICES: Final = "rows by class and prediction"
ERRORS: Final = "rows by absolute error"


@dataclass(frozen=True)
class Histogram:
    """One release: its shape, in how many cells a record is, and its share of epsilon."""

    what: str
    shape: tuple[int, ...]
    per_record: int
    share: Fraction

    @property
    def n_cells(self) -> int:
        """How many counters it has."""
        return int(np.prod(self.shape))


@dataclass(frozen=True)
class Subgroups:
    """The subgroups of rows: the categories of one column, or all rows."""

    column: int | None
    names: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, by: str | None) -> "Subgroups":
        """Return the subgroups by a column; raise unless its categories are declared."""
        if by is None:
            return cls(None, ("",))
        if by not in schema.names:
            raise SettingError(
                f"by = {by!r} names no column of the model. Its columns are: "
                f"{', '.join(schema.names)}."
            )
        column = schema.columns[schema.names.index(by)]
        if column.kind == "boolean":
            values: tuple[str, ...] = ("no", "yes")
        elif column.kind == "category" and column.categories:
            values = tuple(map(str, column.categories))
        else:
            raise SettingError(
                f"by = {by!r} is a {column.kind}, and subgroups are the declared categories of a "
                "column. Name a column of kind 'category' or 'boolean'."
            )
        names = tuple(f"{by} = {value}" for value in (*values, "missing"))
        return cls(schema.names.index(by), names)

    def of_rows(self, batch: Batch) -> Integers:
        """Return each row's subgroup."""
        if self.column is None:
            return np.zeros(batch.target.size, np.int64)
        values = batch.values[self.column]
        return np.where(np.isnan(values), len(self.names) - 1, values).astype(np.int64)


@dataclass(frozen=True)
class Cells:
    """The histograms of an evaluation."""

    settings: Settings
    schema: Schema
    groups: Subgroups
    edges: tuple[Floats, ...]  # the inner edges of the bins, of every scored class

    @classmethod
    def of(cls, models: tuple[ForestModel, ...], settings: Settings) -> "Cells":
        """Return the histograms for a model, or for one of each fold; raise if it has none."""
        schema = models[0].schema
        if any(model.owners for model in models):
            raise SettingError(
                "In this model every party has its own tree, so there is no common prediction to "
                "evaluate. Each party can evaluate its own: spinney model predict."
            )
        if any(model.schema.digest() != schema.digest() for model in models):
            raise SettingError("The folds' models have different schemas. Train them with one.")
        if (schema.label.kind == "class") != (settings.task == "classification"):
            raise SettingError(f"The model does not predict for task = {settings.task!r}.")
        groups = Subgroups.of(schema, settings.by)
        if schema.label.kind != "class":
            if schema.label.range is None:
                raise SettingError(
                    f"The label {schema.label.name!r} declares no range, so one record could "
                    "change an error without limit. Declare its range in the schema."
                )
            low, high = schema.label.range
            inner = (np.arange(1, _ERROR_BINS) / _ERROR_BINS) ** 2 * (high - low)
            return cls(settings, schema, groups, (inner,))
        scored = range(1, 2) if models[0].n_outputs == 2 else range(models[0].n_outputs)
        return cls(settings, schema, groups, tuple(_edges(models, one) for one in scored))

    @property
    def n_classes(self) -> int:
        """How many classes there are; 0 for numbers."""
        return len(self.schema.label.classes or ())

    @property
    def scored(self) -> range:
        """The classes whose scores are counted: of two, the second's are enough."""
        return range(1, 2) if self.n_classes == 2 else range(self.n_classes)

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        """What is released, in the order of the reply."""
        k, n_groups = self.n_classes, len(self.groups.names)
        if not k:
            return (Histogram(ERRORS, (n_groups, _ERROR_BINS), 1, Fraction(1)),)
        n_scored = len(self.edges)
        has_matrices = k > 2 or n_groups > 1
        share = Fraction(1, 2) if has_matrices else Fraction(1)
        scores = Histogram(SCORES, (n_scored, 2, _BINS), n_scored, share)
        if not has_matrices:
            return (scores,)
        return (scores, Histogram(MATRICES, (n_groups, k, k), 1, share))

    def count(
        self, models: tuple[ForestModel, ...], table: Table, n_threads: int
    ) -> tuple[Integers, ...]:
        """Count a party's rows; the counts are exact and must not leave it."""
        found = tuple(np.zeros(one.shape, np.int64) for one in self.histograms)
        for batch in table.batches():
            parts = self.counted(batch, self._predicted(models, batch, n_threads))
            for total, part in zip(found, parts, strict=True):
                np.add(total, part, out=total)
        return found

    def _predicted(self, models: tuple[ForestModel, ...], batch: Batch, n_threads: int) -> Floats:
        """Return each row's prediction by the model of its fold."""
        out = np.zeros((batch.target.size, models[0].n_outputs))
        if len(models) == 1:
            fold = np.zeros(batch.target.size, np.int64)
        else:
            fold = fold_of(batch, len(models), self.settings.seed)
        for number, model in enumerate(models):
            rows = np.flatnonzero(fold == number)
            values = np.ascontiguousarray(batch.values[:, rows])
            (out[rows],) = model.predict_batches(iter([values]), n_threads=n_threads)
        return out

    def counted(self, batch: Batch, means: Floats) -> list[Integers]:
        """Count some rows, given their predictions."""
        group = self.groups.of_rows(batch)
        if not self.n_classes:
            return [self._errors(batch.target, means[:, 0], group)]
        truth = batch.target.astype(np.int64)
        scores = np.stack(
            [
                _counts((truth == one, np.searchsorted(edges, means[:, one])), (2, _BINS))
                for one, edges in zip(self.scored, self.edges, strict=True)
            ]
        )
        if len(self.histograms) == 1:
            return [scores]
        k = self.n_classes
        places = (group, truth, means.argmax(axis=1))
        return [scores, _counts(places, (len(self.groups.names), k, k))]

    def _errors(self, target: NDArray[np.float64], guess: Floats, group: Integers) -> Integers:
        assert self.schema.label.range is not None
        low, high = self.schema.label.range
        error = np.abs(np.clip(target, low, high) - np.clip(guess, low, high))
        places = (group, np.searchsorted(self.edges[0], error))
        return _counts(places, (len(self.groups.names), _ERROR_BINS))


def _counts(
    places: tuple[NDArray[np.integer] | NDArray[np.bool_], ...], shape: tuple[int, ...]
) -> Integers:
    flat = np.ravel_multi_index(tuple(place.astype(np.int64) for place in places), shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(np.int64)


def _edges(models: tuple[ForestModel, ...], output: int) -> Floats:
    """Return the inner edges of the bins of one class's score."""
    half = _BINS // 2
    equal = np.arange(1, half) / half
    at = np.arange(1, half + 1) / (half + 1)
    spread = np.mean([_quantiles(model, output, at) for model in models], axis=0)
    edges = np.unique(np.concatenate([equal, np.clip(np.round(spread, 6), 1e-6, 1 - 1e-6)]))
    while edges.size < _BINS - 1:  # some were equal: divide the widest bin
        ends = np.concatenate([[0.0], edges, [1.0]])
        widest = int(np.argmax(np.diff(ends)))
        edges = np.insert(edges, widest, (ends[widest] + ends[widest + 1]) / 2)
    return edges


def _quantiles(model: ForestModel, output: int, at: Floats) -> Floats:
    """Return the means over the trees of the quantiles of their leaves' values."""
    if model.boosted is not None:
        return _boosted_quantiles(model, model.boosted, output, at)
    total = np.zeros(at.size)
    for _, values, rows in _leaves_by_tree(model):
        held = values[:, output]
        order = np.argsort(held, kind="stable")
        below = np.cumsum(rows[order]) / rows.sum()
        total += held[order][np.minimum(np.searchsorted(below, at), order.size - 1)]
    return total / model.forest.n_trees


def _boosted_quantiles(model: ForestModel, boosted: Boosted, output: int, at: Floats) -> Floats:
    """Return about the quantiles of a class's share, of trees that are added up.

    As if scores had a normal law, columns said something of their own each, and all trees that
    begin with a column said the same.
    """
    middle = np.zeros(boosted.base.size)
    spread = np.zeros((len(model.schema.columns), middle.size))
    for column, values, rows in _leaves_by_tree(model):
        share = rows[:, None] / rows.sum()
        mean = (share * values).sum(axis=0)
        middle += mean
        spread[column] += np.sqrt((share * (values - mean) ** 2).sum(axis=0))
    scores = np.repeat(middle[None], at.size, axis=0)
    own = min(output, middle.size - 1)  # of two classes, the second has the score
    far = np.array([NormalDist().inv_cdf(float(share)) for share in at])
    scores[:, own] += far * float(np.sqrt((spread[:, own] ** 2).sum()))
    found: Floats = boosted.predicted(scores)[:, output]
    return found


def _leaves_by_tree(model: ForestModel) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield of each tree the column of its root, its leaves' values, and about how many rows."""
    forest = model.forest
    for first, last in zip(forest.tree_start[:-1], forest.tree_start[1:], strict=True):
        leaf = first + np.flatnonzero(forest.feature[first:last] < 0)
        rows = np.maximum(forest.moments[leaf].sum(axis=1), 0) + 1e-9
        yield max(int(forest.feature[first]), 0), forest.value[leaf], rows
