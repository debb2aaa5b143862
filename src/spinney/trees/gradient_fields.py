"""Sums of gradients as words for masked sums: each counter in as many bits as its sum can need."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError
from spinney.trees._kernels import gradient_fields as kernels
from spinney.trees.counts import Counters
from spinney.trees.frontier import Frontier, Slots
from spinney.trees.histogram import Above
from spinney.typing import Integers

Widths = NDArray[np.uint8]  # (nodes, slots, counters) bits
MOST_BITS = 63


def widths_of(frontier: Frontier, most: Integers, above: Above | None) -> Widths:
    """Return the bits of each counter of the cells that are asked about, slot by slot.

    `most` (nodes, counters) bounds what each open node holds over all parties. `above` are the
    histograms of the nodes' parents, if they are known.
    """
    asked, columns = frontier.asked, frontier.columns
    widths = np.empty((*asked.feature.shape, most.shape[1]), np.uint8)
    none = np.zeros((0, most.shape[1]), np.int64)
    over, sums = (asked, none) if above is None else (above.slots, above.counters)
    kernels.slot_widths(
        asked.feature, asked.add, asked.shift, asked.cells, columns.has_missing,
        frontier.low, frontier.high, frontier.parent,
        over.feature, over.add, over.shift, over.cells, over.offset, sums, most, widths,
    )  # fmt: skip
    return widths


@dataclass(frozen=True)
class GradientFields:
    """The counters of some slots' cells in words."""

    slots: Slots
    widths: Widths

    def __post_init__(self) -> None:
        shape = self.slots.feature.shape
        fits = self.widths.ndim == 3 and self.widths.shape[:2] == shape
        if not fits or int(self.widths.max(initial=0)) > MOST_BITS:
            raise ProtocolError("The question's numbers of bits do not fit its cells.")

    @cached_property
    def _placed(self) -> tuple[Integers, int]:
        places = np.empty((self.slots.n_cells, self.widths.shape[2]), np.int64)
        return places, int(kernels.place(self.slots.cells, self.widths, places))

    def words(self, counters: Counters) -> NDArray[np.uint64]:
        """Return the words of some counters, none of which is negative."""
        places, n_words = self._placed
        if counters.shape != places.shape:
            raise ProtocolError("A party's histograms do not have the cells asked for.")
        words = np.zeros(n_words, np.uint64)
        kernels.fill(counters, places, words)
        return words

    def counters(self, words: NDArray[np.uint64]) -> Integers:
        """Return the counters that words hold."""
        places, n_words = self._placed
        if words.shape != (n_words,):
            raise ProtocolError("The parties' masked counts have the wrong number of words.")
        counters = np.empty(places.shape, np.int64)
        kernels.read(words, self.slots.cells, self.widths, places, counters)
        return counters
