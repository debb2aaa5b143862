"""Exact draws from the laws of noise, in integers only.

Every law here is drawn by **inversion**: X is the first k with U < F(k), where U is uniform on
[0, 1) and F the cumulative law. F is irrational, so it is never stored; a table holds the integers
floor(F(k) * 2**64), each proved right by interval arithmetic. A 64-bit word that differs from every
entry decides X. A word that equals one (chance: entries / 2**64) does not; then more bits of U are
drawn and F is bounded more closely until they do. Nothing is rounded and no tail is cut off, so
the samplers' own error (delta) is zero. Floats appear nowhere.

The search takes the same steps whatever the data: noise is drawn without looking at them.

Written alpha = exp(-decay), with decay = epsilon / sensitivity, the laws are

=====================  =======================================================================
geometric              P[k] = (1 - alpha) alpha**k, k = 0, 1, ...
share (one-sided)      negative binomial NB(1/t, alpha): the sum of t shares is geometric
share                  the difference of two such; the sum of t shares is discrete Laplace
discrete Laplace       P[k] = (1 - alpha) / (1 + alpha) * alpha**abs(k)
discrete Gaussian      P[k] proportional to exp(-k**2 / (2 variance))
=====================  =======================================================================
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np

from spinney.privacy import entropy
from spinney.privacy.budget import exp_bounds, log_bounds
from spinney.typing import Bools, Integers, Keys

Law = Callable[[int], Iterator[tuple[int, int]]]
"""bits -> integers around F(0) * 2**bits, around F(1) * 2**bits, and so on."""

SMALLEST_DECAY = Fraction(1, 2**50)  # noise of about 2**50: sums of it stay below 2**63
LARGEST_VARIANCE = Fraction(2**100)

_WORD = 64
_TOP = (1 << _WORD) - 1
_BITS = 192  # precision at which thresholds are computed first; doubled if that is not enough
_DIGIT = 256  # radix of the geometric's digits
_TABLE_DECAY = Fraction(1, 4096)  # below, a table of shares would pass 180,000 entries
_TABLE_VARIANCE = Fraction(4096**2)  # above, a Gaussian's table would pass 80,000 entries
_BATCH = 1 << 16  # draws whose temporaries stay in the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A law ready for bulk inversion."""

    law: Law
    thresholds: Keys  # floor(F(k) * 2**64), up to the first that is 2**64 - 1

    @classmethod
    def of(cls, law: Law) -> "Table":
        """Return the table of a law, raising the precision until every threshold is certain."""
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
            drawn[place] = inverted(self.law, int(words[place]), _WORD)
        return drawn


def inverted(law: Law, known: int, bits: int) -> int:
    """Return the first k with U < F(k), for a uniform U whose first bits are known.

    Parameters
    ----------
    law
        The bounds of F.
    known
        The leading bits of U as an integer below 2**bits.
    bits
        How many bits are known; more are drawn as they are needed.
    """
    while True:
        for k, (low, high) in enumerate(law(bits + _WORD)):
            if (known + 1) << _WORD <= low:
                return k
            if known << _WORD < high:
                break  # F(k) lies within the known bits of U
        known = known << _WORD | int(entropy.words(1)[0])
        bits += _WORD


def discrete_laplace(decay: Fraction, count: int) -> Integers:
    """Return draws with P[k] proportional to exp(-decay * abs(k))."""
    return shares(decay, 1, count)


def shares(decay: Fraction, honest: int, count: int) -> Integers:
    """Return draws of which the sum of any `honest` is discrete Laplace."""
    return one_sided_shares(decay, honest, count) - one_sided_shares(decay, honest, count)


def one_sided_shares(decay: Fraction, honest: int, count: int) -> Integers:
    """Return draws of which the sum of any `honest` is geometric."""
    if honest == 1:
        return geometric(decay, count)
    if decay < _TABLE_DECAY:
        return _batched(count, lambda size: _thinned(decay, honest, size))
    return _batched(count, _share_table(decay, honest).draw)


def geometric(decay: Fraction, count: int) -> Integers:
    """Return draws with P[k] = (1 - alpha) alpha**k.

    A geometric number's digits, in any radix, are independent: digit j has the decay
    decay * radix**j and stops below the radix; the leading one does not stop.
    """
    drawn, place = np.zeros(count, dtype=np.int64), 1
    while decay * place * _DIGIT < 1:
        drawn += place * _batched(count, _digit_table(decay * place).draw)
        place *= _DIGIT
    return drawn + place * _batched(count, _share_table(decay * place, 1).draw)


