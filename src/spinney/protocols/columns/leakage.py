"""How many labels node membership reveals: the label party measures it, for the report.

Every party of a vertical forest learns which rows are together in a leaf, and rows in a leaf have
similar labels; encryption does not change that. Here the label party plays a curious feature party.
It uses only the leaves of the rows that each tree has drawn. It divides the rows into as many
groups as there are classes (spectral clustering, then k-means), gives each group its most frequent
label, and counts how often that is right. The measure uses the true labels and stays at the label
party; a simulation prints it. A real attacker may do better, and also knows its own columns.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spinney.typing import Bools, Floats, Integers

_MOST_ROWS = 300  # rows that are grouped: enough to estimate a share; time grows with their cube
_AMOUNT_GROUPS = 8
_STEPS = 50


@dataclass(frozen=True)
class LabelLeakage:
    """The share of labels that leaf membership alone reveals."""

    recovered: float  # the share of labels guessed correctly; for amounts, the R2 of group means
    base: float  # the same without looking at any leaf
    n_rows: int  # rows looked at
    is_amount: bool
    label_epsilon: str | None

    def in_words(self) -> str:
        """Return the finding as the report prints it."""
        given = "" if self.label_epsilon is None else (
            f" with label_epsilon={float(Fraction(self.label_epsilon)):g}"
        )  # fmt: skip
        if self.is_amount:
            return (
                f"grouping rows by shared leaves explains {self.recovered:.1%} of the variance of "
                f"the labels{given}, to any party ({self.n_rows} rows looked at)"
            )
        return (
            f"grouping rows by shared leaves recovers {self.recovered:.1%} of the labels{given}, "
            f"to any party; guessing the most frequent one, {self.base:.1%} ({self.n_rows} rows "
            "looked at)"
        )


@dataclass(frozen=True)
class Membership:
    """The leaf of each of some rows, and the trees that drew it."""

    leaves: NDArray[np.uint32]  # (n_trees, n_rows)
    drawn: Bools  # (n_rows, n_trees)
    true_labels: NDArray[np.integer]
    n_classes: int
    label_epsilon: str | None


class Knowing(Protocol):
    """The label party after a job."""

    @property
    def membership(self) -> Membership:
        """What it knows about the rows that the forest was scored on."""
        ...


def measure_label_leakage(party: Knowing) -> LabelLeakage:
    """Measure how many labels a party without them could recover."""
    held = party.membership
    n = held.leaves.shape[1]
    chosen = np.linspace(0, n - 1, min(n, _MOST_ROWS)).astype(np.int64)
    truth = held.true_labels[chosen].astype(np.int64)
    n_groups = held.n_classes or _AMOUNT_GROUPS
    group = group_rows(held.leaves[:, chosen], held.drawn[chosen], n_groups)
    if held.n_classes:
        counts = np.zeros((n_groups, held.n_classes), np.int64)
        np.add.at(counts, (group, truth), 1)
        recovered = counts.max(axis=1).sum() / chosen.size
        base = np.bincount(truth).max() / chosen.size
    else:
        recovered, base = _explained(truth.astype(np.float64), group), 0.0
    return LabelLeakage(
        float(recovered), float(base), int(chosen.size), not held.n_classes, held.label_epsilon
    )


def group_rows(leaves: NDArray[np.uint32], drawn: Bools, n_groups: int) -> Integers:
    """Group rows that often share a leaf."""
    from scipy.linalg import eigh  # noqa: PLC0415  late: every process would load it

    n = leaves.shape[1]
    n_groups = min(n_groups, n)
    together, both = np.zeros((n, n), np.float32), np.zeros((n, n), np.float32)
    for leaf, known in zip(leaves, drawn.T, strict=True):
        rows = np.flatnonzero(known)
        if not rows.size:
            continue
        if rows.size == n:  # without copies of the whole tables
            both += 1
            together += leaf[:, None] == leaf[None, :]
            continue
        place = np.ix_(rows, rows)
        both[place] += 1
        together[place] += leaf[rows][:, None] == leaf[rows][None, :]
    likeness = np.divide(together, both, out=np.eye(n, dtype=np.float32), where=both > 0)
    scale = 1.0 / np.sqrt(np.maximum(likeness.sum(axis=1), 1e-9))
    _, vectors = eigh(  # of the others, which are most of the work, none is needed
        likeness * scale[:, None] * scale[None, :], subset_by_index=(n - n_groups, n - 1)
    )
    points = vectors.astype(np.float64)
    length = np.linalg.norm(points, axis=1, keepdims=True)
    return _nearest_centres(points / np.maximum(length, 1e-12), n_groups)


def _nearest_centres(points: Floats, n_groups: int) -> Integers:
    """Group points by k-means, starting from centres that are far apart."""
    centres = [points[int(np.argmax(np.linalg.norm(points - points.mean(axis=0), axis=1)))]]
    while len(centres) < n_groups:
        nearest = np.min([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
        centres.append(points[int(nearest.argmax())])
    middle = np.array(centres)
    group = np.zeros(len(points), np.int64)
    for _ in range(_STEPS):
        distance = ((points[:, None, :] - middle[None]) ** 2).sum(axis=2)
        found = distance.argmin(axis=1)
        if np.array_equal(found, group):
            break
        group = found
        for one in range(len(middle)):
            if np.any(group == one):
                middle[one] = points[group == one].mean(axis=0)
    return group


def _explained(truth: Floats, group: Integers) -> float:
    """Return the share of variance that lies between groups."""
    spread = float(((truth - truth.mean()) ** 2).sum())
    if spread == 0:
        return 0.0
    within = sum(
        float(((truth[group == one] - truth[group == one].mean()) ** 2).sum())
        for one in np.unique(group)
    )
    return 1.0 - within / spread
