"""Small groups: structures of a model that describe fewer than k rows."""

import numpy as np

from spinney.audit.told import has_exact_counts, rows_told
from spinney.protocols.model import ForestModel
from spinney.report.audited import Groups


def groups_of(
    model: ForestModel, least: int, counted: ForestModel | None = None, *, is_noisy: bool = False
) -> Groups:
    """Count structures with fewer than `least` rows.

    Parameters
    ----------
    model
        The model that a reader gets.
    least
        The fewest rows of a group.
    counted
        The same trees with exact counts, if they are known; a hardened model rounds them. Without
        it a rounded count is taken as the most rows that it may stand for.
    is_noisy
        Whether counts carry noise, so that a small one says little about rows.
    """
    exact = not is_noisy and has_exact_counts(model)
    source = model if counted is None else counted
    rows = rows_told(source)
    counts = source.forest.moments
    if counted is None and not exact and not is_noisy:
        rows = np.floor(rows * 2**0.5).astype(np.int64)
    is_leaf = source.forest.feature < 0
    is_class = model.schema.label.kind == "class"
    cells = counts[is_leaf] if is_class else rows[is_leaf, None]
    return Groups(
        least,
        int(rows[is_leaf].min()),
        int(is_leaf.sum()),
        int((rows[is_leaf] < least).sum()),
        int((rows < least).sum()),
        int(((cells > 0) & (cells < least)).sum()),
        exact_counts=exact,
        noisy=is_noisy,
    )
