"""Which of a party's rows a tree reads, where noise is paid for: decided by secret coins.

A coin is a word of a stream whose key the party drew once for the job. Coins of different rows are
independent and know nothing of the rows, so that a record more or less changes no other's trees.
(Keys made from rows would not do: where rows repeat, one row less renumbers the others.)
"""

import numpy as np
from numpy.typing import NDArray

from spinney.privacy.keys import derive_key
from spinney.privacy.streams import add_stream
from spinney.protocols.settings import PrivacySettings, fraction_of
from spinney.trees.rows import bootstrap_weights
from spinney.typing import Integers


def deal_rows_to_trees(
    privacy: PrivacySettings, n_trees: int, n_rows: int, key: bytes
) -> list[Integers]:
    """Return the rows of every tree, in rising order; a bootstrap's as often as they are drawn.

    Parameters
    ----------
    privacy
        Says how: one tree to a row ("disjoint"), a coin for every row and tree ("sampled"), "all",
        or Poisson(1) times, which are up to twelve ("bootstrap").
    n_trees, n_rows
        How many.
    key
        The secret of the coins; not looked at where all rows are read.
    """
    everything = np.arange(n_rows)
    if privacy.tree_rows == "disjoint":
        tree = (_words(key, 0, n_rows) % np.uint64(n_trees)).astype(np.int64)
        order = np.argsort(tree, kind="stable")
        return np.split(order, np.cumsum(np.bincount(tree, minlength=n_trees))[:-1])
    if privacy.tree_rows == "bootstrap":
        return [np.repeat(everything, _times(_words(key, t, n_rows))) for t in range(n_trees)]
    rate = fraction_of(privacy.sample_rate, "sample_rate")
    bar = (rate.numerator << 64) // rate.denominator  # rounded down: no row has too good a chance
    if privacy.tree_rows == "all" or bar >> 64:
        return [everything] * n_trees
    return [np.flatnonzero(_words(key, tree, n_rows) < np.uint64(bar)) for tree in range(n_trees)]


def _times(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return bootstrap_weights(np.uint64(0), words)


def _words(key: bytes, tree: int, count: int) -> NDArray[np.uint64]:
    """Return a tree's coins, one word for each row."""
    words = np.zeros(count, np.uint64)
    own = derive_key(key, "rows of a tree", job=b"", round_number=tree, names=())
    add_stream([words], own)
    return words
