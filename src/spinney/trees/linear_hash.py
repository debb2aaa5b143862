"""A keyed linear hash of integer vectors: the hash of a sum is the sum of the hashes.

Value j of block i is multiplied by outer[i] * inner[j], modulo a prime just below 2^32. Two vectors
that differ have the same hash with a probability of at most 2 / prime over the choice of the keys,
since their difference is a polynomial of degree 2 in them (Schwartz and Zippel). There are four
primes with independent keys. Values of up to 32 bits are counts, which are not negative: a forged
one that differs from a count by a multiple of a prime does not fit 31 bits and a sign, unless the
count is above 2^31 - 6, so they are hashed modulo two of the primes. Two values of 64 bits may be
equal modulo two primes, but not modulo three; they are hashed modulo all four. So in any case two
independent hashes differ except with a probability of about 2^-62.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from spinney.trees._kernels import linear_hash as kernels
from spinney.trees.threads import LITTLE_WORK, equal_ranges, run_ranges

Vector = NDArray[Any]  # of integers
HashKeys = NDArray[np.uint32]  # (3, n)

PRIMES: Final = (2**32 - 5, 2**32 - 17, 2**32 - 65, 2**32 - 99)
_ALL: Final = np.array(PRIMES, np.uint64)
_FIRST: Final = _ALL[:2]  # primes for values of up to 32 bits
_BLOCK: Final = 1024  # values; the keys of a block stay in the core's nearest cache
_PER_ROW: Final = 4  # values whose hash costs about as much as counting a row in a column


def n_hash_keys(vectors: Sequence[Vector]) -> int:
    """Return how many words of key the hash of these vectors takes."""
    return len(PRIMES) * (_BLOCK + sum(map(_n_blocks, vectors)))


def hash_keys(words: NDArray[np.uint64]) -> HashKeys:
    """Return the keys that random words stand for."""
    parts = words.reshape(len(PRIMES), -1)
    keys = np.empty(parts.shape, np.uint32)
    kernels.below_primes(parts, _ALL, keys)
    return keys


def linear_hash(vectors: Sequence[Vector], keys: HashKeys, n_threads: int) -> tuple[int, ...]:
    """Return one hash of all vectors per prime; unsigned words of 64 bits are not negative."""
    totals, at = np.zeros(len(PRIMES), np.uint64), _BLOCK
    for vector in vectors:
        if vector.size:
            _add_hash(vector.reshape(-1), keys, at, n_threads, totals)
            at += _n_blocks(vector)
    found: list[int] = (totals % _ALL).tolist()
    return tuple(found)


def _n_blocks(vector: Vector) -> int:
    return -(-vector.size // _BLOCK)


def _add_hash(
    flat: Vector, keys: HashKeys, at: int, n_threads: int, totals: NDArray[np.uint64]
) -> None:
    """Add the hash of a vector modulo each prime that it needs; its outer keys begin at `at`."""
    primes = _ALL if flat.itemsize == 8 else _FIRST
    values, n_blocks = flat.view(f"u{flat.itemsize}"), _n_blocks(flat)
    common = (values, keys, _BLOCK, at, primes, flat.dtype.kind == "i")
    if n_threads == 1 or flat.size // _PER_ROW <= LITTLE_WORK:
        kernels.hash_blocks(*common, 0, n_blocks, totals)
        return

    def task(first: int, last: int) -> None:
        found = np.zeros(len(PRIMES), np.uint64)
        kernels.hash_blocks(*common, first, last, found)
        parts.append(found)

    parts: list[NDArray[np.uint64]] = []  # appending is atomic
    run_ranges(task, equal_ranges(np.full(n_blocks, _BLOCK // _PER_ROW), n_threads), n_threads)
    totals += np.sum(parts, axis=0, dtype=np.uint64)
