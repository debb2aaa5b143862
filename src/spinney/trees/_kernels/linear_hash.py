"""A linear hash of integers: the hash of a sum is the sum of the hashes, modulo primes."""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_SMALL = np.uint64(21)  # bits; 2048 products of such a value and a key fit 64 bits


@inlined
def _whole(low, high, prime):
    """Return `low` plus 2^32 times `high`, modulo a prime."""
    return (low % prime + ((high % prime) << _HALF) % prime) % prime


@inlined
def _add_block(total, low, high, outer, prime):
    """Add `low` plus 2^32 times `high`, times the block's key, modulo a prime."""
    return (total + _whole(low, high, prime) * np.uint64(outer)) % prime


@inlined
def _power(top, prime):
    """Return two to the power of `top` plus one, at most 64, modulo a prime."""
    return ((np.uint64(1) << top) % prime * np.uint64(2)) % prime


@inlined
def _product(keys, more, outer, prime):
    """Return the product of three numbers modulo a prime of 32 bits; the latter two are below."""
    return ((keys % prime) * more % prime) * np.uint64(outer) % prime


@kernel
def below_primes(words, primes, out):
    """Write each line of words modulo its prime.

    A prime is 2^32 less a number `c` below 256, so 2^32 is worth `c`. After two steps a word is
    below 2^32 + 2^16, which is less than two primes. (A division would take ten times as long.)
    """
    for line in range(words.shape[0]):
        prime = np.uint64(primes[line])
        c = (np.uint64(1) << _HALF) - prime
        for i in range(words.shape[1]):
            word = np.uint64(words[line, i])
            word = (word & _LOW) + (word >> _HALF) * c
            word = (word & _LOW) + (word >> _HALF) * c
            out[line, i] = np.uint32(word - prime if word >= prime else word)


@kernel
def hash_blocks(values, keys, n, at, primes, may_be_negative, first, last, totals):
    """Add the sums of outer[i] * inner[j] * values[i * n + j], modulo each prime, for blocks i.

    A line of keys holds the n inner keys, at most 2048, and from `at` on an outer key for each
    block. Values are words; if they may be negative, the upper half of them stands for numbers that
    are 2^bits less. The keys and the primes fit 32 bits. The number of primes is even: a value that
    is read is used twice.
    """
    top = np.uint64(8 * values.itemsize - 1)
    for block in range(first, last):
        begin = block * n
        part = values[begin : min(begin + n, values.shape[0])]
        bits = np.uint64(0)
        for i in range(part.shape[0]):
            bits |= np.uint64(part[i])
        if bits == 0:
            continue  # as most counts of wide tables are
        for a in range(0, primes.shape[0], 2):
            b = a + 1
            keys_a, keys_b = keys[a], keys[b]
            low_a, high_a = np.uint64(0), np.uint64(0)
            low_b, high_b = np.uint64(0), np.uint64(0)
            if bits >> _SMALL == 0:
                for i in range(part.shape[0]):
                    value = np.uint64(part[i])
                    low_a += value * np.uint64(keys_a[i])
                    low_b += value * np.uint64(keys_b[i])
            elif bits >> _HALF == 0:
                for i in range(part.shape[0]):
                    value = np.uint64(part[i])
                    product_a = value * np.uint64(keys_a[i])
                    product_b = value * np.uint64(keys_b[i])
                    low_a += product_a & _LOW  # the sums of 2^32 numbers of 32 bits fit 64
                    high_a += product_a >> _HALF
                    low_b += product_b & _LOW
                    high_b += product_b >> _HALF
            else:  # the low halves and, times 2^32, the high halves
                upper_a, top_a = np.uint64(0), np.uint64(0)
                upper_b, top_b = np.uint64(0), np.uint64(0)
                for i in range(part.shape[0]):
                    low, high = np.uint64(part[i]) & _LOW, np.uint64(part[i]) >> _HALF
                    product_a = low * np.uint64(keys_a[i])
                    product_b = low * np.uint64(keys_b[i])
                    low_a += product_a & _LOW
                    high_a += product_a >> _HALF
                    low_b += product_b & _LOW
                    high_b += product_b >> _HALF
                    product_a = high * np.uint64(keys_a[i])
                    product_b = high * np.uint64(keys_b[i])
                    upper_a += product_a & _LOW
                    top_a += product_a >> _HALF
                    upper_b += product_b & _LOW
                    top_b += product_b >> _HALF
                high_a += _whole(upper_a, top_a, primes[a])
                high_b += _whole(upper_b, top_b, primes[b])
            totals[a] = _add_block(totals[a], low_a, high_a, keys_a[at + block], primes[a])
            totals[b] = _add_block(totals[b], low_b, high_b, keys_b[at + block], primes[b])
            if may_be_negative and bits >> top:
                below_a, below_b = np.uint64(0), np.uint64(0)
                for i in range(part.shape[0]):
                    is_below = np.uint64(part[i]) >> top
                    below_a += is_below * np.uint64(keys_a[i])
                    below_b += is_below * np.uint64(keys_b[i])
                more_a, more_b = _power(top, primes[a]), _power(top, primes[b])
                outer_a, outer_b = keys_a[at + block], keys_b[at + block]
                totals[a] += primes[a] - _product(below_a, more_a, outer_a, primes[a])
                totals[b] += primes[b] - _product(below_b, more_b, outer_b, primes[b])
