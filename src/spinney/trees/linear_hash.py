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
_FOR_SMALL: Final = 2  # primes for values of up to 32 bits
_BLOCK: Final = 1024  # values; the keys of a block stay in the core's nearest cache
_PER_ROW: Final = 64  # values whose hash costs about as much as counting a row


def n_hash_keys(vectors: Sequence[Vector]) -> int:
    """Return how many words of key the hash of these vectors takes."""
    return len(PRIMES) * (_BLOCK + sum(map(_n_blocks, vectors)))


def hash_keys(words: NDArray[np.uint64]) -> HashKeys:
    """Return the keys that random words stand for."""
    parts = words.reshape(len(PRIMES), -1)
    return (parts % np.array(PRIMES, np.uint64)[:, None]).astype(np.uint32)


def linear_hash(vectors: Sequence[Vector], keys: HashKeys, n_threads: int) -> tuple[int, ...]:
    """Return one hash of all vectors per prime; unsigned words of 64 bits are not negative."""
    inner, at = keys[:, :_BLOCK], _BLOCK
    totals = [0] * len(PRIMES)
    for vector in vectors:
        if not vector.size:
            continue
        outer = keys[:, at : at + _n_blocks(vector)]
        at += outer.shape[1]
        found = _hash(vector.reshape(-1), inner, outer, n_threads)
        totals = [a + b for a, b in zip(totals, found, strict=True)]
    return tuple(total % prime for total, prime in zip(totals, PRIMES, strict=True))


def _n_blocks(vector: Vector) -> int:
    return -(-vector.size // _BLOCK)


def _hash(flat: Vector, inner: HashKeys, outer: HashKeys, n_threads: int) -> list[int]:
    """Return the hash of a vector modulo each prime; 0 modulo one that it does not need."""
    primes = np.array(PRIMES if flat.itemsize == 8 else PRIMES[:_FOR_SMALL], np.uint64)
    used = np.ascontiguousarray(inner[: primes.size])
    bits = 8 * flat.itemsize
    totals = _hash_unsigned(flat.view(f"u{flat.itemsize}"), used, outer, primes, n_threads)
    if flat.dtype.kind == "i" and flat.min(initial=0) < 0:  # its words stand for 2^bits more
        negative = (flat < 0).astype(np.uint8)
        more = _times(used, 1 << bits, primes)
        totals -= _hash_unsigned(negative, more, outer, primes, n_threads)
    return [*totals.tolist(), 0, 0][: len(PRIMES)]


def _times(keys: HashKeys, factor: int, primes: NDArray[np.uint64]) -> HashKeys:
    """Return keys times a number, modulo their primes."""
    factors = np.array([factor % int(prime) for prime in primes], np.uint64)
    return (keys * factors[:, None] % primes[:, None]).astype(np.uint32)


def _hash_unsigned(
    values: Vector,
    inner: HashKeys,
    outer: HashKeys,
    primes: NDArray[np.uint64],
    n_threads: int,
) -> NDArray[np.int64]:
    if n_threads == 1 or values.size // _PER_ROW <= LITTLE_WORK:
        found = np.zeros(primes.size, np.uint64)
        kernels.hash_blocks(values, inner, outer, primes, 0, outer.shape[1], found)
        return found.astype(np.int64)
    parts: list[NDArray[np.uint64]] = []

    def task(first: int, last: int) -> None:
        totals = np.zeros(primes.size, np.uint64)
        kernels.hash_blocks(values, inner, outer, primes, first, last, totals)
        parts.append(totals)

    work = np.full(outer.shape[1], _BLOCK // _PER_ROW)
    run_ranges(task, equal_ranges(work, n_threads), n_threads)
    return np.sum(parts, axis=0, dtype=np.int64) if parts else np.zeros(primes.size, np.int64)
