"""Histograms as words for masked sums (secure aggregation): bit fields, side by side in words.

Every party knows an upper bound on the rows of a node over all parties, and mostly on those of each
class. A field is wide enough for the sum of a counter under that bound, so no field overflows into
the next.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.trees._kernels import packing
from spinney.trees.buffers import SHARED
from spinney.trees.counts import Counters
from spinney.trees.frontier import Slots
from spinney.trees.threads import equal_ranges, run_ranges
from spinney.typing import Integers


@dataclass(frozen=True)
class Fields:
    """The positions of the counters of some nodes in words: one run per node and class."""

    cell_ends: Integers  # of each node
    field_bits: NDArray[np.uint8]  # (nodes, classes) of each run

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
        if held is None or len(held) != len(node_bits):
            bits = np.repeat(node_bits[:, None], n_classes, axis=1)
        else:
            bits = np.frexp(held.astype(np.float64))[1].astype(np.uint8)
        return cls(slots.ends[:, -1], np.ascontiguousarray(bits))

    @cached_property
    def word_ends(self) -> Integers:
        """Where each run ends, in words."""
        sizes = np.diff(self.cell_ends, prepend=0)[:, None]
        bits = self.field_bits.astype(np.int64)
        per_word = 64 // np.maximum(bits, 1)
        ends: Integers = np.cumsum(np.where(bits > 0, -(-sizes // per_word), 0))
        return ends

    def pack(self, counters: Counters, n_threads: int) -> NDArray[np.uint64]:
        """Return the counters as words; they may come from others, and kernels do not check."""
        n_counters = int(self.cell_ends[-1]) * self.field_bits.shape[1]
        if counters.size != n_counters or counters.dtype not in (np.uint16, np.int32):
            raise ProtocolError("Counts do not have the cells that they are about.")
        out = SHARED.array(int(self.word_ends[-1]), np.uint64)
        self._run(packing.pack_fields, counters.reshape(-1), out, n_threads)
        return out

    def unpack(
        self, words: NDArray[np.uint64], n_threads: int, *, narrow: bool = False
    ) -> Counters:
        """Return the counters in words, or in a sum of words; 16 bits each if `narrow`."""
        if words.shape != (int(self.word_ends[-1]),):
            raise ProtocolError("The parties' masked counts have the wrong number of words.")
        n_counters = int(self.cell_ends[-1]) * self.field_bits.shape[1]
        out = SHARED.array(n_counters, np.uint16 if narrow else np.int32)
        self._run(packing.unpack_fields, words, out, n_threads)
        return out

    def _run(
        self, kernel: object, source: NDArray[np.generic], out: NDArray[np.generic], n_threads: int
    ) -> None:
        def task(first: int, last: int) -> None:
            kernel(  # type: ignore[operator]
                source, self.cell_ends, self.field_bits, self.word_ends, first, last, out
            )

        work = np.diff(self.cell_ends, prepend=0) * self.field_bits.shape[1]
        run_ranges(task, equal_ranges(work, n_threads), n_threads)
