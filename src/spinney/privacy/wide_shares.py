"""Shares of noise that is too wide for a table: NB(1/t, alpha) for a decay below 1/4096.

Sampling is by rejection, exact and in integers. With r = 1/t and c = 1 - r, the distribution is
P[k] = z alpha**k w(k) with w(k) = Gamma(k + r) / (Gamma(r) k!). Numbers below S = 2**14 are drawn
by their own mass, larger ones in blocks [s, 2s), s = 2**j: a uniform number k of the block is kept
with probability

    alpha**(k - s)  *  (s / k)**c  *  rho(k),    rho(k) = w(k) / (w(S) (S / k)**c (1 + e)).

A block is chosen with its mass at s, 2**j alpha**s w(S) (S / s)**c (1 + e), so every k has the
right mass. One table chooses a number or a block; three coins decide whether k is kept: a geometric
number that reaches k - s; Mendo's coin for powers (2019), which tosses s / k itself; and rho, which
is between 1 - 2**-15 and 1 and is computed precisely only if a word falls between these. About two
of three candidates are kept, for every decay.

Kershaw (1983) bounds Gamma(x + 1) / Gamma(x + r) between (x + r/2)**c and
(x - 1/2 + sqrt(r + 1/4))**c, so w(k) / w(S) and (S / k)**c differ by factors between 1 - 1/8S and
(1 + 1/8S)**2: e = 2**-16 + 2**-22 is enough, and rho is at least 1 - 2**-15.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache, lru_cache
from math import comb

import numpy as np

from spinney.privacy import entropy
from spinney.privacy.budget import exp_bounds, log_bounds
from spinney.privacy.inversion import InversionTable, Law, invert, uniform_below
from spinney.typing import Bools, Integers

_FIRST = 14  # the first block begins at 2**14
_SMALL = 1 << _FIRST  # S: each number below it has its own threshold
_EXCESS = Fraction(1, 2**16) + Fraction(1, 2**22)  # e
_SURE = np.uint64((2**15 - 1) << 49)  # words below this are below rho for every k
_GUARD = 64  # additional bits, since logarithms are multiplied by numbers as large as k

Outlives = Callable[[Integers], Bools]


def draw_one_sided(decay: Fraction, honest: int, count: int, outlives: Outlives) -> Integers:
    """Return draws from NB(1/honest, exp(-decay)).

    Parameters
    ----------
    decay, honest, count
        The distribution, and the number of draws.
    outlives
        Returns True with probability exp(-decay * n), for an array of numbers n.
    """
    table = _table(decay, honest)
    drawn = table.draw(count)
    left = np.flatnonzero(drawn >= _SMALL)
    while left.size:
        start = np.left_shift(np.int64(1), drawn[left] - (_SMALL - _FIRST))
        offset = entropy.words(left.size).view(np.int64) & (start - 1)
        size = start + offset
        drawn[left] = size
        kept = np.flatnonzero(outlives(offset))
        kept = kept[_by_power(start[kept], size[kept], honest)]
        kept = kept[_by_rho(size[kept], honest)]
        is_lost = np.ones(left.size, np.bool_)
        is_lost[kept] = False
        left = left[is_lost]
        again = table.draw(left.size)
        drawn[left] = again
        left = left[again >= _SMALL]
    return drawn


def _by_power(start: Integers, size: Integers, honest: int) -> Bools:
    """Return True with probability (start / size)**((honest - 1) / honest).

    In turn n, a coin with probability start / size ends with True; then a coin with probability
    exponent / n ends with False.
    """
    kept, turn = _by_ratio(start, size), 0
    left = np.flatnonzero(~kept)
    while left.size:
        turn += 1
        left = left[uniform_below(honest * turn, left.size) >= honest - 1]
        heads = _by_ratio(start[left], size[left])
        kept[left[heads]] = True
        left = left[~heads]
    return kept


def _by_ratio(start: Integers, size: Integers) -> Bools:
    """Return True with probability start / size, where start <= size < 2 * start."""
    chosen = np.empty(start.size, dtype=np.bool_)
    left = np.arange(start.size)
    while left.size:  # a uniform number below 2 * start, until it is below size
        number = entropy.words(left.size).view(np.int64) & (2 * start[left] - 1)
        chosen[left] = number < start[left]
        left = left[number >= size[left]]
    return chosen


def _by_rho(size: Integers, honest: int) -> Bools:
    """Return True with probability rho."""
    words = entropy.words(size.size)
    kept: Bools = words < _SURE
    for place in np.flatnonzero(~kept):
        kept[place] = invert(_rho(int(size[place]), honest), int(words[place]), 64) == 0
    return kept


@lru_cache(maxsize=64)
def _table(decay: Fraction, honest: int) -> InversionTable:
    """The table of small numbers, followed by the blocks."""
    power = Fraction(honest - 1, honest)

    def masses(bits: int) -> Iterator[tuple[int, int]]:
        """Bounds of alpha**k w(k), then of the blocks' masses."""
        alpha_low, alpha_high = exp_bounds(decay, bits)
        low = high = 1 << bits
        for k in range(_SMALL):
            yield low, high
            times, over = k * honest + 1, honest * (k + 1) << bits
            low, high = low * alpha_low * times // over, -(-high * alpha_high * times // over)
        # now around alpha**S w(S)
        two_low, two_high = log_bounds(Fraction(2), bits)
        for doubled in range(1 << 10):
            shrunk = decay * ((_SMALL << doubled) - _SMALL)
            least = shrunk + power * doubled * Fraction(two_high, 1 << bits)
            most = shrunk + power * doubled * Fraction(two_low, 1 << bits)
            many = (1 + _EXCESS) * (_SMALL << doubled)
            yield (
                int(many * (low * exp_bounds(least, bits)[0] >> bits)),
                -int(-many * -(-high * exp_bounds(most, bits)[1] >> bits)) + 1,
            )

    def all_masses(bits: int) -> tuple[list[tuple[int, int]], int, int]:
        """Return the masses distinguishable from zero, and bounds of the total."""
        found = []
        for place, mass in enumerate(masses(bits)):
            found.append(mass)
            # from here on, a block has less than half the mass of the previous one
            is_past = place > _SMALL and decay * (_SMALL << (place - _SMALL)) > 2
            if is_past and mass[0] == 0:
                break
        lows, highs = zip(*found, strict=True)
        return found, sum(lows), sum(highs) + found[-1][1]

    def law(bits: int) -> Iterator[tuple[int, int]]:
        found, norm_low, norm_high = all_masses(bits)
        place, sum_low, sum_high = 0, 0, 0
        while True:
            low, high = found[place] if place < len(found) else (0, found[-1][1])
            place += 1
            sum_low, sum_high = sum_low + low, sum_high + high
            yield (sum_low << bits) // norm_high, -(-(sum_high << bits) // norm_low)

    return InversionTable.of(law)


