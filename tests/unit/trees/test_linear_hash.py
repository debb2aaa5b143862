"""The linear hash is the one its docstring states, for numbers of every size."""

import numpy as np
import pytest

from spinney.trees.linear_hash import PRIMES, Vector, hash_keys, linear_hash, n_hash_keys

BLOCK = 1024


def keys_for(vectors, seed=0):
    words = np.random.default_rng(seed).integers(0, 2**64, n_hash_keys(vectors), np.uint64)
    return hash_keys(words)


def by_hand(vectors, keys):
    totals, at = [0] * len(PRIMES), BLOCK
    for vector in vectors:
        used = len(PRIMES) if vector.itemsize == 8 else 2
        for j, value in enumerate(vector.tolist()):
            for k in range(used):
                key = int(keys[k, at + j // BLOCK]) * int(keys[k, j % BLOCK])
                totals[k] = (totals[k] + key * value) % PRIMES[k]
        at += -(-len(vector) // BLOCK)
    return tuple(totals)


@pytest.mark.parametrize("kind", ["u1", "u2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize("bits", [8, 20, 21, 22, 31, 64])
def test_the_hash_is_its_formula_in_whole_numbers(kind, bits):
    info = np.iinfo(kind)
    most = min(2**bits - 1, info.max)
    vector = np.random.default_rng(1).integers(0, most, 2 * BLOCK + 77, kind, endpoint=True)
    vector[:BLOCK] = most  # the largest sums that a block can have
    if kind.startswith("i"):
        vector[BLOCK + 5] = info.min
    vectors = [vector, vector[:3], vector[:0]]
    keys = keys_for(vectors)
    for n_threads in (1, 2):
        assert linear_hash(vectors, keys, n_threads) == by_hand(vectors, keys)


def test_the_largest_keys_do_not_overflow_either():
    vectors: list[Vector] = [np.full(BLOCK, 2**21 - 1, kind) for kind in (np.uint32, np.uint64)]
    keys = keys_for(vectors)
    keys[:] = np.array(PRIMES, np.uint64)[:, None].astype(np.uint32) - 1
    assert linear_hash(vectors, keys, 1) == by_hand(vectors, keys)


def test_keys_are_the_words_modulo_each_prime():
    edges = [
        0,
        2**32,
        2**63,
        2**64 - 1,
        *(k * p + d for p in PRIMES for k in (1, 2) for d in (-1, 0, 1)),
    ]
    squares = [p * p + d for p in PRIMES for d in (-1, 0, 1)]
    words = np.array([edges + squares] * len(PRIMES), np.uint64)
    expected = [[word % prime for word in edges + squares] for prime in PRIMES]
    assert hash_keys(words.reshape(-1)).tolist() == expected
