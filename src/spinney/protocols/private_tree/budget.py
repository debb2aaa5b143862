"""How a private tree's budget is divided: in exact fractions that every party computes.

Let e be the job's epsilon (with a delta: half of mu**2, which adds up in the same way, and noise
is Gaussian), d the levels, p the columns and K the parties. A record is in one node
of a level, so the nodes of a level cost their maximum, and levels add up. A level may spend
e_level = e (1 - leaf_share) / d on a node:

| method | a node's releases | what one record changes | cost |
|---|---|---|---|
| histograms | all cells of all columns, by class | p cells by 1 | e_level |
| save_budget | a bound for every column | p bounds by 1 row | a share of what the node has |
| | the cells of q columns | q cells by 1 | the rest, times q / p |
| propose | one cut by every party, by its own rows | any cut's score by 1 row | e_level / 2 |
| | both sides of the c proposed cuts, by class | c counts by 1 | e_level / 2 |
| noisy_max | one cut | any cut's score by 1 row | e_level |

A leaf is counted with everything its path has left: e minus the cost of the nodes above it, and of
the leaf itself when it was an open node. So every path costs e, wherever it stops or saves.

"save_budget" passes what a node has not spent to both children. Budgets depend only on released
numbers and public settings, and the ledger refuses any path that exceeds e: a filter for pure
differential privacy (Rogers et al. 2016). Savings are rounded down to eighths of a level's share,
so that there are few kinds of noise; the remainder goes to the leaf.

The ledger separates rows by what their nodes were asked and whether they were split, not by the
splits themselves: nodes with the same history cost the same. So a party holds its job to one tree,
and to one question of each kind per level. Otherwise rows could be separated twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from spinney.errors import ProtocolError, SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.mechanisms import PermuteAndFlip
from spinney.privacy.noisy_max import NoisyMax
from spinney.privacy.release import Mechanism
from spinney.privacy.scopes import ALL_ROWS, Scope, Spend
from spinney.protocols.accounts.budget import Noise, budget_of, job_terms, noise_of
from spinney.protocols.private_tree.groups import Group
from spinney.protocols.private_tree.settings import GAUSSIAN_METHODS, TreeSettings
from spinney.protocols.settings import LARGEST_NOISE, PrivacySettings, fraction_of
from spinney.trees.level import Level
from spinney.trees.public_cells import COST_BITS
from spinney.typing import Integers

_SPLIT: Final = "its node is split"  # one step per level, each below the one before
STEPS: Final = 8  # the most parts of its columns that a node is asked about
_ROW: Final = Fraction(1 << COST_BITS)  # one row in the units of scores
Asked = NDArray[np.int64]  # (n_open,) how many parts of its columns a node was asked about


@dataclass(frozen=True)
class NodeBudgets:
    """What the nodes of one depth may spend, and what their paths have spent, by node."""

    scopes: tuple[Scope, ...]
    has: tuple[Fraction, ...]
    spent: tuple[Fraction, ...]

    def part(self, chosen: Integers) -> "NodeBudgets":
        """Return the budgets of some nodes."""
        places = chosen.tolist()
        return NodeBudgets(
            tuple(self.scopes[i] for i in places),
            tuple(self.has[i] for i in places),
            tuple(self.spent[i] for i in places),
        )


@dataclass(frozen=True)
class TreePlan:
    """What each release of a private tree costs."""

    called: ClassVar[str] = "<class 'spinney.protocols.tree_budget.TreePlan'>"

    settings: TreeSettings
    n_columns: int
    n_classes: int
    n_parties: int

    def __post_init__(self) -> None:
        if self.privacy.delta is not UNSET and self.settings.method not in GAUSSIAN_METHODS:
            raise SettingError(
                f"method={self.settings.method!r} chooses by pure noise, which cannot be added to "
                "a budget with delta. Leave delta out, or use method='distilled', 'histograms' or "
                "'save_budget'."
            )
        weakest = self._weakest()
        if self.privacy.delta is UNSET and weakest < Fraction(1, LARGEST_NOISE):
            depth = int(self.n_levels * weakest * LARGEST_NOISE)
            advice = f"max_depth={depth} would work" if depth else "Raise epsilon"
            raise SettingError(
                f"max_depth={self.n_levels} leaves too little budget for each level: "
                f"epsilon={float(self.level_epsilon):.3g} for a node and {float(weakest):.3g} for "
                f"one of its numbers, with noise of about {1 / float(weakest):.3g} rows. "
                f"{advice}."
            )

    def _weakest(self) -> Fraction:
        """Return the smallest epsilon of any single number."""
        match self.settings.method:
            case "noisy_max":
                return self.level_epsilon
            case "propose":
                return self.level_epsilon / 2 / self.n_parties
            case "save_budget":
                return (
                    self.level_epsilon
                    * min(self._bounds_share, 1 - self._bounds_share)
                    / (self.n_columns)
                )
        return self.level_epsilon / self.n_columns

    @property
    def privacy(self) -> PrivacySettings:
        """The privacy of the job: its budget and mechanism."""
        return self.settings.privacy

    @property
    def n_levels(self) -> int:
        """d, the number of levels that may be asked about."""
        return self.settings.max_depth

    @cached_property
    def level_epsilon(self) -> Fraction:
        """e_level, what a level may spend on a node."""
        kept = fraction_of(self.privacy.leaf_share, "leaf_share")
        return self.whole * (1 - kept) / self.n_levels

    @property
    def whole(self) -> Fraction:
        """e, what a path may spend: epsilon; with a delta, half of mu**2 of Gaussian noise."""
        return budget_of(self.privacy).amount

    @cached_property
    def _bounds_share(self) -> Fraction:
        return fraction_of(self.settings.bounds_share, "bounds_share")

    @property
    def saves(self) -> bool:
        """Whether nodes pass on what they do not spend to their children."""
        return self.settings.method == "save_budget"

    @property
    def n_steps(self) -> int:
        """Into how many parts the columns are divided for questions."""
        return min(STEPS, self.n_columns)

    def n_asked(self, step: int) -> int:
        """Return how many columns `step` parts contain."""
        return self.n_columns * step // self.n_steps

    # --- what nodes have -------------------------------------------------------------------------

    def node_budgets(
        self, levels: tuple[Level, ...], asked: tuple[Asked, ...]
    ) -> list[NodeBudgets]:
        """Return the budgets of the nodes of every depth when they are reached.

        If nothing is saved, all nodes of a depth share one entry: the rows still asked about.
        """
        if not self.saves:
            depths = range(len(levels) + 1)
            return [
                NodeBudgets((_still_open(k),), (self.level_epsilon,), (k * self.level_epsilon,))
                for k in depths
            ]
        found = [NodeBudgets((ALL_ROWS,), (self.level_epsilon,), (Fraction(0),))]
        is_open = np.ones(1, np.bool_)
        for level, steps in zip(levels, asked, strict=True):
            here = found[-1].part(np.flatnonzero(is_open))
            if steps.shape != level.feature.shape or len(here.has) != steps.size:
                raise ProtocolError("The question's budgets do not fit its tree.")
            found.append(self._children(here, level, steps))
            is_open = level.child_open
        return found

    def _children(self, here: NodeBudgets, level: Level, steps: Asked) -> NodeBudgets:
        eighth = self.level_epsilon / STEPS
        scopes, has, spent = [], [], []
        for node in np.flatnonzero(level.feature >= 0).tolist():
            used = self.node_cost(here.has[node], int(steps[node]))
            saved = self.level_epsilon + here.has[node] - used
            asked = _asked(here.scopes[node], int(steps[node]))
            scopes += 2 * [asked.part(_SPLIT, "yes")]
            has += 2 * [saved // eighth * eighth]
            spent += 2 * [here.spent[node] + used]
        return NodeBudgets(tuple(scopes), tuple(has), tuple(spent))

    def node_cost(self, has: Fraction, step: int) -> Fraction:
        """Return what a node spends if it is asked about `step` parts of its columns."""
        if not self.saves:
            return self.level_epsilon
        if not 0 < step <= self.n_steps:
            raise ProtocolError("A node must be asked about at least one part of its columns.")
        bounds = has * self._bounds_share
        return bounds + (has - bounds) * step / self.n_steps

    # --- releases of nodes -----------------------------------------------------------------------

    def histogram_groups(self, node_budgets: NodeBudgets, steps: Asked) -> list[Group]:
        """Return the noise of the cells of open nodes, given the parts of columns asked about."""
        if not self.saves:
            noise = self._noise(self.level_epsilon, self.n_columns)
            return [Group(noise, node_budgets.scopes, np.arange(steps.size))]

        def noise_at(has: Fraction, step: int) -> Mechanism:
            bounds = has * self._bounds_share
            return self._noise(self.node_cost(has, step) - bounds, self.n_asked(step))

        pairs = zip(node_budgets.scopes, steps.tolist(), strict=True)
        asked = tuple(_asked(scope, step) for scope, step in pairs)
        return _grouped(replace(node_budgets, scopes=asked), steps, noise_at)

    def bounds_groups(self, node_budgets: NodeBudgets) -> list[Group]:
        """Return the noise of open nodes' bounds: one record changes each by one row, all by p."""

        def noise_at(has: Fraction, _: int) -> Mechanism:
            return self._noise(has * self._bounds_share, self.n_columns)

        return _grouped(node_budgets, np.zeros(len(node_budgets.has), np.int64), noise_at)

    def proposal_groups(self, node_budgets: NodeBudgets, n_open: int) -> list[Group]:
        """Return the noise with which a party chooses the cuts that it proposes."""
        noise = PermuteAndFlip(self.level_epsilon / 2, _ROW, monotone=True)
        return [Group(noise, node_budgets.scopes, np.arange(n_open))]

    def side_groups(self, node_budgets: NodeBudgets, n_cuts: Integers) -> list[Group]:
        """Return the noise of the sides of proposed cuts, by how many cuts a node has."""
        (scope,) = node_budgets.scopes
        return [
            Group(
                self._noise(self.level_epsilon / 2, int(number)),
                (scope.part("cuts proposed", str(number)),),
                np.flatnonzero(n_cuts == number),
            )
            for number in np.unique(n_cuts)
        ]

    def choice_groups(self, node_budgets: NodeBudgets, n_open: int) -> list[Group]:
        """Return the noise of the scores of all cuts."""
        noise = NoisyMax(self.level_epsilon, _ROW, shares=self.privacy.shares(self.n_parties))
        return [Group(noise, node_budgets.scopes, np.arange(n_open))]

    def _noise(self, spends: Fraction, n_moved: int) -> Noise:
        """Return the noise of numbers of which one record moves `n_moved`, each by one row."""
        moved = Fraction(n_moved)
        return noise_of(self.privacy, self.n_parties, spends / self.whole, moved, moved)

    # --- leaves ----------------------------------------------------------------------------------

    def leaf_groups(self, levels: tuple[Level, ...], asked: tuple[Asked, ...]) -> list[Group]:
        """Return the noise of all leaves, by leaf number; each spends what its path has left."""
        if self.saves:
            return self._leaf_groups_of_paths(levels, asked)
        groups, first, n_nodes = [], 0, 1
        for depth, level in enumerate(levels):
            n_split = int((level.feature >= 0).sum())
            n_leaves = n_nodes - n_split
            if n_leaves:
                scope = _still_open(depth).part(_SPLIT, "no")
                groups.append(self._leaf_group(depth + 1, scope, first, n_leaves))
            first, n_nodes = first + n_leaves, 2 * n_split
        if n_nodes:
            scope = _still_open(len(levels))
            groups.append(self._leaf_group(len(levels), scope, first, n_nodes))
        return groups

    def _leaf_group(self, n_asked: int, scope: Scope, first: int, n_leaves: int) -> Group:
        left = self.whole - n_asked * self.level_epsilon
        return Group(self._noise(left, 1), (scope,), np.arange(first, first + n_leaves))

    def _leaf_groups_of_paths(
        self, levels: tuple[Level, ...], asked: tuple[Asked, ...]
    ) -> list[Group]:
        members: dict[Fraction, list[tuple[Scope, int]]] = {}
        is_open, number = np.ones(1, np.bool_), 0
        for depth, node_budgets in enumerate(self.node_budgets(levels, asked)):
            feature = np.full(is_open.size, -1)
            steps = np.zeros(is_open.size, np.int64)
            if depth < len(levels):
                feature[is_open] = levels[depth].feature
                steps[is_open] = asked[depth]
            for node in np.flatnonzero(feature < 0).tolist():
                spent, scope = node_budgets.spent[node], node_budgets.scopes[node]
                if is_open[node] and depth < len(levels):
                    spent += self.node_cost(node_budgets.has[node], int(steps[node]))
                    scope = _asked(scope, int(steps[node])).part(_SPLIT, "no")
                left = self.whole - spent
                members.setdefault(left, []).append((scope, number))
                number += 1
            is_open = levels[depth].child_open if depth < len(levels) else is_open
        return [
            Group(
                self._noise(left, 1),
                tuple(dict.fromkeys(scope for scope, _ in leaves)),
                np.array([place for _, place in leaves]),
            )
            for left, leaves in members.items()
        ]

    def planned(self) -> list[Spend]:
        """Return what the longest path may spend, which is checked before the job starts."""
        levels: list[Spend] = []
        for depth in range(self.n_levels):
            scopes = (_still_open(depth),)
            noise = self._noise(self.level_epsilon, self.n_columns)
            levels.append(Spend(f"level {depth} of the tree", noise, scopes))
        left = self.whole - self.n_levels * self.level_epsilon
        leaf = Spend("leaves of the tree", self._noise(left, 1), (_still_open(self.n_levels),))
        return [*levels, leaf]

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        return job_terms(self.privacy, self.n_parties, data)


def _grouped(
    node_budgets: NodeBudgets, steps: Asked, noise_at: Callable[[Fraction, int], Mechanism]
) -> list[Group]:
    """Group nodes that have the same budget and are asked the same."""
    members: dict[tuple[Fraction, int], list[int]] = {}
    for node, (has, step) in enumerate(zip(node_budgets.has, steps.tolist(), strict=True)):
        members.setdefault((has, step), []).append(node)
    return [
        Group(
            noise_at(has, step),
            tuple(dict.fromkeys(node_budgets.scopes[node] for node in nodes)),
            np.array(nodes),
        )
        for (has, step), nodes in members.items()
    ]


def _still_open(depth: int) -> Scope:
    """Return the rows whose node is split in each of the first `depth` levels."""
    scope = ALL_ROWS
    for _ in range(depth):
        scope = scope.part(_SPLIT, "yes")
    return scope


def _asked(scope: Scope, step: int) -> Scope:
    """Return the rows in `scope` whose node is asked about `step` parts of its columns."""
    return scope.part("asked about", f"{step} parts of the columns")
