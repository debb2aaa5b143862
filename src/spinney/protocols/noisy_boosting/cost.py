"""The most rounds and bytes that boosting from noisy sums takes, from public facts alone."""

from msgspec import UNSET

from spinney.protocols.noisy_boosting.budget import EDGE_CELLS
from spinney.protocols.noisy_boosting.settings import (
    CURVES_ALONE,
    MOST_DEGREE,
    MOST_DEPTH,
    MOST_PASSES,
    MOST_ROUNDS,
    Settings,
)
from spinney.protocols.spec import JobSize
from spinney.trees.bounded_gradients import TARGET_CELLS
from spinney.trees.curves import n_moments, n_terms
from spinney.trees.dtypes import MAX_BINS
from spinney.trees.residuals import RESIDUAL_CELLS

_AROUND = 5  # rounds besides batches: schemas, joining, first facts, a tree's leaves, claims
_HEAD, _NODE = 4096, 64  # bytes of a message besides its arrays, and of a node it repeats


def bound_of(settings: Settings, size: JobSize) -> tuple[int, int]:
    """Return the most rounds and bytes for one batch of trees per round."""
    n_trees = (settings.n_passes or MOST_PASSES) * size.n_columns
    bends = not size.n_classes and settings.privacy.delta is not UNSET
    alone = CURVES_ALONE if bends else 0
    batches = min(MOST_ROUNDS, n_trees + alone)
    if settings.batch_trees is not None:  # beside the trees that count classes in a round
        batches = max(1, alone) + -(-n_trees // settings.batch_trees)
    sums = size.n_classes + 1 if size.n_classes > 2 else 2
    leaves = 8 * n_trees * sums << (settings.max_depth or MOST_DEPTH)
    first = 8 * (max(size.n_classes, TARGET_CELLS) + size.n_columns * EDGE_CELLS)
    schema = 256 * MAX_BINS * size.n_columns
    tree = 0 if settings.tree is None else (8 * sums + _NODE) << settings.tree.max_depth
    terms = n_terms(size.n_columns, MOST_DEGREE)
    curves = 8 * (batches * (terms + RESIDUAL_CELLS) + n_moments(terms)) if bends else 0
    rounds = _AROUND - (settings.tree is None) + batches
    # a sum is told with the next question; a question names the values of all batches so far
    told = 2 * (leaves + first + tree + curves) + (leaves + tree) * (batches + 1)
    told += 8 * terms * batches * (batches + 1) if bends else 0
    return rounds, told + schema + rounds * _HEAD
