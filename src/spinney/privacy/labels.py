"""Labels randomised once, bit by bit (local DP): the paper's Bloom filters, and unary encoding.

A class becomes a string of bits; each bit is reported falsely with some probability. Class counts
are estimated from sums of reported bits, since the encoding is known. `RandomisedResponse`
(`mechanisms`) is the third way, and the best for few classes.

===============  ==========================================================  =====================
BloomResponse    32 bits, 4 hashes; permanent, then instantaneous response   8 ln 3 per label
UnaryResponse    a bit for each class, its own a fair coin                   pure epsilon per label
===============  ==========================================================  =====================

Reports are words of 32 bits, as integers, (n_labels, n_words).
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from math import exp
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import InternalError, SettingError
from spinney.privacy import samplers
from spinney.privacy.budget import Cost, Measure, Unit, log_bounds, positive_epsilon
from spinney.privacy.release import Mechanism
from spinney.typing import Bools, Floats, Integers

WORD: Final = 32
_BITS: Final = 96
_SALTS: Final = 64  # choices of hash functions to compare
_LARGEST_CONDITION: Final = 1e4


@dataclass(frozen=True, slots=True)
class BloomResponse(Mechanism):
    """S5's scheme, which is RAPPOR (Erlingsson, Pihur and Korolova 2014) with h = 4, f = 1/2.

    A class sets up to 4 of 32 bits. The permanent response keeps each bit with probability p = 1/2
    and otherwise replaces it by a fair coin. The instantaneous response reports each of its bits
    unchanged with probability xi = 0.8, otherwise flipped (zeta = 0.2). Both are drawn once: fresh
    instantaneous responses in every round would soon average to the permanent one. The charge is
    the cost of the permanent response, 2 h ln((1 - f/2) / (f/2)) = 8 ln 3, which covers any number
    of reports.

    Parameters
    ----------
    n_classes
        How many classes must be distinguished; at most 32, since there are 32 equations.
    """

    norm: ClassVar[str] = "none"
    n_hashes: ClassVar[int] = 4
    n_words: ClassVar[int] = 1
    n_classes: int
    unit: Unit = Unit.LABEL

    def __post_init__(self) -> None:
        _require_classes(self.n_classes)
        if self.n_classes > WORD or not np.isfinite(_condition(bloom_filters(self.n_classes))):
            raise SettingError(
                f"Bloom filters of {WORD} bits cannot distinguish {self.n_classes} classes. Use "
                "label_scheme='unary', which has a bit for each, or 'randomised_response'."
            )

    @property
    def n_bits(self) -> int:
        """How many bits a report has."""
        return WORD

    @property
    def one_probability(self) -> float:
        """The probability that a set bit is reported as set: q* = 0.65."""
        return _KEPT * _XI + (1 - _KEPT) * _ZETA

    @property
    def other_probability(self) -> float:
        """The probability that an unset bit is reported as set: p* = 0.35."""
        return _KEPT * _ZETA + (1 - _KEPT) * _XI

    def cost(self, n_values: int = 1) -> Cost:  # noqa: ARG002
        """Return 2 h ln 3, rounded up: a label is in one row, however many are reported."""
        _, high = log_bounds(Fraction(3), _BITS)
        return Cost(Measure.PURE, 2 * self.n_hashes * Fraction(high, 1 << _BITS), self.unit)

    def _check(self, values: Integers) -> None:
        _require_labels(values, self.n_classes)

    def _randomised(self, values: Integers) -> Integers:
        bits = bloom_filters(self.n_classes)[values] == 1.0
        # Two fair coins are both heads with probability 1/4: kept half the time, else a coin.
        coins = samplers.uniform_below(4, bits.size).reshape(bits.shape)
        bits ^= coins == 0
        bits ^= (samplers.uniform_below(5, bits.size) == 0).reshape(bits.shape)
        return _packed(bits).astype(np.int64)


_KEPT: Final = 0.75  # probability that the permanent response leaves a bit unchanged: 1/2 + 1/4
_XI: Final = 0.8
_ZETA: Final = 0.2


@dataclass(frozen=True, slots=True)
class UnaryResponse(Mechanism):
    """Optimised unary encoding (Wang, Blocki, Li and Jha 2017), for many classes.

    A label is a bit for each class. The bit of the label's class is a fair coin; every other bit is
    set with probability 1 / (e**epsilon + 1). The error of a count does not grow with the number of
    classes.

    Parameters
    ----------
    epsilon
        The pure cost of a label.
    n_classes
        How many classes there are.
    """

    norm: ClassVar[str] = "none"
    epsilon: Fraction
    n_classes: int
    unit: Unit = Unit.LABEL

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_epsilon(self.epsilon))
        _require_classes(self.n_classes)

    @property
    def n_bits(self) -> int:
        """How many bits a report has."""
        return self.n_classes

    @property
    def n_words(self) -> int:
        """How many words hold them."""
        return -(-self.n_classes // WORD)

    @property
    def other_probability(self) -> float:
        """The probability that the bit of another class is set: q."""
        return 1 / (exp(self.epsilon) + 1)

    def cost(self, n_values: int = 1) -> Cost:  # noqa: ARG002
        """Return epsilon: a label is in one row, however many are reported."""
        return Cost(Measure.PURE, self.epsilon, self.unit)

    def estimated_shares(self, sums: Floats) -> Floats:
        """Return unbiased class shares from mean reported bits; some may be negative."""
        q = self.other_probability
        return (sums - q) / (0.5 - q)

    def _check(self, values: Integers) -> None:
        _require_labels(values, self.n_classes)

    def _randomised(self, values: Integers) -> Integers:
        shape = (values.size, self.n_classes)
        bits: Bools = ~samplers.draw_kept(self.epsilon, 2, values.size * self.n_classes).reshape(
            shape
        )
        bits[np.arange(values.size), values] = samplers.uniform_below(2, values.size) == 1
        return _packed(bits).astype(np.int64)


@lru_cache
def bloom_filters(n_classes: int) -> Floats:
    """Return the classes' filters, (n_classes, 32) of 0 and 1.

    The hash functions are public and can be chosen freely: of a few, those that distinguish the
    classes best.
    """
    tried = (_filters(n_classes, salt) for salt in range(_SALTS))
    return min(tried, key=_condition)


def _filters(n_classes: int, salt: int) -> Floats:
    filters = np.zeros((n_classes, WORD))
    for label in range(n_classes):
        digest = sha256(f"spinney label {salt} {label}".encode()).digest()
        filters[label, [byte % WORD for byte in digest[: BloomResponse.n_hashes]]] = 1.0
    return filters


def _condition(filters: Floats) -> float:
    """Return how much class counts amplify noise in the bits, to nine digits.

    Many filters are equally good. The last bits, which depend on the processor, do not decide
    between them: all parties choose the same.
    """
    if len(filters) > WORD or np.linalg.matrix_rank(filters) < len(filters):
        return np.inf
    found = round(float(np.linalg.cond(filters)), 9)
    return found if found <= _LARGEST_CONDITION else np.inf


def _packed(bits: NDArray[np.floating] | Bools) -> NDArray[np.uint32]:
    """Return rows of bits as words, the first bit lowest."""
    n_words = -(-bits.shape[1] // WORD)
    padded = np.zeros((len(bits), n_words * WORD), np.uint8)
    padded[:, : bits.shape[1]] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u4").astype(np.uint32)


def unpack_bits(words: NDArray[np.uint32], n_bits: int) -> Floats:
    """Return the bits of words, (n_labels, n_bits) of 0 and 1."""
    flat = np.ascontiguousarray(words.astype("<u4")).view(np.uint8)
    return np.unpackbits(flat, axis=1, bitorder="little")[:, :n_bits].astype(np.float64)


def _require_classes(n_classes: int) -> None:
    if isinstance(n_classes, bool) or not isinstance(n_classes, int) or n_classes < 2:
        raise SettingError(f"n_classes must be a whole number of at least 2; got {n_classes!r}.")


def _require_labels(values: Integers, n_classes: int) -> None:
    if values.ndim != 1 or (values.size and not 0 <= values.min() <= values.max() < n_classes):
        raise InternalError(f"Labels must be one line of numbers from 0 to {n_classes - 1}.")