def _rho(size: int, honest: int) -> Law:
    """The coin that corrects for the difference between powers and Gamma functions."""

    def law(bits: int) -> Iterator[tuple[int, int]]:
        low, high = _missed_bounds(size, honest, bits)
        one = 1 << (bits + _GUARD)
        yield (
            exp_bounds(Fraction(max(high, 0), one), bits)[0],
            exp_bounds(Fraction(max(low, 0), one), bits)[1],
        )
        yield 1 << bits, 1 << bits

    return law


def _missed_bounds(size: int, honest: int, bits: int) -> tuple[int, int]:
    """Return integers around -ln(rho) * 2**(bits + 64)."""
    work = bits + _GUARD
    power = Fraction(honest - 1, honest)
    # -ln rho = c ln(S / k) + ln(1 + e) - ln(w(k) / w(S))
    ratio = log_bounds(Fraction(_SMALL, size), work)
    excess = log_bounds(1 + _EXCESS, work)
    low = int(power * ratio[0]) - 1 + excess[0]
    high = int(power * ratio[1]) + 1 + excess[1]
    part = Fraction(1, honest)
    for at, sign in ((size + part, -1), (Fraction(size + 1), 1), (_SMALL + part, 1)):
        below, above = _log_gamma_bounds(at, work)
        low, high = low + (below if sign > 0 else -above), high + (above if sign > 0 else -below)
    below, above = _log_gamma_bounds(Fraction(_SMALL + 1), work)
    return low - above, high - below


def _log_gamma_bounds(z: Fraction, bits: int) -> tuple[int, int]:
    """Return integers around (ln Gamma(z) + z - ln(2 pi) / 2) * 2**bits, by Stirling's series.

    The remainder is smaller than the first omitted term. The parts that do not depend on z cancel
    where this is used, and so do the parts linear in z.
    """
    log_low, log_high = log_bounds(z, bits)
    factor = z - Fraction(1, 2)
    series, m = Fraction(0), 1
    while True:
        term = _bernoulli(2 * m) / (2 * m * (2 * m - 1) * z ** (2 * m - 1))
        if abs(term) * (1 << bits) < 1:
            break
        series, m = series + term, m + 1
    low = factor * log_low + series * (1 << bits)
    high = factor * log_high + series * (1 << bits)
    return low.numerator // low.denominator - 1, -(-high.numerator // high.denominator) + 1


@cache
def _bernoulli(n: int) -> Fraction:
    """Return the n-th Bernoulli number."""
    if n == 0:
        return Fraction(1)
    return -sum((comb(n + 1, k) * _bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)
