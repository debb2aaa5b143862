"""Counts of the parties' tables, from which bins and class weights follow.

This is the same for every horizontal protocol: a party counts its table in one pass, the channel
sums the counts, and the coordinator lays the bins.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError, SettingError, TableError
from spinney.protocols.settings import PrivacySettings
from spinney.tables.schema import Label, Schema
from spinney.tables.table import Batch, Table
from spinney.transport.channel import Vector
from spinney.transport.messages import message
from spinney.trees.binning import (
    BinnedTable,
    Binning,
    Edges,
    category_bins,
    declared_range,
    equal_width,
)
from spinney.trees.counts import Counts
from spinney.trees.dtypes import MAX_CLASSES
from spinney.trees.layout import LeafValues
from spinney.trees.magnitudes import magnitude_edges
from spinney.trees.quantiles import LEAD_BITS, leading_counts
from spinney.typing import Floats, Integers, Keys, Values

_NO_EDGES: Edges = np.zeros(0, np.float32)
_NO_BINS = np.zeros(0, np.uint8)
_LEAST_WEIGHT = 1e-100  # the smallest class weight above 0


@message
class FactsReply:
    """Counts of a table: rows, classes, missing values, categories, numbers by leading bits."""

    n_rows: Integers  # (1,)
    classes: Integers  # (n_classes,) empty for regression
    missing: Integers  # (n_columns,)
    categories: Integers  # all categories of all category columns, one after another
    leading: Counts  # (n_columns * 4096, 1), empty unless quantiles are wanted

    def vectors(self) -> tuple[Vector, ...]:
        """Return its integers."""
        return self.n_rows, self.classes, self.missing, self.categories, self.leading.counters

    @classmethod
    def of_vectors(cls, vectors: tuple[Vector, ...]) -> "FactsReply":
        """Return the reply with these integers."""
        n_rows, classes, missing, categories, leading = vectors
        counts = Counts(leading, runs(len(leading) >> LEAD_BITS, 1 << LEAD_BITS))
        return cls(n_rows, classes, missing, categories, counts)


def count_facts(table: Table, *, with_leading: bool, n_threads: int) -> FactsReply:
    """Count a table in one pass."""
    schema = table.schema
    n_columns = len(schema.columns)
    n_classes = len(schema.label.classes or ())
    classes = np.zeros(n_classes, np.int64)
    missing = np.zeros(n_columns, np.int64)
    categories = [np.zeros(len(c.categories or ()), np.int64) for c in schema.columns]
    leading = np.zeros((n_columns if with_leading else 0, 2**LEAD_BITS), np.int32)
    for batch in table.batches():
        if n_classes:
            classes += np.bincount(batch.target, minlength=n_classes)
        gaps = np.isnan(batch.values)
        missing += gaps.sum(axis=1)
        for column, counts in enumerate(categories):
            if counts.size:
                held = batch.values[column][~gaps[column]].astype(np.intp)
                np.add(counts, np.bincount(held, minlength=counts.size), out=counts)
        if with_leading:
            leading_counts(batch.values, leading, n_threads)
    return FactsReply(
        np.array([table.n_rows], np.int64),
        classes,
        missing,
        np.concatenate([np.zeros(0, np.int64), *categories]),
        Counts(leading.reshape(-1, 1), runs(len(leading), 2**LEAD_BITS)),
    )


def runs(n_runs: int, length: int) -> Integers:
    """Return where runs of equal length end."""
    return np.arange(1, n_runs + 1, dtype=np.int64) * length


def require_facts(schema: Schema, facts: FactsReply, *, with_leading: bool) -> None:
    """Raise unless counts fit the schema's columns; a party may lie, and kernels do not check."""
    columns = schema.columns
    expected = (
        (1,),
        (len(schema.label.classes or ()),),
        (len(columns),),
        (sum(len(column.categories or ()) for column in columns),),
        ((len(columns) << LEAD_BITS) * with_leading, 1),
    )
    if tuple(vector.shape for vector in facts.vectors()) != expected:
        raise ProtocolError("A party's counts do not fit the columns of the schema.")


