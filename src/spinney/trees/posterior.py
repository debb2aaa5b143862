"""The step of each leaf, from sums of gradients with noise.

A node's step is a guess between its parent's step and its own sums. A priori it lies within about
`spread` of its parent's. Its gradient, G, is -H times the step but for the noise, whose variance is
known, and for chance, whose variance is about H times `chance`. The step is the mean of what that
leaves: with much noise it stays at the parent's, with little it is Newton's -G / H. All of it
follows from released numbers, so that it costs nothing.
"""

from dataclasses import dataclass

import numpy as np

from spinney.typing import Floats

_NEARLY_NOTHING = 1e-9


@dataclass(frozen=True)
class Prior:
    """What is assumed about steps: the spread around a parent, and how much chance adds."""

    spread: float
    chance: float
    most: float  # the longest step


@dataclass(frozen=True)
class Steps:
    """Steps of all nodes, level by level, and how far the noise may have moved them."""

    of_nodes: tuple[Floats, ...]  # per level, (n_outputs, nodes of the level)
    deviation: tuple[Floats, ...]  # the same: standard deviations

    def shortened(self, rate: float) -> "Steps":
        """Return steps that go only a part of the way."""
        moved = tuple(level * rate for level in self.of_nodes)
        return Steps(moved, tuple(level * rate for level in self.deviation))

    def with_one_root(self) -> "Steps":
        """Return steps of trees that are added at once: together they move all rows once.

        Every root holds all rows, so each tree has found the same step for them. Added by every
        tree, it would be taken as often as there are trees.
        """
        roots = self.of_nodes[0]
        shared = roots.mean(axis=1, keepdims=True) / roots.shape[1]
        moved = tuple(
            level - np.repeat(roots, level.shape[1] // roots.shape[1], axis=1) + shared
            for level in self.of_nodes
        )
        return Steps(moved, self.deviation)


def steps_of(
    gradient: Floats, curvature: Floats, variance: Floats | float, depth: int, prior: Prior
) -> Steps:
    """Return the steps of complete trees.

    Parameters
    ----------
    gradient, curvature
        (n_outputs, n_trees * 2**depth) sums of leaves, with noise.
    variance
        Of the noise in one leaf's gradient, for all outputs or (n_outputs, 1).
    depth, prior
        The trees' depth, and what is assumed.
    """
    sums = [(gradient, np.maximum(curvature, 0.0))]
    held = [curvature]
    for _ in range(depth):
        above = sums[0][0]
        held.insert(0, held[0][:, 0::2] + held[0][:, 1::2])
        sums.insert(0, (above[:, 0::2] + above[:, 1::2], np.maximum(held[0], 0.0)))
    step, noise = np.zeros_like(sums[0][0]), np.zeros_like(sums[0][0])
    steps, noises = [], []
    for level, (g, h) in enumerate(sums):
        if level:
            step, noise = np.repeat(step, 2, axis=1), np.repeat(noise, 2, axis=1)
        spread = variance * 2.0 ** (depth - level)
        weight = h / (h * h + (spread + prior.chance * h) / prior.spread**2 + _NEARLY_NOTHING)
        step = step - weight * (g + h * step)
        noise = (1.0 - weight * h) ** 2 * noise + weight * weight * spread
        steps.append(np.clip(step, -prior.most, prior.most))
        noises.append(np.sqrt(noise))
    return Steps(tuple(steps), tuple(noises))
