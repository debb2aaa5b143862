"""What a hardened model still tells of its counts, to whoever adds up.

Rows are told as powers of two, and divided among classes in lots. But a node's rows are those of
its classes and those of its children, whole numbers all, so that bounds on one of them bound the
others. Whoever narrows them may be left with one number.
"""

import numpy as np

from spinney.protocols.release_terms import Hardening
from spinney.trees.bounds import narrow
from spinney.trees.forest import Forest
from spinney.typing import Floats, Integers

LOT = 4  # rows; a class that has none of a lot may have one


def smallest_power(smallest_leaf: int) -> int:
    """Return the smallest power of two that is told: more than one number of rows rounds to it."""
    power = 2
    while power * 2**0.5 < smallest_leaf + 1:
        power *= 2
    return power


def lots_of(power: Integers, digits: int) -> Integers:
    """Return into how many lots a node's rows are divided, by the rows that it tells."""
    most = 2 ** int(digits * np.log2(10.0))
    lots: Integers = np.clip(power // LOT, 2, most)
    return lots


def bounds_told(forest: Forest, terms: Hardening, *, is_class: bool) -> tuple[Integers, Integers]:
    """Return the fewest and the most rows of each class, and in the last column of all, by node."""
    counts = forest.moments if is_class else forest.moments[:, :0]
    rows = forest.moments.sum(axis=1) if is_class else forest.moments[:, 0]
    least, most = _rounded_to(counts, rows, terms)
    roots = forest.tree_start[:-1]  # a root is never closed, however few rows it has
    is_small = rows[roots] <= smallest_power(terms.smallest_leaf)
    least[roots[is_small], -1] = 1
    narrow(forest, least, most)
    return least, most


def _rounded_to(counts: Integers, rows: Integers, terms: Hardening) -> tuple[Integers, Integers]:
    """Return the bounds that one node's rounded counts give."""
    smallest = smallest_power(terms.smallest_leaf)
    low = np.where(rows <= smallest, terms.smallest_leaf, np.ceil(rows / 2**0.5))
    high = np.floor(rows * 2**0.5)
    n_classes = counts.shape[1]
    lots = lots_of(rows, terms.value_digits)[:, None]
    share = counts / np.maximum(rows, 1)[:, None]
    # Two classes are rounded to the nearest lot; of more, one may lack or have up to a whole one.
    off: Floats = (0.5 if n_classes <= 2 else 1.0) / lots
    fewest = np.ceil(np.maximum(share - off, 0.0) * low[:, None] - 1e-9)
    largest = np.floor(np.minimum(share + off, 1.0) * high[:, None] + 1e-9)
    least = np.concatenate([fewest, low[:, None]], axis=1).astype(np.int64)
    return least, np.concatenate([largest, high[:, None]], axis=1).astype(np.int64)