def check_facts(schema: Schema, facts: FactsReply) -> None:
    """Raise unless a model can be learnt from the pooled table."""
    if facts.n_rows[0] == 0:
        raise TableError("None of the parties holds any rows. A forest needs at least one.")
    require_few_classes(schema.label)
    if schema.label.classes is not None and np.count_nonzero(facts.classes) < 2:
        raise TableError(
            f"The label {schema.label.name!r} has one class only over all parties. A classifier "
            "needs rows of at least 2 classes; check the label column and its filter."
        )


def require_few_classes(label: Label) -> None:
    """Raise if a label has more classes than a forest can count."""
    n_classes = len(label.classes or ())
    if n_classes > MAX_CLASSES:
        raise SettingError(
            f"The label {label.name!r} has {n_classes} classes; a forest can have at most "
            f"{MAX_CLASSES}. Group the rarest, or use a regressor if they are amounts."
        )


class BinSettings(Protocol):
    """The settings that decide how bins are laid."""

    @property
    def binning(self) -> str:
        """Where bins end: at "quantiles", or by declared "ranges" for instance."""
        ...

    @property
    def max_bins(self) -> int:
        """How many bins a column has at most."""
        ...

    @property
    def privacy(self) -> PrivacySettings | None:
        """How noise is added; None if none is."""
        ...


def binning_of(
    schema: Schema, facts: FactsReply, settings: BinSettings, quantiles: tuple[Edges, ...]
) -> Binning:
    """Return every column's bins: by category, by declared range, or at the quantiles."""
    edges = []
    bins: list[NDArray[np.uint8]] = []
    leading = facts.leading.counters.reshape(-1, 1 << LEAD_BITS)
    at = 0
    for number, column in enumerate(schema.columns):
        if column.kind == "category":
            n = len(column.categories or ())
            edges.append(_NO_EDGES)
            bins.append(category_bins(facts.categories[at : at + n], settings.max_bins))
            at += n
            continue
        bins.append(_NO_BINS)
        if column.kind == "boolean":
            edges.append(np.zeros(1, np.float32))
        elif settings.binning == "quantiles":
            edges.append(quantiles[number])
        elif facts.missing[number] == facts.n_rows[0]:
            edges.append(_NO_EDGES)
        elif settings.binning == "ranges":
            edges.append(equal_width(column.name, column.range, settings.max_bins))
        elif settings.binning == "magnitudes":
            bounds = declared_range(column.name, column.range)
            edges.append(magnitude_edges(leading[number], bounds, settings.max_bins))
        else:
            edges.append(_NO_EDGES)
    adaptive = settings.max_bins if settings.binning == "adaptive" else 0
    return Binning(tuple(edges), tuple(bins), facts.missing > 0, adaptive)


def public_binning(schema: Schema, max_bins: int) -> Binning:
    """Return every column's bins from the schema alone, without counting anything.

    Any column may have missing values. Categories beyond the limit share the last bin.
    """
    require_few_classes(schema.label)
    edges, bins = [], []
    for column in schema.columns:
        n = len(column.categories or ())
        if column.kind == "category" and not n:
            raise SettingError(
                f"Column {column.name!r} has no declared categories, and a private job may not "
                "read them from the data. Declare them in the schema."
            )
        bins.append(category_bins(np.zeros(n, np.int64), max_bins) if n else _NO_BINS)
        if column.kind == "number":
            edges.append(equal_width(column.name, column.range, max_bins))
        else:
            is_boolean = column.kind == "boolean"
            edges.append(np.zeros(1, np.float32) if is_boolean else _NO_EDGES)
    return Binning(tuple(edges), tuple(bins), np.ones(len(edges), np.bool_))


class WeightSettings(Protocol):
    """The settings that decide what a class weighs."""

    @property
    def class_weight(self) -> str | tuple[float, ...] | None:
        """The weight of each class, "balanced", or None for equal weights."""
        ...


