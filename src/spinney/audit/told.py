"""The counts that a model tells its reader, exactly or between the lines.

A hardened model rounds the rows of a node to a power of two, and divides them among classes in
lots. What it may still tell is found by narrowing the bounds on every count.
"""

import numpy as np

from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import Hardening
from spinney.report.hardening import counts_classes
from spinney.report.narrowing import bounds_told
from spinney.typing import Integers

_UNKNOWN = -1


def has_exact_counts(model: ForestModel) -> bool:
    """Return whether some node tells its rows exactly: hardened, all tell a power of two."""
    rows = rows_told(model)
    rows = rows[rows > 0]
    return bool(np.any(rows != 2 ** np.rint(np.log2(rows))))


def rows_told(model: ForestModel) -> Integers:
    """Return how many rows each node says that it has."""
    moments = model.forest.moments
    is_class = model.schema.label.kind == "class"
    rows: Integers = moments.sum(axis=1) if is_class else moments[:, 0]
    return rows


def counts_told(model: ForestModel, *, is_noisy: bool) -> Integers:
    """Return the rows of each class in each node, (n_nodes, n_classes), or -1 if not told.

    A model of numbers has one class. Noise tells no count.
    """
    told = model.forest.moments if counts_classes(model) else model.forest.moments[:, :1]
    if is_noisy:
        return np.full_like(told, _UNKNOWN)
    if has_exact_counts(model):
        return told
    terms = model.released or Hardening()
    least, most = bounds_told(model.forest, terms, is_class=counts_classes(model))
    return np.where(least == most, least, _UNKNOWN)[:, : told.shape[1]]
