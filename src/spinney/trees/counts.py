"""Counters in messages: integer arrays with a compact encoding."""

import struct
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError, StorageError
from spinney.trees._kernels import packing
from spinney.trees.threads import Range, run_ranges, thread_count
from spinney.typing import Bools, Integers

Counters = NDArray[np.uint16] | NDArray[np.int32] | NDArray[np.int64]
_HEAD = struct.Struct("<BQQQ")  # bytes per counter, cells, counters per cell, runs
_MOST_WIDTH = 1 << 16  # classes
_CELLS_OF_TASK = 1 << 16  # that a thread measures, at least
_SUM_WIDTHS = (2, 3)  # a weight, and one or two sums


class Counts:
    """Counters in runs of cells with counts of similar size, for example the cells of one slot.

    16 or 32 bits: (cells, classes) counts. 64 bits: (cells, 2 or 3) weights and sums, which are 0
    where the weight is. Two sums are packed as what they differ from the weight times their run's
    mean, which is smaller than they are. `run_ends` says where each run ends, in cells; `bits` are
    the packed sizes, if they were computed during counting. This is not a dataclass: a codec would
    encode its fields instead of calling `pack`.
    """

    __slots__ = ("_stream", "bits", "counters", "run_ends")

    def __init__(
        self, counters: Counters, run_ends: Integers, bits: tuple[int, ...] | None = None
    ) -> None:
        self.counters = counters
        self.run_ends = run_ends
        self.bits = bits
        self._stream: bytes | None = None

    @property
    def stream(self) -> bytes:
        """The counts as they are packed, without what says where their runs end."""
        if self._stream is None:
            ((counters, ends),) = self._streams()
            self._stream = packed_stream(counters, ends)
        return self._stream

    def pack(self) -> bytes:
        """Return the counters as Rice codes, with one parameter per run."""
        shape = self.counters.shape
        head = _HEAD.pack(max(self.counters.itemsize, 4), *shape, self.run_ends.size)
        cells = np.diff(self.run_ends, prepend=0).astype("<u2")
        packed = (
            [self.stream]
            if self.counters.itemsize < 8
            else [packed_stream(counters, ends) for counters, ends in self._streams()]
        )
        return b"".join([head, cells.tobytes(), *packed])

    def packed_size(self) -> int:
        """Return the length of `pack()` without encoding."""
        bits = self.bits or packed_bits(self.counters, self.run_ends)
        return _HEAD.size + 2 * self.run_ends.size + sum((n + 7) // 8 for n in bits)

    @classmethod
    def unpacked_size(cls, data: bytes) -> int:
        """Return how many bytes of counters the header says that `unpack(data)` would make.

        A message may hold counters of one bit each; unpacked, they take a hundred times its length.
        """
        if len(data) < _HEAD.size:
            return 0
        itemsize, n_cells, width, n_runs = _HEAD.unpack_from(data)
        return int(itemsize * n_cells * width + 8 * n_runs)

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Return the counts that `pack` wrote."""
        if len(data) < _HEAD.size:
            raise StorageError("Packed counts are too short to hold their header.")
        itemsize, n_cells, width, n_runs = _HEAD.unpack_from(data)
        body = _HEAD.size + 2 * n_runs
        fits = itemsize == 4 or (itemsize == 8 and width in _SUM_WIDTHS)
        if not (fits and 0 < width <= _MOST_WIDTH and len(data) >= body):
            raise StorageError("Packed counts have a header that does not fit their length.")
        # A counter takes at least one bit; this limits what a hostile header can make us allocate.
        if n_cells * (width if itemsize == 4 else 1) > 8 * (len(data) - body):
            raise StorageError("Packed counts have a header that does not fit their length.")
        cells = np.frombuffer(data, "<u2", n_runs, _HEAD.size)
        run_ends = np.cumsum(cells, dtype=np.int64)
        if int(run_ends[-1] if n_runs else 0) != n_cells:
            raise StorageError("Packed counts have runs that do not add up to their cells.")
        bits = np.frombuffer(data, np.uint8, offset=body)
        if itemsize == 4:
            counts = np.zeros((n_cells, width), np.int32)
            bits = unpacked_stream(bits, run_ends * width, counts.reshape(-1))
        else:
            counts = np.zeros((n_cells, width), np.int64)
            weights = np.zeros(n_cells, np.int64)
            bits = unpacked_stream(bits, run_ends, weights)
            held = weights > 0
            counts[:, 0] = weights
            for column in range(1, width):
                bits = _read_sums(bits, counts, held, run_ends, column)
        if bits.size:
            raise StorageError("Packed counts are longer than their header says.")
        if counts.min(initial=0) < 0:
            raise StorageError("Packed counts hold numbers below zero.")
        return cls(counts, run_ends)

    def _streams(self) -> list[tuple[Counters, Integers]]:
        """Return the packed streams: all counts; or weights, then sums of cells that hold rows."""
        if self.counters.itemsize < 8:
            return [(self.counters.reshape(-1), self.run_ends * self.counters.shape[1])]
        weights: Integers = np.ascontiguousarray(self.counters[:, 0]).astype(np.int64, copy=False)
        held = np.greater(weights, 0)
        ends = _ends_within(held, self.run_ends)
        if self.counters.shape[1] == 2:
            return [(weights, self.run_ends), (self.counters[held, 1], ends)]
        streams: list[tuple[Counters, Integers]] = [(weights, self.run_ends)]
        for column in range(1, self.counters.shape[1]):
            sums = self.counters[held, column]
            means = _means(weights[held], sums, ends)
            apart = sums - weights[held] * np.repeat(means, np.diff(ends, prepend=0))
            one_run = np.array([means.size], np.int64)
            streams += [(means, one_run), ((apart << 1) ^ (apart >> 63), ends)]
        return streams


def packed_bits(counters: Counters, run_ends: Integers) -> tuple[int, ...]:
    """Return the bits of each stream that `Counts.pack` writes, without encoding."""
    if counters.itemsize < 8:
        ends = run_ends * counters.shape[1]
        return (int(packing.packed_bits(counters.reshape(-1), ends)),)
    if counters.shape[1] == 2:
        return tuple(map(int, packing.packed_bits_of_sums(counters, run_ends)))
    measured = Spreads(1, run_ends)

    def task(first: int, last: int) -> None:
        measured.measure(counters[None], 1, (0, 1), (first, last))

    n_pieces = 1 + len(counters) // _CELLS_OF_TASK
    cuts = [run_ends.size * piece // n_pieces for piece in range(n_pieces + 1)]
    run_ranges(task, list(pairwise(cuts)), thread_count(None))
    return measured.bits()[0]


class Spreads:
    """The packed sizes of counters with two sums, of some parts of a table with the same runs.

    They are found piece by piece, each while it is in the core's cache, on any threads.
    """

    def __init__(self, n_parts: int, run_ends: Integers) -> None:
        self._run_ends = run_ends
        self._longest = int(np.diff(run_ends, prepend=0).max(initial=0))
        self._means = np.empty((n_parts, 2, run_ends.size), np.int64)
        self._found = [np.zeros((n_parts, 3), np.int64)]  # by piece; appending is atomic

    def measure(self, sums: Counters, n_nodes: int, items: Range, slots: Range) -> None:
        """Measure the runs of some items, which are nodes in parts, in a range of slots."""
        found = np.zeros_like(self._found[0])
        packing.measure_spreads(
            sums, self._run_ends, n_nodes, items, slots, self._longest, self._means, found
        )
        self._found.append(found)

    def bits(self) -> list[tuple[int, ...]]:
        """Return the bits of each stream of every part, once all of them are measured."""
        whole = np.array([self._run_ends.size], np.int64)
        means = [[int(packing.packed_bits(one, whole)) for one in two] for two in self._means]
        found = np.sum(self._found, axis=0).tolist()
        return [(n, g0, g, h0, h) for (n, g, h), (g0, h0) in zip(found, means, strict=True)]


def _means(weights: Integers, sums: Integers, ends: Integers) -> Integers:
    """Return the mean of each run in whole numbers; 0 for a run without weight."""
    before = np.concatenate([[0], ends])
    total = np.diff(np.concatenate([[0], np.cumsum(sums)])[before])
    weight = np.diff(np.concatenate([[0], np.cumsum(weights)])[before])
    means: Integers = total // np.maximum(weight, 1)
    return means


def _read_sums(
    bits: NDArray[np.uint8], counts: Integers, held: Bools, run_ends: Integers, column: int
) -> NDArray[np.uint8]:
    """Read a column of sums into counts whose weights are known; return the bytes after it."""
    ends = _ends_within(held, run_ends)
    sums = np.zeros(int(held.sum()), np.int64)
    if counts.shape[1] == 2:
        bits = unpacked_stream(bits, ends, sums)
    else:
        means = np.zeros(ends.size, np.int64)
        bits = unpacked_stream(bits, np.array([ends.size], np.int64), means)
        bits = unpacked_stream(bits, ends, sums)
        middle = counts[held, 0] * np.repeat(means, np.diff(ends, prepend=0))
        sums = middle + ((sums >> 1) ^ -(sums & 1))
    counts[held, column] = sums
    return bits


def _ends_within(held: Bools, run_ends: Integers) -> Integers:
    """Return where each run ends if only the held cells are counted."""
    before: Integers = np.r_[0, np.cumsum(held, dtype=np.int64)]
    return before[run_ends]


def packed_stream(counters: Counters, ends: Integers) -> bytes:
    """Return one stream of runs; raise for numbers below zero, which would be written elsewhere."""
    if counters.min(initial=0) < 0:
        raise ProtocolError(
            "Counts of a table, and their sums, are not below zero: a party sent what it cannot "
            "have counted. Nothing was used."
        )
    out = np.zeros((int(packing.packed_bits(counters, ends)) + 7) // 8, np.uint8)
    packing.pack(counters, ends, out)
    return out.tobytes()


def unpacked_stream(bits: NDArray[np.uint8], ends: Integers, out: Counters) -> NDArray[np.uint8]:
    """Read one stream into `out` and return the bytes after it."""
    read = int(packing.unpack(bits, np.int64(0), ends, out))
    if read < 0:
        raise StorageError("Packed counts are cut short.")
    return bits[(read + 7) // 8 :]
