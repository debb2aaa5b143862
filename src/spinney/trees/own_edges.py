"""Bin edges of one table that fits in memory: those of `quantiles`, found by sorting its columns.

Where several parties hold the rows, edges are found by counting. A table alone need not count:
sorting takes a hundredth of the time if the table has few rows and many columns.
"""

import numpy as np

from spinney.trees._kernels import binning, own_edges
from spinney.trees.binning import Edges, column_ranges
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.quantiles import BELOW_ZERO
from spinney.trees.threads import run_ranges
from spinney.typing import Bools, Values

_SIGN = np.uint32(0x80000000)
_NO_EDGES: Edges = np.zeros(0, np.float32)


def edges_of_values(
    values: Values, is_number: Bools, max_bins: int, n_threads: int
) -> tuple[Edges, ...]:
    """Return the edges of every number among the columns of `values`, (n_columns, n_rows)."""
    chosen = np.flatnonzero(is_number)
    words = np.empty((chosen.size, values.shape[1]), np.uint32)
    found = np.empty((chosen.size, MAX_BINS), np.uint32)
    n_held, n_edges = np.empty((2, chosen.size), np.int64)
    below_zero = np.empty(1, np.uint32)
    binning.ordered_words(np.array([BELOW_ZERO]), below_zero)

    def task(first: int, last: int) -> None:
        lines, held = words[first:last], n_held[first:last]
        own_edges.words_of_columns(values, chosen[first:last], lines, held)
        lines.sort(axis=1)
        own_edges.edges_of_sorted(
            lines, held, max_bins, below_zero[0], found[first:last], n_edges[first:last]
        )

    run_ranges(task, column_ranges(chosen.size, n_threads), n_threads)
    numbers = np.where(found >= _SIGN, found ^ _SIGN, ~found).view(np.float32)
    edges = [_NO_EDGES] * len(values)
    for line, column, n in zip(numbers, chosen.tolist(), n_edges.tolist(), strict=True):
        edges[column] = line[:n]
    return tuple(edges)
