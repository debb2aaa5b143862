"""Equal rows in different parts of a table.

Equal rows get different keys because a table counts them (see `spinney.tables.table`). A part
counts only its own. So parts exchange the hashes of their rows, a range at a time, and each learns
how often its rows also stand in the parts before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from spinney.seeds import mix
from spinney.typing import Integers, Keys

_RANGE_ROWS = 1 << 22  # hashes of a range: 32 MB
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Earlier:
    """Rows of a part that also stand in parts before it: their hashes, ascending, and how often."""

    hashes: Keys
    times: Integers

    @classmethod
    def nothing(cls) -> "Earlier":
        """Return that no row stands in an earlier part."""
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.int64))

    @classmethod
    def of_ranges(cls, found: Sequence["Earlier"]) -> "Earlier":
        """Join what was found in ranges of hashes, the lowest first."""
        none = cls.nothing()
        return cls(
            np.concatenate([none.hashes, *(each.hashes for each in found)]),
            np.concatenate([none.times, *(each.times for each in found)]),
        )

    def times_of(self, hashes: Keys) -> Integers | None:
        """Return how often each row stands in earlier parts; None if none does."""
        if not self.hashes.size:
            return None
        place = np.searchsorted(self.hashes, hashes).clip(max=self.hashes.size - 1)
        times: Integers = np.where(self.hashes[place] == hashes, self.times[place], 0)
        return times


def hash_ranges(n_rows: int) -> list[tuple[int, int]]:
    """Return ranges of hashes, each with the hashes of at most a few million rows."""
    n_ranges = -(-n_rows // _RANGE_ROWS)
    ends = [2**64 * part // n_ranges for part in range(n_ranges + 1)]
    return list(pairwise(ends))


def within(ordered: Keys, low: int, high: int) -> Keys:
    """Return the hashes of a range, from sorted hashes."""
    first = np.searchsorted(ordered, np.uint64(low))
    last = np.searchsorted(ordered, np.uint64(high - 1), side="right")
    return ordered[first:last]


def earlier_of(parts: Sequence[Keys]) -> list[Earlier]:
    """Return what stands in earlier parts, from the sorted hashes of each part in one range."""
    together = np.concatenate(parts)
    together.sort(kind="stable")  # sorted runs: they are only merged
    if not np.any(together[1:] == together[:-1]):
        return [Earlier.nothing() for _ in parts]
    found, before, times = [], np.zeros(0, np.uint64), np.zeros(0, np.int64)
    for part in parts:
        own, counts = np.unique(part, return_counts=True)
        known = Earlier(before, times).times_of(own)
        known = np.zeros(own.size, np.int64) if known is None else known
        found.append(Earlier(own[known > 0], known[known > 0]))
        before, times = _added(before, times, own, counts.astype(np.int64))
    return found


def _added(hashes: Keys, times: Integers, own: Keys, counts: Integers) -> tuple[Keys, Integers]:
    """Return distinct hashes and how often each was seen, with those of one more part."""
    every, place = np.unique(np.concatenate([hashes, own]), return_inverse=True)
    total = np.zeros(every.size, np.int64)
    np.add.at(total, place, np.concatenate([times, counts]))
    return every, total


def order_digest(hashes: Keys, first: int) -> int:
    """Return a digest of the rows and their places from `first` on.

    The digests of all parts add up, modulo 2^64, to that of the table, however it is cut.
    """
    total = 0
    for start in range(0, hashes.size, _CHUNK):
        chunk = hashes[start : start + _CHUNK]
        places = np.arange(first + start, first + start + chunk.size, dtype=np.uint64)
        total += int(mix(chunk ^ mix(places)).sum())
    return total % 2**64