def discrete_gaussian(variance: Fraction, count: int) -> Integers:
    """Return draws with P[k] proportional to exp(-k**2 / (2 * variance)).

    A very wide law is drawn one by one (Canonne, Kamath and Steinke 2020, algorithm 3): a
    discrete Laplace proposal, kept with probability exp(-(abs(k) - variance/t)**2 / (2 variance)).
    """
    if variance <= _TABLE_VARIANCE:
        folded = _batched(count, _gaussian_table(variance).draw)
        return np.where(folded % 2 == 1, (folded + 1) // 2, -(folded // 2))
    scale = isqrt(variance.numerator // variance.denominator) + 1
    drawn: list[int] = []
    while len(drawn) < count:
        for proposal in discrete_laplace(Fraction(1, scale), count - len(drawn)).tolist():
            distance = abs(proposal) - variance / scale
            if bernoulli_exp(distance**2 / (2 * variance)):
                drawn.append(proposal)
    return np.array(drawn, dtype=np.int64)


def bernoulli_exp(x: Fraction) -> bool:
    """Return True with probability exp(-x), exactly."""
    return inverted(_coin(x), int(entropy.words(1)[0]), _WORD) == 0


def kept(epsilon: Fraction, n_categories: int, count: int) -> Bools:
    """Return True with probability e**epsilon / (e**epsilon + n_categories - 1)."""
    return np.equal(_keep_table(epsilon, n_categories).draw(count), 0)


def uniform_below(bound: int, count: int) -> Integers:
    """Return draws uniform on 0 .. bound - 1, by drawing too many bits and dropping misses."""
    mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
    drawn = entropy.words(count) & mask
    misses = np.flatnonzero(drawn >= np.uint64(bound))
    while misses.size:
        drawn[misses] = entropy.words(misses.size) & mask
        misses = misses[drawn[misses] >= np.uint64(bound)]
    return drawn.astype(np.int64)


def _batched(count: int, draw: Callable[[int], Integers]) -> Integers:
    drawn = np.empty(count, dtype=np.int64)
    for start in range(0, count, _BATCH):
        part = drawn[start : start + _BATCH]
        part[:] = draw(part.size)
    return drawn


def _thinned(decay: Fraction, honest: int, count: int) -> Integers:
    """Return one-sided shares of a decay too small for a table.

    NB(1/t, alpha) is a sum of jumps: for each k >= 1, Poisson(alpha**k / (t k)) jumps of size k.
    Candidates come in blocks [s, 2s), s = 1, 2, 4, ..., each block with the rate alpha**s / t and
    sizes k uniform in it; a candidate is kept with probability s/k * alpha**(k - s). What is kept
    of a Poisson number is Poisson with the product of the rates, which is the rate wanted.
    """
    candidates = _candidates_table(decay, honest).draw(count)
    n_jumps = int(candidates.sum())
    start = np.left_shift(np.int64(1), _block_table(decay).draw(n_jumps))
    size = start + (entropy.words(n_jumps).view(np.int64) & (start - 1))
    size[~((geometric(decay, n_jumps) >= size - start) & _by_ratio(start, size))] = 0
    running = np.concatenate(([0], np.cumsum(size)))
    return np.diff(running[np.cumsum(candidates)], prepend=0)


def _by_ratio(start: Integers, size: Integers) -> Bools:
    """Return True with probability start / size, where start <= size < 2 * start."""
    chosen = np.empty(start.size, dtype=np.bool_)
    left = np.arange(start.size)
    while left.size:  # a uniform number below 2 * start, until it is below size
        number = entropy.words(left.size).view(np.int64) & (2 * start[left] - 1)
        chosen[left] = number < start[left]
        left = left[number >= size[left]]
    return chosen


@lru_cache(maxsize=64)
def _share_table(decay: Fraction, honest: int) -> Table:
    """NB(1/t, alpha): P[0] = (1 - alpha)**(1/t), P[k+1] = P[k] * alpha * (k + 1/t) / (k + 1)."""

    def law(bits: int) -> Iterator[tuple[int, int]]:
        alpha_low, alpha_high = exp_bounds(decay, bits)
        one = 1 << bits
        _, log_high = log_bounds(Fraction(one - alpha_low, one), bits)
        log_low, _ = log_bounds(Fraction(one - alpha_high, one), bits)
        low, _ = exp_bounds(Fraction(-log_low, honest << bits), bits)
        _, high = exp_bounds(Fraction(max(-log_high, 0), honest << bits), bits)
        k, sum_low, sum_high = 0, 0, 0
        while True:
            sum_low, sum_high = sum_low + low, sum_high + high
            yield sum_low, sum_high
            times, over = k * honest + 1, honest * (k + 1) << bits
            low, high = low * alpha_low * times // over, -(-high * alpha_high * times // over)
            k += 1

    return Table.of(law)


@lru_cache(maxsize=64)
def _digit_table(decay: Fraction) -> Table:
    """A digit below the radix B: F(k) = (1 - alpha**(k+1)) / (1 - alpha**B)."""

    def law(bits: int) -> Iterator[tuple[int, int]]:
        one = 1 << bits
        end_low, end_high = exp_bounds(decay * _DIGIT, bits)
        for k in range(1, _DIGIT):
            low, high = exp_bounds(decay * k, bits)
            below, above = (one - high) << bits, (one - low) << bits
            yield below // (one - end_low), above // (one - end_high) + 1
        yield one, one

    return Table.of(law)


@lru_cache(maxsize=64)
def _gaussian_table(variance: Fraction) -> Table:
    """The discrete Gaussian in the order 0, 1, -1, 2, -2, ..."""

    def weights(bits: int) -> Iterator[tuple[int, int]]:
        """Bounds of q**(k*k), q = exp(-1 / (2 variance)), by q**((k+1)**2) = q**(k*k) q**(2k+1)."""
        square_low, square_high = exp_bounds(1 / variance, bits)
        step_low, step_high = exp_bounds(1 / (2 * variance), bits)
        low = high = 1 << bits
        while True:
            yield low, high
            low, high = low * step_low >> bits, -(-high * step_high >> bits)
            step_low = step_low * square_low >> bits
            step_high = -(-step_high * square_high >> bits)

    def law(bits: int) -> Iterator[tuple[int, int]]:
        norm_low, norm_high = -(1 << bits), -(1 << bits)  # zero is counted once, not twice
        left, low = enumerate(weights(bits)), 1
        while low:
            k, (low, high) = next(left)
            norm_low, norm_high = norm_low + 2 * low, norm_high + 2 * high
        # the weights left out sum to less than high / (q**-(2k+1) - 1) <= high 2 variance / (2k+1)
        norm_high += 2 * high * (2 + int(2 * variance / (2 * k + 1)))
        sum_low, sum_high, left = 0, 0, enumerate(weights(bits))
        while True:
            k, (low, high) = next(left)
            for _ in range(2 if k else 1):
                sum_low, sum_high = sum_low + low, sum_high + high
                yield (sum_low << bits) // norm_high, -(-(sum_high << bits) // norm_low)

    return Table.of(law)


@lru_cache(maxsize=64)
def _keep_table(epsilon: Fraction, n_categories: int) -> Table:
    """Keep with probability 1 / (1 + (n_categories - 1) exp(-epsilon))."""

    def law(bits: int) -> Iterator[tuple[int, int]]:
        one = 1 << bits
        low, high = exp_bounds(epsilon, bits)
        others = n_categories - 1
        yield (one << bits) // (one + others * high), -(-(one << bits) // (one + others * low))
        yield one, one

    return Table.of(law)


def _coin(x: Fraction) -> Law:
    def law(bits: int) -> Iterator[tuple[int, int]]:
        yield exp_bounds(x, bits)
        yield 1 << bits, 1 << bits

    return law


def _block_rates(decay: Fraction, bits: int) -> tuple[list[tuple[int, int]], int, int]:
    """Return the bounds of alpha**(2**j), j = 0, 1, ..., and of their sum."""
    rates: list[tuple[int, int]] = []
    while not rates or rates[-1][0]:
        rates.append(exp_bounds(decay * 2 ** len(rates), bits))
    lows, highs = zip(*rates, strict=True)
    return rates, sum(lows), sum(highs) + 1  # each rate left out is the square of the one before


@lru_cache(maxsize=64)
def _block_table(decay: Fraction) -> Table:
    """Which block a candidate jump is in."""

    def law(bits: int) -> Iterator[tuple[int, int]]:
        rates, norm_low, norm_high = _block_rates(decay, bits)
        j, sum_low, sum_high = 0, 0, 0
        while True:
            low, high = rates[j] if j < len(rates) else (0, 1)
            j += 1
            sum_low, sum_high = sum_low + low, sum_high + high
            yield (sum_low << bits) // norm_high, -(-(sum_high << bits) // norm_low)

    return Table.of(law)


@lru_cache(maxsize=64)
def _candidates_table(decay: Fraction, honest: int) -> Table:
    """The number of candidate jumps: Poisson with the blocks' rates summed, over t."""

    def law(bits: int) -> Iterator[tuple[int, int]]:
        _, rate_low, rate_high = _block_rates(decay, bits)
        low, _ = exp_bounds(Fraction(rate_high, honest << bits), bits)
        _, high = exp_bounds(Fraction(rate_low, honest << bits), bits)
        k, sum_low, sum_high = 0, 0, 0
        while True:
            sum_low, sum_high = sum_low + low, sum_high + high
            yield sum_low, sum_high
            k += 1
            over = honest * k << bits
            low, high = low * rate_low // over, -(-high * rate_high // over)

    return Table.of(law)