def class_weights(settings: WeightSettings, facts: FactsReply) -> Floats:
    """Return a weight for each class; empty for regression."""
    n_classes = facts.classes.size
    if settings.class_weight == "balanced" and n_classes:
        present = np.count_nonzero(facts.classes)
        weights: Floats = facts.n_rows[0] / (present * np.maximum(facts.classes, 1))
        return weights
    return given_weights(settings, n_classes)


def given_weights(settings: WeightSettings, n_classes: int) -> Floats:
    """Return the given class weights, or 1 for each class."""
    if settings.class_weight is None or not n_classes:
        return np.ones(n_classes)
    given = np.asarray(settings.class_weight, np.float64)
    if given.shape != (n_classes,) or not np.all(np.isfinite(given)) or np.any(given < 0):
        raise SettingError(
            f"class_weight must give a finite weight of at least 0 for each of the {n_classes} "
            f"classes; got {settings.class_weight!r}."
        )
    counted = given[given > 0]  # weights are squared and must stay finite
    if not counted.size or counted.min() < _LEAST_WEIGHT or counted.max() > 1 / _LEAST_WEIGHT:
        raise SettingError(
            f"class_weight must give at least one class a weight above 0, and every weight that "
            f"is not 0 must lie between {_LEAST_WEIGHT:g} and {1 / _LEAST_WEIGHT:g}; "
            f"got {settings.class_weight!r}."
        )
    return given


def target_range(label: Label) -> tuple[float, float]:
    """Return the declared range of a regression target."""
    if label.range is None:
        raise SettingError(
            f"The label {label.name!r} has no declared range. Regression needs one: sums travel "
            "as fixed-point numbers over it. Declare its range in the schema."
        )
    low, high = label.range
    if not np.isfinite(high - low):
        raise SettingError(
            f"The range of the label {label.name!r} is too wide to sum the label. "
            "Divide the label by a large number first."
        )
    return low, high


def leaf_values(schema: Schema, weights: Floats, bits: int) -> LeafValues:
    """Return how leaf values follow from moments; without weights, a mean of `bits`-bit targets."""
    if weights.size:
        return LeafValues(weights)
    low, high = target_range(schema.label)
    return LeafValues(weights, low, (high - low) / (2**bits - 1), bits)


def fixed_point(target: Floats, label: Label, bits: int) -> Integers:
    """Return targets in whole steps of their declared range, clipped to it."""
    low, high = target_range(label)
    steps = 2**bits - 1
    scaled = (target - low) / (high - low) * steps if high > low else np.zeros_like(target)
    fixed: Integers = np.rint(scaled.clip(0, steps)).astype(np.int64)
    return fixed


def _without_surprises(batches: Iterator[Batch], binning: Binning) -> Iterator[Batch]:
    """Yield the batches; raise if values are missing in a column without a bin for them."""
    for batch in batches:
        if np.any(np.isnan(batch.values).any(axis=1) & ~binning.has_missing):
            raise ProtocolError(
                "The question's bins have no bin for missing values in a column that has some."
            )
        yield batch


def bin_table(table: Table, binning: Binning, *, n_threads: int, target_bits: int) -> BinnedTable:
    """Read a table again and keep one byte per cell; a numeric label gets `target_bits`."""
    label = table.schema.label
    small = np.uint8 if len(label.classes or ()) <= 256 else np.uint16
    is_number = label.kind == "number"
    kind = np.int64 if is_number else small

    def batches() -> Iterator[tuple[Values, NDArray[Any], Keys]]:
        nothing = np.zeros((len(table.schema.columns), 0), np.float32)
        yield nothing, np.zeros(0, kind), np.zeros(0, np.uint64)  # a party may hold no rows
        for batch in _without_surprises(table.batches(), binning):
            target = batch.target
            target = fixed_point(target, label, target_bits) if is_number else target.astype(kind)
            yield batch.values, target, batch.keys

    return BinnedTable.of_batches(batches(), binning, table.n_rows, n_threads=n_threads)
