"""Gaussian differential privacy, read as (epsilon, delta) in integer arithmetic, rounded up.

Releases with Gaussian noise are together exactly as private as one number with unit noise that a
record moves by mu, where mu**2 is the sum of (sensitivity / deviation)**2 over the releases (Dong,
Roth and Su 2022, *Gaussian differential privacy*, corollary 2). They are (epsilon, delta)-private
for every epsilon, with

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)

(Balle and Wang 2018, theorem 8), which is the smallest delta there is. A ledger counts
a = mu**2 / 2, which is also their rho of zCDP. `docs/gaussian-budgets.md` proves that discrete
Gaussian noise, in shares too, may be counted so.
"""

from fractions import Fraction
from functools import cache, lru_cache
from math import isqrt

from spinney.errors import InternalError
from spinney.privacy.budget import exp_bounds, positive_epsilon, probability

_BITS = 192  # working precision of every bound in this file
_FAR = 30  # from here on, the normal law's tail is below 2**-640
_ROUNDING = 1 << 64  # amounts and epsilons that are searched for are multiples of 2**-64


def gaussian_delta(amount: Fraction, epsilon: Fraction) -> Fraction:
    """Return delta(epsilon) for mu**2 / 2 = `amount`, rounded up."""
    if amount < 0 or epsilon < 0:
        raise InternalError(f"amount and epsilon must be at least 0; got {amount} and {epsilon}.")
    if amount == 0:
        return Fraction(0)
    mu = _root_up(2 * amount)  # delta grows with mu
    _, near = normal_bounds(mu / 2 - epsilon / mu)
    far, _ = normal_bounds(-mu / 2 - epsilon / mu)
    _, shrunk = exp_bounds(epsilon, _BITS)  # 1 / exp(epsilon), rounded up
    found = Fraction(near, 1 << _BITS) - Fraction(far, shrunk)
    return min(max(found, Fraction(1, 1 << _BITS)), Fraction(1))


@lru_cache(maxsize=256)
def gaussian_epsilon(amount: Fraction, delta: Fraction) -> Fraction:
    """Return the smallest epsilon at which delta(epsilon) is at most `delta`, rounded up."""
    wanted = probability(delta)
    if gaussian_delta(amount, Fraction(0)) <= wanted:
        return Fraction(0)
    high = Fraction(1)
    while gaussian_delta(amount, high) > wanted:
        high *= 2
    low, top = 0, high.numerator * _ROUNDING
    while top - low > 1:
        middle = (low + top) // 2
        if gaussian_delta(amount, Fraction(middle, _ROUNDING)) <= wanted:
            top = middle
        else:
            low = middle
    return Fraction(top, _ROUNDING)


@lru_cache(maxsize=256)
def gaussian_amount(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return the largest mu**2 / 2 that is (epsilon, delta)-private, rounded down."""
    limit, wanted = positive_epsilon(epsilon), probability(delta)
    high = Fraction(1)
    while gaussian_delta(high, limit) <= wanted:
        high *= 2
    low, top = 0, high.numerator * _ROUNDING
    while top - low > 1:
        middle = (low + top) // 2
        if gaussian_delta(Fraction(middle, _ROUNDING), limit) <= wanted:
            low = middle
        else:
            top = middle
    return Fraction(low, _ROUNDING)


def normal_bounds(x: Fraction) -> tuple[int, int]:
    """Return integers low <= Phi(x) * 2**192 <= high, a few units apart.

    Phi(x) = 1/2 + phi(x) (x + x**3/3 + x**5/15 + ...), whose terms all have the sign of x.
    """
    if x < 0:
        low, high = normal_bounds(-x)
        return (1 << _BITS) - high, (1 << _BITS) - low
    if x > _FAR:
        return (1 << _BITS) - 1, 1 << _BITS
    # the series is about exp(x**2 / 2) and the density as small: both need that many bits more
    more = int(x * x) + 64
    work = _BITS + 2 * more
    x_low = (x.numerator << work) // x.denominator
    x_high = x_low + 1
    square_low, square_high = x_low * x_low >> work, (x_high * x_high >> work) + 1
    low = high = 0
    term_low, term_high, n = x_low, x_high, 1
    while term_high > 1:
        low, high = low + term_low, high + term_high
        n += 2
        term_low = term_low * square_low // (n << work)
        term_high = term_high * square_high // (n << work) + 1
    # from here on each term is less than half of the one before: n > 2 x**2 by then
    high += 2 * term_high
    small_low, small_high = exp_bounds(x * x / 2, work)
    root_low, root_high = _root_of_two_pi(work)
    half = 1 << (work - 1)
    low = half + (low * small_low // root_high)
    high = half + (high * small_high // root_low + 1)
    return low >> (work - _BITS), min(1 << _BITS, -(-high >> (work - _BITS)))


@cache
def _root_of_two_pi(bits: int) -> tuple[int, int]:
    """Return integers around sqrt(2 pi) * 2**bits."""
    low, high = _pi_bounds(bits + 8)
    return isqrt(low << (bits - 7)), isqrt(high << (bits - 7)) + 1


def _pi_bounds(bits: int) -> tuple[int, int]:
    """Return integers around pi * 2**bits: pi = 16 atan(1/5) - 4 atan(1/239) (Machin 1706)."""
    work = bits + 32
    five_low, five_high = _atan_bounds(5, work)
    other_low, other_high = _atan_bounds(239, work)
    low, high = 16 * five_low - 4 * other_high, 16 * five_high - 4 * other_low
    return low >> 32, -(-high >> 32)


def _atan_bounds(inverse: int, bits: int) -> tuple[int, int]:
    """Return integers around atan(1 / inverse) * 2**bits, by an alternating series."""
    power, total, n = (1 << bits) // inverse, 0, 1
    while power:
        total += power // n if n % 4 == 1 else -(power // n)
        power //= inverse * inverse
        n += 2
    return total - n, total + n  # every term is floored twice; the rest is below one unit


def _root_up(value: Fraction) -> Fraction:
    """Return a square root, rounded up to a multiple of 2**-192."""
    scaled = -(-(value.numerator << (2 * _BITS)) // value.denominator)
    return Fraction(isqrt(scaled) + 1, 1 << _BITS)
