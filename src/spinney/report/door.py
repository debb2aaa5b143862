"""The one door through which a model leaves a run.

Whoever writes, sends or draws a model for somebody else asks here first: the hand-out of a deployed
job, the model and the page in a run's folder, `save` and the exports of an estimator, and `spinney
model export`. `docs/export.md` lists them all. A model that left says on which terms (`released`),
so that it is not hardened a second time, and nobody takes more out of it than has left.
"""

from dataclasses import replace

import numpy as np

from spinney.errors import PolicyError
from spinney.protocols.model import ForestModel
from spinney.protocols.release_terms import EXACT, Hardening
from spinney.report.hardening import (
    coarse_counts,
    counts_classes,
    harden,
    holds_exact_rows,
    rows_in,
)


def release(model: ForestModel, terms: Hardening) -> tuple[ForestModel, tuple[str, ...]]:
    """Return the model as it may leave, and a description of each change to it.

    A model that has left before is hardened only if these terms are stricter.
    """
    before = model.released or EXACT
    strictest = terms.with_all([before])
    if strictest == before:
        return model, ()
    changed, done = harden(model, strictest)
    return replace(changed, released=strictest), done


def require_released(model: ForestModel, allowed: Hardening, *, noises_counts: bool) -> None:
    """Raise unless a model that somebody handed out shows no more than a party allows.

    Leaves and counts are looked at; of digits, the model's own word is taken. Only the model of a
    job that adds noise to counts may say that they carry it: noise in rows or labels leaves counts
    exact.
    """
    name = (model.released or EXACT).shows_more_than(allowed)
    if not noises_counts:
        model = replace(model, noise=None)
    if not name and _smallest_child(model) < allowed.smallest_leaf:
        name = "smallest_leaf"
    if not name and not allowed.exact_counts and _has_exact_counts(model):
        name = "exact_counts"
    if name:
        raise PolicyError(
            f"The model that was handed out shows more than this party allows, which is "
            f"{allowed.told(name)}. This party does not keep it."
        )


def _smallest_child(model: ForestModel) -> float:
    """Return the most rows that the smallest node other than a root may have held."""
    left = model.forest.left[model.forest.feature >= 0].astype(np.int64)
    rows = rows_in(model)
    if not left.size or not holds_exact_rows(model):
        return np.inf
    is_rounded = model.released is not None and not model.released.exact_counts
    smallest = float(min(rows[left].min(), rows[left + 1].min()))
    return smallest * np.sqrt(2) if is_rounded else smallest


def _has_exact_counts(model: ForestModel) -> bool:
    """Return whether some node's counts are not a power of two, divided by lots."""
    terms = model.released or EXACT
    rounded = coarse_counts(model.forest.moments, terms, is_class=counts_classes(model))
    return holds_exact_rows(model) and not np.array_equal(rounded, model.forest.moments)
