"""Pooled quantiles found by counting, exact to the last bit of a float32 (not a quantile sketch).

A float32 read as an ordered word has 32 bits. The coordinator counts all values by their leading
12 bits, then splits the cells that hold a wanted rank by the next 7, 7 and 6 bits. After these four
rounds every wanted rank is one word, and so one value. Parties send only counts. The counts of the
parties add up to those of the pooled table, so the edges equal those of the pooled table.

While a column's values fill at most as many cells as there are bins, all cells are split. So if a
column has few enough distinct values, each gets its own bin, however rare it is.

In other columns, zeros get their own bin and are excluded from the ranks: otherwise columns that
are mostly zero would spend nearly all their bins on one value.

An edge is not the value that was found, but the roundest number between it and the next value, as
far as that is known. The bins are the same, and parties and readers of the model see fewer exact
values. The coordinator, who asked for the counts, still knows them.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.trees._kernels import binning as kernels
from spinney.trees.binning import Edges, column_ranges
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.threads import run_ranges
from spinney.typing import Integers, Values

LEAD_BITS = 12
DIGITS = (7, 7, 6)
_ZERO_LEAD = 0x800  # the leading bits of zero, and of numbers too small to matter
_MOST_BITS = 40
_COMPLEMENT = np.uint64(0xFFFFFFFF)
BELOW_ZERO = np.float32(-np.finfo(np.float32).tiny)

Prefixes = NDArray[np.uint32]
_Kind = TypeVar("_Kind", bound=np.generic)


@dataclass(frozen=True)
class Refinement:
    """Cells to count by their next digit: sorted word prefixes, column by column."""

    step: int  # index into DIGITS
    prefixes: tuple[Prefixes, ...]
    # How many values each cell holds over all parties; empty: not said.
    held: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    def fits(self, n_columns: int) -> bool:
        """Return whether it is valid for this many columns; others may have sent it."""
        if not 0 <= self.step < len(DIGITS) or len(self.prefixes) != n_columns:
            return False
        if self.held.size and not (
            self.held.shape == (self.n_cells,)
            and bool(np.all((self.held >= 1) & (self.held < 1 << _MOST_BITS)))
        ):
            return False
        end = 1 << (LEAD_BITS + sum(DIGITS[: self.step]))
        return all(
            prefixes.ndim == 1
            and prefixes.size <= MAX_BINS
            and int(prefixes.max(initial=0)) < end
            and bool(np.all(prefixes[1:] > prefixes[:-1]))
            for prefixes in self.prefixes
        )

    @property
    def digit_bits(self) -> int:
        """How many bits the next digit has."""
        return DIGITS[self.step]

    @property
    def shift(self) -> int:
        """How many bits are left below the next digit."""
        return 32 - LEAD_BITS - sum(DIGITS[: self.step + 1])

    @property
    def n_counters(self) -> int:
        """How many counts the answer has."""
        return self.n_cells << self.digit_bits

    @property
    def n_cells(self) -> int:
        """How many cells are counted."""
        return sum(len(prefixes) for prefixes in self.prefixes)

    @cached_property
    def tables(self) -> tuple[tuple[NDArray[np.uint16], ...], ...]:
        """For each column, the look-up tables that map a word to its cell, digit by digit."""
        return tuple(_tables(prefixes, self.step) for prefixes in self.prefixes)


def leading_counts(values: Values, counts: NDArray[np.int32], n_threads: int) -> None:
    """Add a batch's counts by leading bits to `counts` (n_columns, 4096)."""

    def task(first: int, last: int) -> None:
        words = np.empty(values.shape[1], np.uint32)
        for column in range(first, last):
            kernels.ordered_words(values[column], words)
            kernels.count_leading(words, np.isnan(values[column]), counts[column])

    run_ranges(task, column_ranges(len(values), n_threads), n_threads)


def leading_parts(values: NDArray[np.float32]) -> Integers:
    """Return each number's leading bits, as `leading_counts` counts them."""
    words = np.empty(values.size, np.uint32)
    kernels.ordered_words(values, words)
    return (words >> np.uint32(32 - LEAD_BITS)).astype(np.int64)


