"""Modelling randomness: one job seed becomes independent, counter-based streams.

Everything here is public and repeatable: bootstraps, feature draws, deals. Noise, masks and keys
never come from here (see `spinney.privacy.entropy`).

The hash is the finaliser of SplitMix64 (Steele, Lea, Flood 2014); `trees._kernels` holds the same
three lines compiled, and a test keeps the two equal.
"""

from numbers import Integral
from typing import Any

import numpy as np

from spinney.errors import SettingError
from spinney.typing import Integers, Keys, Values

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_CELLS_AT_ONCE = 16384  # of rows being hashed: as words they fit a core's cache


def mix(words: Keys) -> Keys:
    """Return a well-mixed 64-bit hash of each word."""
    z = words + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


def derive_seed(seed: int, *path: int) -> int:
    """Return the seed of the stream at `path` below `seed`."""
    state = np.array([seed], dtype=np.uint64)
    for step in path:
        state = mix(state ^ mix(np.array([step], dtype=np.uint64)))
    return int(state[0])


def generator(seed: int) -> np.random.Generator:
    """Return the one kind of generator that modelling code uses."""
    return np.random.default_rng(seed)


def job_seed(random_state: Any) -> int:
    """Return a 63-bit seed from an integer, None, or a numpy generator of either kind."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**62))
    if not isinstance(random_state, Integral) or isinstance(random_state, bool):
        raise SettingError(
            "random_state must be a whole number, None, or a numpy generator; "
            f"got {random_state!r}."
        )
    return int(random_state) & (2**63 - 1)


def row_hashes(values: Values, target: np.ndarray[Any, Any]) -> Keys:
    """Return a hash of each row's content; it is the same at every party.

    All missing values hash alike, and so do the two zeros.
    """
    state = np.zeros(target.shape[0], dtype=np.uint64)
    shifted = np.empty_like(state)
    height = max(1, _CELLS_AT_ONCE // max(1, state.size))
    for first in range(0, len(values), height):
        part = values[first : first + height] + np.float32(0.0)
        part[np.isnan(part)] = np.nan
        for word in part.view(np.uint32).astype(np.uint64):
            # In place: thousands of short columns would mostly make arrays.
            state ^= word
            state *= _MIX_1
            np.right_shift(state, np.uint64(29), out=shifted)
            state ^= shifted
    words = (np.asarray(target, dtype=np.float64) + 0.0).view(np.uint64)
    return mix(state ^ mix(words))


def row_keys(hashes: Keys, earlier: Integers | None = None) -> Keys:
    """Return a key for every row: its hash, made distinct for repeats of the same row.

    The set of keys does not depend on the order of the rows. If these rows are only a part of a
    table, `earlier` says how often each of them stands in the parts before.
    """
    ordered = np.sort(hashes)
    if earlier is None and (ordered.size < 2 or not np.any(ordered[1:] == ordered[:-1])):
        return hashes
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    run_start = np.repeat(starts, np.diff(np.r_[starts, ordered.size]))
    repeat = (np.arange(ordered.size) - run_start).astype(np.uint64)
    if earlier is not None:
        repeat += earlier[order].astype(np.uint64)
    keys = np.empty_like(hashes)
    keys[order] = np.where(repeat == 0, ordered, mix(ordered ^ mix(repeat)))
    return keys
