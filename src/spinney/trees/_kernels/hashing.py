"""Counter-based draws: the same numbers at every party and in any order.

`mixed` is `spinney.seeds.mix`, compiled; a test keeps them equal.
"""

import numpy as np

from spinney.trees._kernels.compiling import inlined, kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27 = np.uint64(27)
_S30 = np.uint64(30)
_S31 = np.uint64(31)


@inlined
def mixed(word):
    """Return the SplitMix64 finaliser of one word."""
    z = np.uint64(word) + _GOLDEN
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


# A Poisson(1) draw is the number of thresholds below a uniform word: 2^64 * P[X <= k].
# Above 12 the probability is under 1e-10; the weight is capped there (5 bits in a row entry).
_POISSON = np.array(
    [
        6786177901268885274,
        13572355802537770549,
        16965444753172213186,
        18096474403383694065,
        18379231815936564285,
        18435783298447138329,
        18445208545532234003,
        18446555009401533385,
        18446723317385195808,
        18446742018272269410,
        18446743888360976771,
        18446744058369041076,
    ],
    dtype=np.uint64,
)


@inlined
def poisson(word):
    """Return the Poisson(1) draw of a uniform word."""
    weight = np.uint32(word >= _POISSON[0]) + np.uint32(word >= _POISSON[1])
    weight += np.uint32(word >= _POISSON[2])
    if word >= _POISSON[3]:  # one row in fifty: the branch is nearly always predicted correctly
        weight = np.uint32(4)
        while weight < 12 and word >= _POISSON[weight]:
            weight += np.uint32(1)
    return np.uint32(weight)


@kernel
def bootstrap_weights(tree_key, row_keys, out):
    """Write the weight of every row in one tree: a Poisson bootstrap from a hash of the keys."""
    for i in range(row_keys.shape[0]):
        out[i] = poisson(mixed(tree_key ^ row_keys[i]))
