"""Histograms as words for masked sums (secure aggregation): digits, side by side in words.

Parties' words are added modulo 2^64. All parties know an upper bound N on the rows of a class that
a node holds over all parties. So a class of a node (a run) travels as follows.

* Its total T, in as many bits as N has. A party may not be counted in a node, so T may be below N.
* Each slot's cells s_c add up to T. A digit of m bits holds s_c modulo M = 2^m, for c >= 2. If M is
  above N, this is s_c itself, s_1 has a digit too, and s_0 is what is left of T.
* Otherwise each slot also has the sum of w_c s_c modulo M 2^i, with the weights of `wraps`: w_0 is
  0, w_1 is 1, and all sums of K weights differ modulo 2^i, where K is N // M.

*Why there is one reading.* Let s_c = r_c + M k_c with 0 <= r_c < M. The s_c add up to at most N, so
the k_c add up to at most K. The digits are r_c for c >= 2; the weighted sum modulo M gives r_1, and
T modulo M gives r_0. Then T less all r_c is M times the sum of the k_c, and the weighted sum less
all w_c r_c is M times the sum of the w_c k_c, modulo M 2^i. The latter is a sum of at most K
weights, which says in which cells they are.

*Carries.* Parties add their whole counts to a digit's place, so what exceeds the digit is carried
into the digit above it in its word. Words are read in an order in which the digits of a slot lie in
different words, and each digit above those that were read before. Once a slot is known, what its
digits carried is known too, and is taken off before the digits above are read.

Words that no histograms give, because somebody lied, are refused, or read as other histograms. A
party that is told a sum packs it, and compares tags of words; and since counts that are no
histograms may have the words of one, it also adds up their slots.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.trees._kernels import fields as kernels
from spinney.trees.buffers import SHARED
from spinney.trees.counts import Counters
from spinney.trees.frontier import Slots
from spinney.trees.threads import Range, run_ranges, thread_count
from spinney.trees.wraps import naming
from spinney.typing import Integers

_CHUNK_COUNTERS: Final = 1 << 17  # of nodes with words of their own, which one thread packs
_GOOD_LANES: Final = 64  # slots are then rarely split between two rows
_FULL_LANE: Final = 16  # counters: fewer lanes than this allows would be better filled
_MOST_HELD: Final = (1 << 40) - 1
_MOST_WIDTHS: Final = 2 * 64  # of whole numbers and digits: each width may begin a row


class _Chunk:
    """Some nodes with words of their own.

    Words come in groups of lanes, at least as many as a slot has digits. A row is one digit's width
    of all words of a group. The digits of runs fill row after row, so no word holds two of a slot.
    `where` says where the digits of each run lie, as the kernels take it.
    """

    def __init__(self, cells: NDArray[np.int32], held: Integers) -> None:
        self.cells = cells
        self.held = held
        self.n_counters = int(cells.sum(dtype=np.int64)) * int(held.shape[1])
        most_digits = int(cells.max(initial=0)) - 1
        n_lanes = max(most_digits, min(_GOOD_LANES, self.n_counters // _FULL_LANE), 1)
        bits = np.empty(held.shape, np.uint8)
        kernels.choose_bits(cells, held, naming().index_bits, bits)
        whole = np.empty((held.size, cells.shape[1] + 1), np.int64)
        most_rows = (self.n_counters + whole.size) // n_lanes + _MOST_WIDTHS
        used, filled = np.zeros(most_rows, np.int64), np.zeros(most_rows, np.uint64)
        kernels.place_wholes(cells, held, bits, naming().index_bits, n_lanes, used, filled, whole)
        order, row, lane = np.empty((3, held.size), np.int64)
        row_word, row_shift = np.empty((2, most_rows), np.int64)
        kernels.place_digits(
            cells, held, bits, n_lanes, used, filled, order, row, lane, row_word, row_shift
        )
        cell_ends = np.cumsum(cells.sum(axis=1, dtype=np.int64))
        self.where: tuple[object, ...] = (
            cells, held, bits, n_lanes, order, row, lane, whole, row_word, row_shift, cell_ends
        )  # fmt: skip
        self.n_words = int(np.count_nonzero(used)) * n_lanes


@dataclass(frozen=True)
class Fields:
    """The digits of some nodes' histograms in words."""

    cells: NDArray[np.int32]  # (nodes, slots)
    held: Integers  # (nodes, classes) rows over all parties, at most

    def __post_init__(self) -> None:
        fits = self.held.ndim == 2 and len(self.held) == len(self.cells)
        if not fits or not 0 <= self.held.min(initial=0) <= self.held.max(initial=0) <= _MOST_HELD:
            raise ProtocolError("The rows that nodes hold by class do not fit the nodes.")

    @classmethod
    def of(
        cls,
        slots: Slots,
        node_bits: NDArray[np.uint8],
        n_classes: int,
        held: Integers | None = None,
    ) -> "Fields":
        """Return the layout for class counts.

        `held` says how many rows of each class a node holds at most, over all parties; without it,
        a node holds fewer than 2^`node_bits` rows.
        """
        if held is None or not held.size:
            most = (np.int64(1) << node_bits.astype(np.int64)) - 1
            held = np.repeat(most[:, None], n_classes, axis=1)
        return cls(slots.cells, np.ascontiguousarray(held))

    @cached_property
    def _chunks(self) -> list[_Chunk]:
        """The nodes in parts: the same for everyone, however many threads there are."""
        ends = np.cumsum(self.cells.sum(axis=1, dtype=np.int64)) * self.held.shape[1]
        cuts = np.flatnonzero(np.diff((ends - 1) // _CHUNK_COUNTERS)) + 1
        parts = list(zip(np.split(self.cells, cuts), np.split(self.held, cuts), strict=True))
        made: dict[int, _Chunk] = {}

        def task(i: int, _: int) -> None:
            made[i] = _Chunk(*parts[i])

        run_ranges(task, _each(parts), thread_count(None))
        return [made[i] for i in range(len(parts))]

    @cached_property
    def _word_ends(self) -> list[int]:
        return list(accumulate(chunk.n_words for chunk in self._chunks))

    @cached_property
    def _counter_ends(self) -> list[int]:
        return list(accumulate(chunk.n_counters for chunk in self._chunks))

    @property
    def n_words(self) -> int:
        """How many words there are."""
        return self._word_ends[-1]

    @cached_property
    def node_ends(self) -> list[int]:
        """Where the nodes end that have words of their own."""
        return list(accumulate(len(chunk.cells) for chunk in self._chunks))

    def words_of(self, i: int) -> Range:
        """Return where the words of a chunk of nodes begin and end."""
        return (self._word_ends[i - 1] if i else 0), self._word_ends[i]

    def pack(self, counters: Counters, n_threads: int) -> NDArray[np.uint64]:
        """Return the counters as words; they may come from others, and kernels do not check."""
        if counters.size != self._counter_ends[-1] or counters.dtype not in (np.uint16, np.int32):
            raise ProtocolError("Counts do not have the cells that they are about.")
        if (words := self._read_as(counters)) is not None:
            return words.copy()
        out = SHARED.array(self.n_words, np.uint64)
        flat, names = counters.reshape(-1), naming()

        def task(i: int, _: int) -> None:
            chunk, own = self._chunks[i], _part(out, self._word_ends, i)
            own[:] = 0
            counted = _part(flat, self._counter_ends, i)
            kernels.pack(counted, *chunk.where, names.first_weight, names.weights, own)

        run_ranges(task, _each(self._chunks), n_threads)
        return out

    def unpack(
        self, words: NDArray[np.uint64], n_threads: int, *, narrow: bool = False
    ) -> Counters:
        """Return the counters in words, or in a sum of words; 16 bits each if `narrow`."""
        if words.shape != (self.n_words,):
            raise ProtocolError("The parties' masked counts have the wrong number of words.")
        out = SHARED.array(self._counter_ends[-1], np.uint16 if narrow else np.int32)
        are_histograms = [False] * len(self._chunks)

        def task(i: int, _: int) -> None:
            own = _part(words, self._word_ends, i).copy()
            are_histograms[i] = self._unpack(i, own, _part(out, self._counter_ends, i))

        run_ranges(task, _each(self._chunks), n_threads)
        if not all(are_histograms):
            raise ProtocolError(
                "The parties' masked counts do not add up to histograms of the rows that their "
                "nodes hold. A party, or the coordinator, has changed them. Nothing was used."
            )
        self.__dict__["_last_read"] = (out, words)
        return out

    def unpack_chunk(self, i: int, words: NDArray[np.uint64]) -> Counters | None:
        """Return the counters in the words of one chunk, which are used up; None if it has none."""
        out = np.empty(self._chunks[i].n_counters, np.int32)
        return out if self._unpack(i, words, out) else None

    def _unpack(self, i: int, words: NDArray[np.uint64], out: Counters) -> bool:
        """Write the counters of a chunk; return whether they are histograms."""
        names = naming()
        is_read: bool = kernels.unpack(
            words, *self._chunks[i].where, names.first_weight, names.weights, names.index_bits,
            names.first_sum, names.places, out,
        )  # fmt: skip
        return is_read

    def _read_as(self, counters: Counters) -> NDArray[np.uint64] | None:
        """Return the words from which these very counters were read: in one process, a sum is."""
        read, words = self.__dict__.get("_last_read", (None, None))
        is_same = read is not None and (read.ctypes.data, read.dtype) == (
            counters.ctypes.data,
            counters.dtype,
        )
        return words if is_same else None

    def are_histograms(self, counters: Counters, n_threads: int) -> bool:
        """Return whether counters that were packed are also what is read from their words."""
        if self._read_as(counters) is not None:
            return True
        flat, found = counters.reshape(-1), [False] * len(self._chunks)

        def task(i: int, _: int) -> None:
            chunk, own = self._chunks[i], _part(flat, self._counter_ends, i)
            found[i] = kernels.are_histograms(own, chunk.cells, chunk.held)

        run_ranges(task, _each(self._chunks), n_threads)
        return all(found)


def _each(chunks: Sequence[object]) -> list[Range]:
    return [(i, i + 1) for i in range(len(chunks))]


def _part(array: NDArray[Any], ends: list[int], i: int) -> NDArray[Any]:
    """Return the part of an array that belongs to a chunk."""
    return array[ends[i - 1] if i else 0 : ends[i]]
