"""The questions of horizontal forests that are answered with noise.

**Who learns what.** See `row_forest.noisy_rows`.
"""

from typing import Any, ClassVar, Final

import numpy as np

from spinney.protocols.accounts.replies import NoisyReply, Signed
from spinney.protocols.row_forest.budget import ForestPlan
from spinney.protocols.rows.facts import public_binning
from spinney.protocols.rows.levels import GrowingJob, OpenNodes, frontier_after
from spinney.protocols.settings import ForestSettings
from spinney.tables.schema import Schema
from spinney.transport.channel import Ask
from spinney.transport.messages import kept_beside, message
from spinney.trees.forest import Forest
from spinney.trees.layout import LeafValues, forest_of_leaves
from spinney.trees.level import Level, splits_only
from spinney.typing import Integers

UNKNOWN_ROWS: Final = 2**31 - 1  # the number of rows is not asked


@message
class NoisyLevelAsk(OpenNodes, Signed, Ask[NoisyReply]):
    """How are the rows of these open nodes distributed over their cells, with noise?"""

    reveals: ClassVar[str] = "histograms of tree nodes by class, or sums of targets, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply


@message
class LeafAsk(Signed, Ask[NoisyReply]):
    """What do the leaves of this forest hold, with noise?"""

    job: GrowingJob
    levels: tuple[Level, ...]
    reveals: ClassVar[str] = "class counts, or sums of targets, of leaves, with noise"
    reply_type: ClassVar[type[Any]] = NoisyReply

    @property
    def story(self) -> tuple[Level, ...]:
        """The levels of the grown trees."""
        return splits_only(self.levels)

    @kept_beside
    def levels_of_tree(self) -> Integers:
        """How many levels of each tree were asked about."""
        asked = np.zeros(self.job.settings.n_estimators, np.int64)
        for frontier in frontier_after(self.job, self.levels)[:-1]:
            asked[np.unique(frontier.tree)] += 1
        return asked

    @kept_beside
    def leaves(self) -> Forest:
        """The forest's shape; the moments of a leaf contain its number."""
        n_trees = self.job.settings.n_estimators
        n_leaves = n_trees + sum(int((level.feature >= 0).sum()) for level in self.levels)
        numbers = np.arange(n_leaves, dtype=np.int64)[:, None]
        values = LeafValues(np.ones(1))
        return forest_of_leaves(n_trees, self.levels, numbers, self.job.binning, values)

    @kept_beside
    def tree_of_leaf(self) -> Integers:
        """The tree of every leaf, by the leaf's number."""
        forest = self.leaves
        leaf = np.flatnonzero(forest.feature < 0)
        tree = np.empty(leaf.size, np.int64)
        tree[forest.moments[leaf, 0]] = np.searchsorted(forest.tree_start, leaf, side="right") - 1
        return tree


NOISY: Final[tuple[type[Ask[Any]], ...]] = (NoisyLevelAsk, LeafAsk)


def noisy_job(schema: Schema, settings: ForestSettings, n_parties: int) -> GrowingJob:
    """Return the job; it follows from public facts alone, so a party can check it."""
    n_classes = len(schema.label.classes or ())
    binning = public_binning(schema, settings.max_bins)
    return GrowingJob(settings, schema.digest(), binning, n_classes, UNKNOWN_ROWS, n_parties)


def plan_of(job: GrowingJob) -> ForestPlan:
    """Return how the job's budget is divided."""
    return ForestPlan(job.settings, job.binning.columns.n_columns, job.n_classes, job.n_parties)
