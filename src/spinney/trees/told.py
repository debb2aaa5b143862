"""Sums of histograms as parties are told them: in the fewest bytes, given what all know."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import StorageError
from spinney.trees._kernels import packing
from spinney.trees.counts import Counters, Counts, packed_stream, unpacked_stream
from spinney.trees.threads import TASKS_PER_THREAD, equal_ranges, run_ranges, thread_count
from spinney.typing import Integers

Cells = NDArray[np.int32]  # (nodes, slots)
AS_HELD, _OTHER_TOTALS, _AS_THEY_ARE = b"\0", b"\1", b"\2"  # the first byte
_RUN: Final = 64  # totals
_NO_CELLS: Final = np.zeros((0, 0), np.int32)
_NO_ROWS: Final = np.zeros((0, 0), np.int64)
_MOST_TOTAL: Final = np.iinfo(np.int32).max


class ToldCounts:
    """Counters of nodes, or their bytes, which only who knows the question can read.

    All slots of a node hold the same rows, so its totals by class, which are mostly known, are
    written once, and each slot's last cell not at all. Counts of a party that lies may be no
    histograms; they are written as they are.

    This is not a dataclass: a codec would encode its fields instead of calling `pack`.
    """

    __slots__ = ("_cells", "_counters", "_data", "_held", "_size")

    def __init__(
        self,
        counters: Counters | None,
        cells: Cells,
        held: Integers,  # (nodes, classes) rows that all expect; or nothing
        data: bytes | None = None,
    ) -> None:
        self._counters = counters
        self._cells = cells
        self._held = held
        self._data = data
        self._size: int | None = None

    def read(self, cells: Cells, held: Integers, n_classes: int) -> Counters:
        """Return the counters, (cells, classes), given what the question says."""
        if self._counters is None:
            assert self._data is not None
            self._counters = _read(self._data, cells, held, n_classes)
        return self._counters

    def pack(self) -> bytes:
        """Return the bytes."""
        if self._data is None:
            totals, n_bits = self._measured()
            if n_bits < 0:
                self._data = _AS_THEY_ARE + self._plain().pack()
            else:
                out = np.zeros((n_bits + 7) // 8, np.uint8)
                packing.pack_histograms(self._flat, self._cells, totals, np.int64(0), out)
                self._data = self._head(totals) + out.tobytes()
        return self._data

    def packed_size(self) -> int:
        """Return the length of `pack()` without encoding the counters."""
        if self._size is None:
            if self._data is not None:
                self._size = len(self._data)
                return self._size
            totals, n_bits = self._measured()
            if n_bits < 0:
                self._size = 1 + self._plain().packed_size()
            else:
                self._size = len(self._head(totals)) + (n_bits + 7) // 8
        return self._size

    @classmethod
    def unpacked_size(cls, data: bytes) -> int:
        """Return the length: they stay encoded until they are read."""
        return len(data)

    @classmethod
    def unpack(cls, data: bytes) -> "ToldCounts":
        """Return counts that are not read yet."""
        return cls(None, _NO_CELLS, _NO_ROWS, data)

    @property
    def _flat(self) -> Counters:
        assert self._counters is not None
        return self._counters.reshape(-1)

    def _measured(self) -> tuple[Integers, int]:
        """Return each node's totals by class, and the bits of its slots; -1 if its slots differ."""
        assert self._counters is not None
        n_classes = self._counters.shape[1]
        totals = np.empty((len(self._cells), n_classes), np.int64)
        sizes = self._cells.sum(axis=1, dtype=np.int64) * n_classes
        ends, found = np.append(0, np.cumsum(sizes)), []

        def task(first: int, last: int) -> None:
            part = self._flat[ends[first] : ends[last]]
            cells, sums = self._cells[first:last], totals[first:last]
            found.append(int(packing.measure_histograms(part, cells, sums)))

        n_threads = thread_count(None)
        run_ranges(task, equal_ranges(sizes, n_threads * TASKS_PER_THREAD), n_threads)
        fits = min(found, default=0) >= 0 and totals.max(initial=0) <= _MOST_TOTAL
        return totals, sum(found) if fits else -1

    def _plain(self) -> Counts:
        assert self._counters is not None
        return Counts(self._counters, np.cumsum(self._cells, dtype=np.int64))

    def _head(self, totals: Integers) -> bytes:
        if np.array_equal(totals, self._held):
            return AS_HELD
        return _OTHER_TOTALS + packed_stream(totals.reshape(-1), _runs(totals.size))


def _runs(n: int) -> Integers:
    return np.append(np.arange(_RUN, n, _RUN), n)


def _read(data: bytes, cells: Cells, held: Integers, n_classes: int) -> Counters:
    n_cells = int(cells.sum(dtype=np.int64))
    kind, rest = data[:1], np.frombuffer(data, np.uint8)[1:]
    if kind == _AS_THEY_ARE:
        plain = data[1:]
        if Counts.unpacked_size(plain) > (4 * n_classes * n_cells + 8 * cells.size):
            raise StorageError("Told counts have more cells than were asked for.")
        return Counts.unpack(plain).counters
    totals = np.array(held, np.int64)
    if kind == _OTHER_TOTALS:
        totals = np.empty((len(cells), n_classes), np.int64)
        rest = unpacked_stream(rest, _runs(totals.size), totals.reshape(-1))
    if kind not in (AS_HELD, _OTHER_TOTALS) or totals.shape != (len(cells), n_classes):
        raise StorageError("Told counts are not of a kind that is known.")
    if not 0 <= totals.min(initial=0) <= totals.max(initial=0) <= _MOST_TOTAL:
        raise StorageError("Told counts have totals that no node holds.")
    counters = np.empty((n_cells, n_classes), np.int32)
    n_bits = int(packing.unpack_histograms(rest, cells, totals, counters.reshape(-1)))
    if n_bits < 0 or (n_bits + 7) // 8 != rest.size:
        raise StorageError("Told counts do not have the length, or the rows, of their totals.")
    return counters
