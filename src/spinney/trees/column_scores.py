"""Which columns have mattered lately, from noisy sums: later trees are drawn from those.

A node that divides a column tells how far its two sides' steps lie apart. Squared, weighted by rows
and less what noise alone would make of it, that is how much of the squared error the cut explains.
A column's score adds up its cuts', and halves about every two passes, since what was explained is
gone. All of it follows from released numbers and costs nothing.

Parties check what follows, so it is the same on every machine: there are no sums whose order a
library chooses.
"""

from dataclasses import dataclass

import numpy as np

from spinney.trees.drawn_trees import DrawnTrees
from spinney.trees.posterior import Steps
from spinney.typing import Floats, Integers

_KEPT = 0.7  # of a score, after as many trees as there are columns
_EVENLY = 0.2  # the part of columns that are drawn whatever their scores


@dataclass(frozen=True)
class ColumnScores:
    """How much of the squared error the cuts of each column have explained lately."""

    of_columns: Floats  # (n_columns,)

    @classmethod
    def none(cls, n_columns: int) -> "ColumnScores":
        """Return the scores before the first tree."""
        return cls(np.zeros(n_columns))

    def after(self, trees: DrawnTrees, steps: Steps, rows: Floats) -> "ColumnScores":
        """Return the scores after trees of one output, given the noisy rows of their leaves."""
        n_columns, held = self.of_columns.size, np.maximum(rows, 0.0)
        found = self.of_columns * _KEPT ** (trees.n_trees / n_columns)
        for depth in reversed(range(trees.depth)):
            step, noise = steps.of_nodes[depth + 1][0], steps.deviation[depth + 1][0]
            left, right = held[:, 0::2].ravel(), held[:, 1::2].ravel()
            held = held[:, 0::2] + held[:, 1::2]
            apart = (step[0::2] - step[1::2]) ** 2 - noise[0::2] ** 2 - noise[1::2] ** 2
            told = apart * left * right / np.maximum(left + right, 1.0)
            nodes = slice((1 << depth) - 1, (2 << depth) - 1)
            np.add.at(found, trees.column[:, nodes].ravel(), told)
        return ColumnScores(found)

    def draw(self, n_trees: int, generator: np.random.Generator) -> Integers:
        """Return two columns for each tree, (n_trees, 2), drawn by their scores."""
        n_columns = self.of_columns.size
        score = np.maximum(self.of_columns, 0.0)
        total = float(np.cumsum(score)[-1])
        share = np.full(n_columns, 1.0 / n_columns)
        if total > 0.0:
            share = (1.0 - _EVENLY) * score / total + _EVENLY * share
        chosen = np.zeros((n_trees, 2), np.int64)
        for tree, luck in enumerate(generator.random((n_trees, 2))):
            chosen[tree, 0] = _place(share, luck[0])
            others = np.where(np.arange(n_columns) == chosen[tree, 0], 0.0, share)
            chosen[tree, 1] = _place(others, luck[1])
        return chosen


def most_together(columns: Integers, n_columns: int) -> float:
    """Return how many trees of a round say the same as one of them, itself included, at most.

    Two trees that share one of their two columns count as half.
    """
    times = np.bincount(columns.ravel(), minlength=n_columns)
    return float(times[columns].mean(axis=1).max())


def _place(share: Floats, luck: float) -> int:
    """Return the column at a random place of the line on which each has its share."""
    below = np.cumsum(share)
    place = int(np.searchsorted(below, luck * below[-1], side="right"))
    return min(place, int(np.flatnonzero(share)[-1]))
