"""Bins for trees that parties fit locally: own quantiles, or pooled ones (S4, Appendix A).

Own bins never leave the party. Pooled bins are those of `KBinsDiscretizer` with the strategy
"quantile", from summed counts: parties answer how many numbers lie between cut points. Zeros have
their own bin, as everywhere in Spinney. A column whose quantiles all coincide is cut once, in the
middle of its range, as in the paper with the strategy "uniform".
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from spinney.protocols.genetic_tree.settings import GeneticSettings
from spinney.protocols.rows.setup import lay_bins
from spinney.tables.schema import Schema
from spinney.tables.table import Table
from spinney.transport.channel import Channel
from spinney.trees.binning import Binning, Edges, category_bins
from spinney.trees.quantiles import LEAD_BITS
from spinney.typing import Integers, Values

_NO_EDGES: Edges = np.zeros(0, np.float32)
_NO_BINS = np.zeros(0, np.uint8)
CategoryBins = tuple[NDArray[np.uint8], ...]


def category_bins_of(schema: Schema, max_bins: int) -> CategoryBins:
    """Return the bin of every category, from the schema alone; the last ones may share a bin.

    Bins are the same for all parties, because trees refer to categories by bin.
    """
    return tuple(
        category_bins(np.zeros(len(column.categories or ()), np.int64), max_bins)
        if column.kind == "category"
        else _NO_BINS
        for column in schema.columns
    )


def lay_own_bins(table: Table, max_bins: int) -> Binning:
    """Return bins at the quantiles of a party's own numbers; categories come from the schema.

    Cut points lie halfway between values, so ties do not matter.
    """
    columns = table.schema.columns
    values = np.concatenate(
        [np.zeros((len(columns), 0), np.float32), *(batch.values for batch in table.batches())],
        axis=1,
    )
    edges = []
    for number, column in enumerate(columns):
        if column.kind == "category":
            edges.append(_NO_EDGES)
        elif column.kind == "boolean":
            edges.append(np.zeros(1, np.float32))
        else:
            edges.append(_own_edges(values[number], max_bins))
    bins = category_bins_of(table.schema, max_bins)
    return Binning(tuple(edges), bins, np.ones(len(columns), np.bool_))


def _own_edges(column: Values, max_bins: int) -> Edges:
    held = np.sort(column[~np.isnan(column)].astype(np.float64))
    distinct, first = np.unique(held, return_index=True)
    if distinct.size < 2:
        return _NO_EDGES
    cuts = np.arange(1, distinct.size)
    if distinct.size > max_bins:
        goals = np.arange(1, max_bins) * held.size / max_bins
        cuts = np.unique(np.searchsorted(first, goals, side="left").clip(1, distinct.size - 1))
    middle = (distinct[cuts - 1] + distinct[cuts]) / 2
    # a midpoint that rounds up to the upper value would no longer separate the two
    edges = np.where(
        middle.astype(np.float32) < distinct[cuts].astype(np.float32), middle, distinct[cuts - 1]
    )
    return np.unique(edges.astype(np.float32))


def lay_pooled_bins(channel: Channel, schema: Schema, settings: GeneticSettings) -> Binning:
    """Return bins at the quantiles of all parties' numbers, found from summed counts."""
    facts, binning = lay_bins(channel, schema, settings.for_bins())
    leading: Integers = facts.leading.counters.reshape(len(schema.columns), -1).astype(np.int64)
    edges = tuple(
        found if len(found) or column.kind != "number" else _in_the_middle(leading[number])
        for number, (found, column) in enumerate(zip(binning.edges, schema.columns, strict=True))
    )
    return replace(binning, edges=edges, has_missing=np.ones(len(edges), np.bool_))


def _in_the_middle(counts: Integers) -> Edges:
    """Return one cut in the middle of a column's range, from its numbers' leading bits."""
    held = np.flatnonzero(counts)
    if held.size < 2:
        return _NO_EDGES
    words = held[[0, -1]].astype(np.uint32) << np.uint32(32 - LEAD_BITS)
    sign = np.uint32(1 << 31)  # words sort like the numbers: negative ones are inverted
    low, high = np.where(words & sign, words ^ sign, ~words).astype(np.uint32).view(np.float32)
    middle = np.float32(low / 2 + high / 2)
    return np.array([middle], np.float32) if np.isfinite(middle) else _NO_EDGES
