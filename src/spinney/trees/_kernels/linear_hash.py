"""A linear hash of integers: the hash of a sum is the sum of the hashes, modulo primes."""

import numpy as np

from spinney.trees._kernels.compiling import kernel

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@kernel
def hash_blocks(values, inner, outer, primes, first, last, totals):
    """Add the sums of outer[i] * inner[j] * values[i * n + j], modulo each prime, for blocks i.

    A block has as many values as there are inner keys, n. Values are not negative; they, the keys
    and the primes fit 32 bits.
    """
    n = inner.shape[1]
    for block in range(first, last):
        begin = block * n
        part = values[begin : min(begin + n, values.shape[0])]
        for number in range(primes.shape[0]):
            keys = inner[number]
            low, high = np.uint64(0), np.uint64(0)
            for i in range(part.shape[0]):
                product = np.uint64(part[i]) * np.uint64(keys[i])
                low += product & _LOW  # of 32 bits, so the sums of 2^32 of them do not overflow
                high += product >> _HALF
            prime = primes[number]
            whole = (low % prime + ((high % prime) << _HALF) % prime) % prime
            totals[number] = (totals[number] + whole * np.uint64(outer[number, block])) % prime
