"""Exact samplers for the noise distributions, in integers only.

Every distribution is drawn by inversion (`inversion`), or by rejection from such distributions
(`wide_shares`). Nothing is rounded and no tail is cut off, so the samplers' own error (delta) is
zero. There are no floats.

The search takes the same steps for all data: noise is drawn without looking at the data.

With alpha = exp(-decay) and decay = epsilon / sensitivity, the distributions are

=====================  =======================================================================
geometric              P[k] = (1 - alpha) alpha**k, k = 0, 1, ...
share (one-sided)      negative binomial NB(1/t, alpha): the sum of t shares is geometric
share                  the difference of two such; the sum of t shares is discrete Laplace
discrete Laplace       P[k] = (1 - alpha) / (1 + alpha) * alpha**abs(k)
discrete Gaussian      P[k] proportional to exp(-k**2 / (2 variance))
=====================  =======================================================================
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache, partial
from math import isqrt

import numpy as np

from spinney.privacy import entropy, wide_shares
from spinney.privacy.budget import exp_bounds, log_bounds
from spinney.privacy.inversion import InversionTable, Law, invert, uniform_below
from spinney.typing import Bools, Integers

__all__ = [
    "LARGEST_VARIANCE",
    "SMALLEST_DECAY",
    "bernoulli_exp",
    "discrete_gaussian",
    "discrete_laplace",
    "draw_kept",
    "geometric",
    "one_sided_shares",
    "shares",
    "uniform_below",
]

SMALLEST_DECAY = Fraction(1, 2**50)  # noise of about 2**50: sums of it stay below 2**63
LARGEST_VARIANCE = Fraction(2**100)

_WORD = 64
_DIGIT = 256  # radix of the geometric's digits
_TABLE_DECAY = Fraction(1, 4096)  # below, a table of shares would exceed 180,000 entries
_TABLE_VARIANCE = Fraction(4096**2)  # above, a Gaussian's table would exceed 80,000 entries
_BATCH = 1 << 17  # draws per batch: their temporaries stay in the processor's cache


def discrete_laplace(decay: Fraction, count: int) -> Integers:
    """Return draws with P[k] proportional to exp(-decay * abs(k))."""
    return shares(decay, 1, count)


def shares(decay: Fraction, honest: int, count: int) -> Integers:
    """Return draws such that the sum of any `honest` of them is discrete Laplace."""
    return one_sided_shares(decay, honest, count) - one_sided_shares(decay, honest, count)


def one_sided_shares(decay: Fraction, honest: int, count: int) -> Integers:
    """Return draws such that the sum of any `honest` of them is geometric."""
    if honest == 1:
        return geometric(decay, count)
    if decay < _TABLE_DECAY:
        outlives = partial(_outlives, decay)
        return _batched(
            count, lambda size: wide_shares.draw_one_sided(decay, honest, size, outlives)
        )
    return _batched(count, _share_table(decay, honest).draw)


def geometric(decay: Fraction, count: int) -> Integers:
    """Return draws with P[k] = (1 - alpha) alpha**k.

    The digits of a geometric number, in any radix, are independent: digit j has the decay
    decay * radix**j and is below the radix; the leading digit is unbounded.
    """
    lead = _leading_place(decay)
    drawn, place = lead * _batched(count, _share_table(decay * lead, 1).draw), 1
    while place < lead:
        drawn += place * _batched(count, _digit_table(decay * place).draw)
        place *= _DIGIT
    return drawn


def discrete_gaussian(variance: Fraction, count: int) -> Integers:
    """Return draws with P[k] proportional to exp(-k**2 / (2 * variance)).

    A very wide distribution is drawn one by one (Canonne, Kamath and Steinke 2020, algorithm 3): a
    discrete Laplace proposal is kept with probability
    exp(-(abs(k) - variance/t)**2 / (2 variance)).
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
    return invert(_coin(x), int(entropy.words(1)[0]), _WORD) == 0


def draw_kept(epsilon: Fraction, n_categories: int, count: int) -> Bools:
    """Return True with probability e**epsilon / (e**epsilon + n_categories - 1)."""
    return np.equal(_keep_table(epsilon, n_categories).draw(count), 0)


def _batched(count: int, draw: Callable[[int], Integers]) -> Integers:
    drawn = np.empty(count, dtype=np.int64)
    for start in range(0, count, _BATCH):
        part = drawn[start : start + _BATCH]
        part[:] = draw(part.size)
    return drawn


def _outlives(decay: Fraction, number: Integers) -> Bools:
    """Return True with probability exp(-decay * number): a geometric draw is at least `number`.

    Digits are compared from the leading one on; few are needed.
    """
    place = _leading_place(decay)
    lead = _share_table(decay * place, 1).draw(number.size)
    wanted = number // place
    reached = lead > wanted
    left = np.flatnonzero(lead == wanted)
    while left.size and place > 1:
        place //= _DIGIT
        digit = _digit_table(decay * place).draw(left.size)
        wanted = number[left] // place % _DIGIT
        reached[left] = digit > wanted
        left = left[digit == wanted]
    reached[left] = True
    return reached


def _leading_place(decay: Fraction) -> int:
    place = 1
    while decay * place * _DIGIT < 1:
        place *= _DIGIT
    return place


@lru_cache(maxsize=64)
def _share_table(decay: Fraction, honest: int) -> InversionTable:
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

    return InversionTable.of(law)


@lru_cache(maxsize=64)
def _digit_table(decay: Fraction) -> InversionTable:
    """A digit below the radix B: F(k) = (1 - alpha**(k+1)) / (1 - alpha**B)."""

    def law(bits: int) -> Iterator[tuple[int, int]]:
        one = 1 << bits
        end_low, end_high = exp_bounds(decay * _DIGIT, bits)
        for k in range(1, _DIGIT):
            low, high = exp_bounds(decay * k, bits)
            below, above = (one - high) << bits, (one - low) << bits
            yield below // (one - end_low), above // (one - end_high) + 1
        yield one, one

    return InversionTable.of(law)


@lru_cache(maxsize=64)
def _gaussian_table(variance: Fraction) -> InversionTable:
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
        # the omitted weights sum to less than high / (q**-(2k+1) - 1) <= high 2 variance / (2k+1)
        norm_high += 2 * high * (2 + int(2 * variance / (2 * k + 1)))
        sum_low, sum_high, left = 0, 0, enumerate(weights(bits))
        while True:
            k, (low, high) = next(left)
            for _ in range(2 if k else 1):
                sum_low, sum_high = sum_low + low, sum_high + high
                yield (sum_low << bits) // norm_high, -(-(sum_high << bits) // norm_low)

    return InversionTable.of(law)


@lru_cache(maxsize=64)
def _keep_table(epsilon: Fraction, n_categories: int) -> InversionTable:
    """Keep with probability 1 / (1 + (n_categories - 1) exp(-epsilon))."""

    def law(bits: int) -> Iterator[tuple[int, int]]:
        one = 1 << bits
        low, high = exp_bounds(epsilon, bits)
        others = n_categories - 1
        yield (one << bits) // (one + others * high), -(-(one << bits) // (one + others * low))
        yield one, one

    return InversionTable.of(law)


def _coin(x: Fraction) -> Law:
    def law(bits: int) -> Iterator[tuple[int, int]]:
        yield exp_bounds(x, bits)
        yield 1 << bits, 1 << bits

    return law
