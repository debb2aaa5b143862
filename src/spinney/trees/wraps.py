"""Weights that name a few cells by one number (Sidon sets and their kin).

Each of the first `most_cells` cells has a weight. All sums of `n_wraps` weights differ modulo
2^`index_bits`, so such a sum names its cells, also if a cell is named twice. The first weight is
0, so a sum of fewer weights is also one of `n_wraps` weights, and names its cells too. The second
weight is 1.

The weights for two and three cells are those of Bose and Chowla (1962), in a form that fits powers
of two: elements that lie close together, so that sums do not reach the modulus, times a number that
makes the second weight 1. Those for two of many cells are Ruzsa's (1993). A test adds up all of
them (`tests/unit/trees/test_fields.py`).
"""

from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spinney.typing import Integers

MOST_WRAPS: Final = 3
MOST_CELLS: Final = 512  # of a slot in which cells are named
PLACE_BITS: Final = 9  # of a cell's number
NOT_NAMED: Final = 0xFF
_NOWHERE: Final = (1 << 32) - 1

_SETS: Final[dict[tuple[int, int], tuple[int, ...]]] = {
    (2, 9): (
        0, 1, 45, 70, 132, 187, 206, 215, 226, 333, 335, 375, 398, 454, 459, 476, 497, 500,
    ),
    (2, 11): (
        0, 1, 51, 90, 198, 303, 513, 628, 645, 674, 680, 885, 949, 1004, 1007, 1023, 1035, 1049,
        1079, 1111, 1152, 1172, 1286, 1288, 1335, 1468, 1481, 1560, 1620, 1726, 1741, 1751, 1794,
        1828, 1861, 2040,
    ),
    (3, 14): (
        0, 1, 2252, 4434, 5581, 5681, 5952, 6063, 7024, 7409, 10778, 10893, 11078, 12012, 12733,
        13228, 14121, 14219, 14954,
    ),
    (3, 17): (
        0, 1, 4010, 4582, 4636, 12066, 19766, 23667, 28105, 29795, 30937, 33222, 35012, 40203,
        44700, 56453, 57170, 58810, 61310, 61878, 67080, 70645, 71436, 76195, 76486, 79839, 80049,
        84323, 85403, 87457, 88741, 91607, 94225, 113117, 117475, 118674, 124450,
    ),
}  # fmt: skip


def _ruzsa(prime: int, root: int, index_bits: int) -> tuple[int, ...]:
    """Return prime - 1 weights for two cells, from a primitive root."""
    powers = [prime * i + (prime - 1) * pow(root, i, prime) for i in range(1, prime)]
    found = [power % (prime * (prime - 1)) for power in powers]
    ordered = [found[0], *sorted(found[1:], key=lambda weight: (weight - found[0]) % 2 == 0)]
    inverse = pow(ordered[1] - ordered[0], -1, 1 << index_bits)
    return tuple((weight - ordered[0]) * inverse % (1 << index_bits) for weight in ordered)


@dataclass(frozen=True)
class Naming:
    """For each number of wraps and of cells: the weights, and what their sums name."""

    index_bits: NDArray[np.uint8]  # (wraps, cells) of a sum; NOT_NAMED: no weights are known
    first_weight: Integers  # (wraps, cells) where the weights begin in `weights`
    first_sum: Integers  # (wraps, cells) where the sums begin in `places`
    weights: NDArray[np.uint32]
    places: NDArray[np.uint32]  # the cells named by each sum, PLACE_BITS each, the last one first


@cache
def naming() -> Naming:
    """Return the weights for every number of wraps and of cells."""
    shape = (MOST_WRAPS + 1, MOST_CELLS + 1)
    bits = np.full(shape, NOT_NAMED, np.uint8)
    first_weight, first_sum = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    bits[0] = 0
    bits[1, 1:] = np.ceil(np.log2(np.arange(1, MOST_CELLS + 1)))
    weights, places = [np.arange(MOST_CELLS)], [np.arange(MOST_CELLS, dtype=np.uint32)]
    sets = _SETS | {(2, 15): _ruzsa(131, 2, 15)}
    for (n_wraps, index_bits), chosen in sorted(sets.items(), reverse=True):  # small ones last
        cells = slice(1, len(chosen) + 1)
        bits[n_wraps, cells] = index_bits
        first_weight[n_wraps, cells] = sum(map(len, weights))
        first_sum[n_wraps, cells] = sum(map(len, places))
        weights.append(np.array(chosen))
        places.append(_places(chosen, n_wraps, index_bits))
    flat = np.concatenate(weights).astype(np.uint32)
    return Naming(bits, first_weight, first_sum, flat, np.concatenate(places))


def _places(weights: tuple[int, ...], n_wraps: int, index_bits: int) -> NDArray[np.uint32]:
    """Return which cells each sum of weights names."""
    places = np.full(1 << index_bits, _NOWHERE, np.uint32)
    chosen = np.array(list(combinations_with_replacement(range(len(weights)), n_wraps)))
    sums = np.array(weights)[chosen].sum(axis=1) & ((1 << index_bits) - 1)
    shifts = PLACE_BITS * np.arange(n_wraps)[::-1]
    places[sums] = (chosen << shifts).sum(axis=1)
    return places
