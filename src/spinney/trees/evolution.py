"""A population of tree structures over the generations (S4, III-C and III-D).

One generator makes all draws, and structures are ordered by score, then by age, so the same seed
gives the same population.
"""

from dataclasses import dataclass, field

import numpy as np

from spinney.trees import genome
from spinney.trees.genome import Genes, Random
from spinney.typing import Bools, Floats, Integers


@dataclass(frozen=True)
class Breeding:
    """How offspring are made."""

    n_columns: int
    depth: int
    n_survivors: int
    tournament_size: int
    flip_ratio: float
    swap_ratio: float


@dataclass
class Population:
    """The survivors, best first, and each one's mean score over the generations that scored it.

    Parameters
    ----------
    breeding
        How offspring are made.
    distinct
        Whether to keep only one of several structures that describe the same tree.
    """

    breeding: Breeding
    distinct: bool
    genes: Genes = field(init=False)
    score: Floats = field(init=False)
    n_judged: Integers = field(init=False)
    protected: Genes = field(init=False)  # structures that survive with any score

    def __post_init__(self) -> None:
        length = genome.n_genes(self.breeding.depth)
        self.genes = np.zeros((0, length), np.int16)
        self.score = np.zeros(0)
        self.n_judged = np.zeros(0, np.int64)
        self.protected = np.zeros((0, length), np.int16)

    def protect(self, genes: Genes) -> None:
        """Keep these structures from now on: elitism."""
        self.protected = np.concatenate([self.protected, genes])

    def judge_again(self, scores: Floats, *, anew: bool) -> None:
        """Average the survivors' scores with new ones; `anew`: replace them by the new ones."""
        if anew:
            self.n_judged = np.zeros_like(self.n_judged)
        self.score = (self.score * self.n_judged + scores) / (self.n_judged + 1)
        self.n_judged = self.n_judged + 1

    def update(self, genes: Genes, scores: Floats) -> None:
        """Add offspring and keep the best: *Update*."""
        self.genes = np.concatenate([self.genes, genes])
        self.score = np.concatenate([self.score, scores])
        self.n_judged = np.concatenate([self.n_judged, np.ones(len(genes), np.int64)])
        if self.distinct:
            read = genome.drop_detached(self.genes, self.breeding.depth)
            _, first = np.unique(read, axis=0, return_index=True)
            self._keep(np.sort(first))
        order = np.argsort(-self.score, kind="stable")
        best, rest = order[: self.breeding.n_survivors], order[self.breeding.n_survivors :]
        self._keep(np.concatenate([best, rest[self._is_protected(rest)]]))

    def offspring(self, random: Random) -> Genes:
        """Return as many new structures as there are survivors: tournament, crossover, mutation."""
        rules, n = self.breeding, self.breeding.n_survivors
        # survivors are ordered best first, so the lowest index wins its tournament
        drawn = random.integers(0, len(self.genes), (n + n % 2, rules.tournament_size))
        children = genome.cross(random, self.genes[drawn.min(axis=1)], n)
        return genome.mutate(random, children, rules.n_columns, rules.flip_ratio, rules.swap_ratio)

    def _is_protected(self, which: Integers) -> Bools:
        if not len(self.protected):
            return np.zeros(which.size, np.bool_)
        depth = self.breeding.depth
        kept = {line.tobytes() for line in genome.drop_detached(self.protected, depth)}
        read = genome.drop_detached(self.genes[which], depth)
        return np.array([line.tobytes() in kept for line in read], np.bool_)

    def _keep(self, which: Integers) -> None:
        self.genes, self.score = self.genes[which], self.score[which]
        self.n_judged = self.n_judged[which]
