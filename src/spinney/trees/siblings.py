"""Histograms that need not be asked for: a node's is its parent's less its sibling's.

It works where every node is asked about all features, so that the parent holds what the child
needs, and saves about half the counters that travel.
"""

from dataclasses import dataclass

import numpy as np

from spinney.trees._kernels import siblings as kernels
from spinney.trees.counts import Counters
from spinney.trees.frontier import Frontier, Slots


@dataclass(frozen=True)
class Above:
    """The histograms of the level before."""

    slots: Slots
    counters: Counters
    parties: tuple[str, ...]  # whose rows they count


def with_derived(frontier: Frontier, above: Above, asked: Counters) -> Counters:
    """Return the histograms of all open nodes, given those that were asked for."""
    slots = frontier.slots
    out = np.zeros((slots.n_cells, asked.shape[1]), asked.dtype)
    # Of a pair both are open and stand side by side.
    place = np.arange(frontier.n_open)
    is_first = np.r_[frontier.parent[1:] == frontier.parent[:-1], np.False_]
    sibling = np.where(is_first, place + 1, place - 1)
    kernels.derive(
        slots.feature, slots.cells, slots.offset, frontier.asked.feature, frontier.asked.offset,
        asked, frontier.derived, sibling, frontier.parent, above.slots.feature,
        above.slots.offset, above.counters, out,
    )  # fmt: skip
    return out