def count_refined(
    values: Values, refinement: Refinement, counts: NDArray[np.int32], n_threads: int
) -> None:
    """Add a batch's counts by (prefix, digit) to the flat `counts`."""
    bits = refinement.digit_bits
    ends = np.cumsum([len(prefixes) << bits for prefixes in refinement.prefixes])

    def task(first: int, last: int) -> None:
        words = np.empty(values.shape[1], np.uint32)
        for column in range(first, last):
            n_cells = len(refinement.prefixes[column])
            if not n_cells:
                continue
            kernels.ordered_words(values[column], words)
            found = counts[ends[column] - (n_cells << bits) : ends[column]]
            kernels.count_digits(
                words, np.isnan(values[column]), refinement.step, *refinement.tables[column],
                refinement.shift, (1 << bits) - 1, found.reshape(n_cells, 1 << bits),
            )  # fmt: skip

    run_ranges(task, column_ranges(len(values), n_threads), n_threads)


def _tables(prefixes: Prefixes, step: int) -> tuple[NDArray[np.uint16], ...]:
    """Return tables by leading bits, then by one digit after another; 0 means no cell."""
    chain = [prefixes]
    for bits in reversed(DIGITS[:step]):
        chain.append(np.unique(chain[-1] >> np.uint32(bits)))
    chain.reverse()
    lead = np.zeros(2**LEAD_BITS, np.uint16)
    lead[chain[0]] = np.arange(1, len(chain[0]) + 1)
    tables = [lead]
    for bits, parents, children in zip(DIGITS, chain, chain[1:], strict=False):
        table = np.zeros((len(parents) + 1, 1 << bits), np.uint16)
        row = np.searchsorted(parents, children >> np.uint32(bits)) + 1
        table[row, children & np.uint32((1 << bits) - 1)] = np.arange(1, len(children) + 1)
        tables.append(table)
    unused = np.zeros((1, 1), np.uint16)
    return (*tables, *[unused] * (len(DIGITS) - len(tables)))


class QuantileSearch:
    """The coordinator's side: it narrows down every wanted rank by one digit per round."""

    def __init__(self, leading: Integers, max_bins: int) -> None:
        self._searches = [_ColumnSearch(counts, max_bins) for counts in leading]
        self._step = 0

    def question(self) -> Refinement | None:
        """Return the next cells to count, or None once every rank is found."""
        if self._step == len(DIGITS):
            return None
        prefixes = tuple(search.prefixes for search in self._searches)
        if not any(len(column) for column in prefixes):
            return None
        totals = [search.totals for search in self._searches]
        return Refinement(self._step, prefixes, np.concatenate(totals))

    def answer(self, counts: Integers) -> None:
        """Take the summed counts of the last question."""
        bits = DIGITS[self._step]
        at = 0
        for search in self._searches:
            n = len(search.prefixes) << bits
            search.refine(counts[at : at + n].reshape(-1, 1 << bits), bits)
            at += n
        self._step += 1

    def edges(self) -> tuple[Edges, ...]:
        """Return every column's edges."""
        return tuple(search.edges() for search in self._searches)


