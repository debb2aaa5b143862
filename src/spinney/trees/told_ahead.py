"""Sums of histograms that are told while the parties' counts still come in.

The bytes are the beginning of those that `ToldCounts` writes for the whole sum, so nothing is told
that would not be told at the end. That holds while the slots of a sum have the totals that all
expect. Where a party counts itself out of nodes, or lies, they do not, and no more is told here.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np

from spinney.trees._kernels import packing
from spinney.trees.counts import Counters
from spinney.trees.fields import Fields
from spinney.trees.told import AS_HELD, Cells
from spinney.typing import Integers

_CHUNK: Final = 1 << 16  # counters
_MOST_BYTES: Final = 16  # that a counter takes, or what says how those of a run are written
TOLD_WORTH: Final = 8 * _MOST_BYTES
"""The most bytes that are told for each of a party's own: its counters take at least a bit each."""

_WORD: Final = 8

Parts = Sequence[bytearray | bytes]  # what has come of each party's numbers, from the first on


class ToldAhead(ABC):
    """Tells a sum of histograms, chunk after chunk of nodes.

    Parameters
    ----------
    cells, held
        As `ToldCounts` takes them; the rows of every node are known.
    ends
        Where each chunk of nodes ends.
    """

    def __init__(self, cells: Cells, held: Integers, ends: Sequence[int]) -> None:
        self._cells = cells
        self._held = np.ascontiguousarray(held)
        self._ends = ends
        self._done = 0  # chunks
        self._told = AS_HELD  # what has still to be sent; its last byte may not be full
        self._n_bits = 8

    def more(self, parts: Parts) -> bytes:
        """Return what follows what was told, as far as all parties' numbers have come."""
        while self._done < len(self._ends) and (found := self._read(parts)) is not None:
            self._tell(found)
        whole = self._n_bits // 8
        if whole < 2:
            return b""
        told, self._told = self._told[:whole], self._told[whole:]
        self._n_bits -= 8 * whole
        return told

    @abstractmethod
    def _read(self, parts: Parts) -> Counters | None:
        """Return the sum of the present chunk; None if some of it is missing."""

    @property
    def _nodes(self) -> slice:
        """The nodes of the present chunk."""
        return slice(self._ends[self._done - 1] if self._done else 0, self._ends[self._done])

    def _stop(self) -> None:
        """Tell no more: the sum is not what all expect."""
        self._done = len(self._ends)

    def _tell(self, counters: Counters) -> None:
        cells, held = self._cells[self._nodes], self._held[self._nodes]
        totals = np.empty_like(held)
        n_bits = int(packing.measure_histograms(counters, cells, totals))
        if n_bits < 0 or not np.array_equal(totals, held):
            self._stop()
            return
        out = np.zeros((self._n_bits + n_bits + 7) // 8, np.uint8)
        out[: len(self._told)] = np.frombuffer(self._told, np.uint8)
        at = np.int64(self._n_bits)
        self._n_bits = int(packing.pack_histograms(counters, cells, totals, at, out))
        self._told = out.tobytes()
        self._done += 1


class OpenToldAhead(ToldAhead):
    """Tells the sum of counts that come as `Counts` packs them, each slot a run."""

    def __init__(self, cells: Cells, held: Integers, n_parties: int) -> None:
        n_counters = cells.sum(axis=1, dtype=np.int64) * held.shape[1]
        self._counter_ends = np.cumsum(n_counters)
        cuts = np.flatnonzero(np.diff((self._counter_ends - 1) // _CHUNK)) + 1
        super().__init__(cells, held, [*cuts.tolist(), len(cells)])
        self._at = [0] * n_parties  # the bit after what was read of each
        self._n_runs = [0] * n_parties  # of the present chunk that were read of each
        self._read_now: dict[int, Counters] = {}  # of the present chunk

    def _read(self, parts: Parts) -> Counters | None:
        first = self._nodes.start
        begin = int(self._counter_ends[first - 1]) if first else 0
        size = int(self._counter_ends[self._nodes.stop - 1]) - begin
        runs = self._cells[self._nodes].ravel()
        run_ends = np.cumsum(runs, dtype=np.int64) * self._held.shape[1]
        for party, part in enumerate(parts):
            if party not in self._read_now:
                self._read_now[party] = np.zeros(size, np.int32)
            if not self._read_one(party, part, run_ends):
                return None
        total = sum(self._read_now.values(), np.zeros(size, np.int32))
        self._read_now.clear()
        self._n_runs = [0] * len(parts)
        return total

    def _read_one(self, party: int, part: bytearray | bytes, run_ends: Integers) -> bool:
        """Read a party's counts of the present chunk; return whether they have come.

        A chunk may be one large node. What was read of it is not read again with every part.
        """
        done = self._n_runs[party]
        while done < run_ends.size:
            begin = int(run_ends[done - 1]) if done else 0
            last = max(int(np.searchsorted(run_ends, begin + _CHUNK, side="right")), done + 1)
            ends = run_ends[done:last] - begin
            byte, bit = divmod(self._at[party], 8)
            most = _MOST_BYTES * (int(ends[-1]) + ends.size) + 1
            data = np.frombuffer(bytes(part[byte : byte + most]), np.uint8)
            counters = self._read_now[party][begin : run_ends[last - 1]]
            end = int(packing.unpack(data, np.int64(bit), ends, counters))
            if end < 0:
                return False
            self._at[party], self._n_runs[party] = 8 * byte + end, last
            done = last
        return True


class MaskedToldAhead(ToldAhead):
    """Tells the sum of words; the masks of all parties cancel in it."""

    def __init__(self, cells: Cells, held: Integers, fields: Fields) -> None:
        super().__init__(cells, held, fields.node_ends)
        self._fields = fields

    def _read(self, parts: Parts) -> Counters | None:
        begin, end = (_WORD * word for word in self._fields.words_of(self._done))
        if min(map(len, parts)) < end:
            return None
        total = np.zeros((end - begin) // _WORD, np.uint64)
        for part in parts:
            total += np.frombuffer(bytes(part[begin:end]), "<u8")
        counters = self._fields.unpack_chunk(self._done, total)
        if counters is None:
            self._stop()
        return counters
