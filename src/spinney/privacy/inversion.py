"""Inversion sampling from any integer distribution whose cumulative sums can be bounded.

X is the first k with U < F(k), where U is uniform on [0, 1) and F is the cumulative distribution. F
is irrational, so it is never stored; a table holds the integers floor(F(k) * 2**64), each proved
correct by interval arithmetic. A 64-bit word that differs from every entry decides X. A word that
equals one (probability: entries / 2**64) does not; then more bits of U are drawn and F is bounded
more closely until they decide X. Nothing is rounded and no tail is cut off.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from spinney.privacy import entropy
from spinney.typing import Integers, Keys

Law = Callable[[int], Iterator[tuple[int, int]]]
"""bits -> integers around F(0) * 2**bits, around F(1) * 2**bits, and so on."""

_WORD = 64
_TOP = (1 << _WORD) - 1
_BITS = 192  # initial precision of the thresholds; doubled if it is not enough


@dataclass(frozen=True, slots=True, eq=False)
class InversionTable:
    """A distribution prepared for bulk inversion."""

    law: Law
    thresholds: Keys  # floor(F(k) * 2**64), up to the first that is 2**64 - 1

    @classmethod
    def of(cls, law: Law) -> "InversionTable":
        """Return the table of a law; raise the precision until every threshold is certain."""
        bits = _BITS
        while True:
            thresholds: list[int] = []
            for bounds in law(bits):
                low, high = (min(bound >> (bits - _WORD), _TOP) for bound in bounds)
                if low != high:
                    break
                thresholds.append(low)
                if low == _TOP:
                    return cls(law, np.array(thresholds, dtype=np.uint64))
            bits *= 2

    def draw(self, count: int) -> Integers:
        """Return `count` independent draws."""
        words = entropy.words(count)
        drawn = np.searchsorted(self.thresholds, words)
        for place in np.flatnonzero(self.thresholds[drawn] == words):  # practically never
            drawn[place] = invert(self.law, int(words[place]), _WORD)
        return drawn


def invert(law: Law, known: int, bits: int) -> int:
    """Return the first k with U < F(k), for a uniform U whose first bits are known.

    Parameters
    ----------
    law
        The bounds of F.
    known
        The leading bits of U as an integer below 2**bits.
    bits
        How many bits are known; more are drawn as needed.
    """
    while True:
        for k, (low, high) in enumerate(law(bits + _WORD)):
            if (known + 1) << _WORD <= low:
                return k
            if known << _WORD < high:
                break  # the known bits of U do not decide U < F(k)
        known = known << _WORD | int(entropy.words(1)[0])
        bits += _WORD


def uniform_below(bound: int, count: int) -> Integers:
    """Return uniform draws on 0 .. bound - 1, by rejection."""
    mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
    drawn = entropy.words(count) & mask
    misses = np.flatnonzero(drawn >= np.uint64(bound))
    while misses.size:
        drawn[misses] = entropy.words(misses.size) & mask
        misses = misses[drawn[misses] >= np.uint64(bound)]
    return drawn.astype(np.int64)
