"""Which of a party's rows a tree reads in a private job: secret coins decide.

A coin is a word of a stream whose key the party drew once for the job. Coins of different rows are
independent and do not depend on the rows, so adding or removing a record changes no other record's
trees. (Keys made from rows would not work: among equal rows, removing one renumbers the others.)
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
    """Return the rows of every tree in ascending order; bootstrap rows repeat as often as drawn.

    Parameters
    ----------
    privacy
        Its `tree_rows` says how: one tree per row ("disjoint"), a coin for every row and tree
        ("sampled"), "all", or Poisson(1) times, up to twelve (a Poisson "bootstrap").
    n_trees, n_rows
        How many trees and rows there are.
    key
        The secret key of the coins; unused if all rows are read.
    """
    everything = np.arange(n_rows)
    if privacy.tree_rows == "disjoint":
        tree = (_words(key, 0, n_rows) % np.uint64(n_trees)).astype(np.int64)
        order = np.argsort(tree, kind="stable")
        return np.split(order, np.cumsum(np.bincount(tree, minlength=n_trees))[:-1])
    if privacy.tree_rows == "bootstrap":
        return [np.repeat(everything, _times(_words(key, t, n_rows))) for t in range(n_trees)]
    rate = fraction_of(privacy.sample_rate, "sample_rate")
    bar = (rate.numerator << 64) // rate.denominator  # rounded down: never above the rate
    if privacy.tree_rows == "all" or bar >> 64:
        return [everything] * n_trees
    return [np.flatnonzero(_words(key, tree, n_rows) < np.uint64(bar)) for tree in range(n_trees)]


def _times(words: NDArray[np.uint64]) -> NDArray[np.uint8]:
    return bootstrap_weights(np.uint64(0), words)


def _words(key: bytes, tree: int, count: int) -> NDArray[np.uint64]:
    """Return a tree's coins, one word per row."""
    words = np.zeros(count, np.uint64)
    own = derive_key(key, "rows of a tree", job=b"", round_number=tree, names=())
    add_stream([words], own)
    return words