class _ColumnSearch:
    """The state of one column: the cell of each wanted rank, and all cells while they are few.

    A cell is a prefix of ordered words. `_bits` is the current length of the prefixes.
    """

    def __init__(self, leading: Integers, max_bins: int) -> None:
        self._max_bins = max_bins
        self._bits = LEAD_BITS
        filled_cells = np.flatnonzero(leading)
        self._keep_few(filled_cells, leading[filled_cells])
        counts = leading.copy()
        self._n_negative = int(counts[:_ZERO_LEAD].sum())
        self._n_zero = int(counts[_ZERO_LEAD])
        counts[_ZERO_LEAD] = 0
        self._n = int(counts.sum())
        forced = len(self._zero_edges())
        n_edges = max(0, max_bins - 1 - forced)
        # rank r means that r values are at or below the edge
        ranks = np.arange(1, n_edges + 1, dtype=np.int64) * self._n // (n_edges + 1)
        self._ranks = _distinct(ranks[(ranks > 0) & (ranks < self._n)])
        below = np.cumsum(counts)
        cell = np.searchsorted(below, self._ranks, side="left")
        self._cell = cell.astype(np.uint32)  # the prefix each rank lies in
        self._before = below[cell] - counts[cell]  # values below that cell
        self._upto = below[cell]  # values in it and below
        filled = np.append(np.flatnonzero(leading), 1 << LEAD_BITS)
        following = filled[np.searchsorted(filled, cell, side="right")]
        self._next = following.astype(np.uint64) << np.uint64(32 - LEAD_BITS)  # first word after

    @property
    def prefixes(self) -> Prefixes:
        if self._few is not None:
            return self._few
        return _distinct(self._cell)  # in order, as ranks are

    @property
    def totals(self) -> Integers:
        """How many values each of these cells holds, as counted before."""
        if self._few is not None:
            return self._few_totals
        first = np.flatnonzero(np.diff(self._cell.astype(np.int64), prepend=-1))
        held: Integers = (self._upto - self._before)[first]
        return held

    def _keep_few(self, filled: Integers, counts: Integers) -> None:
        """Keep all filled cells, unless there are more values than bins."""
        few = filled.size <= self._max_bins
        self._few: Prefixes | None = filled.astype(np.uint32) if few else None
        self._few_totals = counts.astype(np.int64)

    def refine(self, counts: Integers, bits: int) -> None:
        """Narrow each rank's cell by one digit."""
        prefixes = self.prefixes
        self._bits += bits
        if self._few is not None:
            filled = np.flatnonzero(counts.ravel() != 0)
            below_cell = prefixes[filled >> bits].astype(np.int64) << bits
            self._keep_few(below_cell | (filled & ((1 << bits) - 1)), counts.ravel()[filled])
        if not self._ranks.size:
            return
        row = np.searchsorted(prefixes, self._cell)
        digit, here, upto, following = np.empty((4, row.size), np.int64)
        within = self._ranks - self._before
        if not kernels.refine_ranks(counts, row, within, digit, here, upto, following):
            raise ProtocolError(
                "The parties' counts between cut points do not add up to their earlier counts. "
                "Nothing was used."
            )
        self._upto = self._before + upto
        self._before = self._upto - here
        prefix = self._cell.astype(np.int64) << bits
        self._cell = (prefix + digit).astype(np.uint32)
        after = (prefix + following) << (32 - self._bits)
        self._next = np.where(following >= 0, after.astype(np.uint64), self._next)

    def edges(self) -> Edges:
        """Return the edges: after each value; or at the wanted ranks and around zero."""
        if self._few is not None:
            words = self._few.astype(np.uint64)
            return _roundest(words[:-1], words[1:])
        wanted = self._upto < self._n  # nothing lies above the largest
        values = _roundest(self._cell[wanted].astype(np.uint64), self._next[wanted])
        return np.unique(np.concatenate([values, self._zero_edges()]).astype(np.float32))

    def _zero_edges(self) -> Edges:
        """Return the edges that give zero its own bin, if other values exist on that side."""
        edges = []
        if self._n_zero and self._n_negative:
            edges.append(BELOW_ZERO)
        if self._n_zero and self._n > self._n_negative:
            edges.append(np.float32(0.0))
        return np.array(edges[: self._max_bins - 1], np.float32)


def _distinct(ordered: NDArray[_Kind]) -> NDArray[_Kind]:
    """Return the distinct values of a sorted array."""
    is_first = np.ones(ordered.size, np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_first]


def _roundest(words: NDArray[np.uint64], following: NDArray[np.uint64]) -> Edges:
    """Return numbers from `words` (included) to `following` (excluded) with the fewest bits set."""
    sign = np.uint64(0x80000000)
    negative = words < sign
    # A negative word is the complement of its magnitude, and no value has the word below zero's.
    last = np.where(negative, np.minimum(following, sign - 1) - np.uint64(1), following - 1)
    low = np.where(negative, _COMPLEMENT - last, words)
    high = np.where(negative, _COMPLEMENT - words, last)
    differ = (low - np.uint64(1)) ^ high
    top = np.frexp(differ.astype(np.float64))[1] - 1  # exact: 32 bits
    bits = high >> top.astype(np.uint64) << top.astype(np.uint64)
    bits = np.where(negative, bits, bits ^ sign)
    return bits.astype(np.uint32).view(np.float32)
