"""A party's local work for evolved trees: folds, depth, votes, fitting and choosing.

Nothing here is sent; the protocol decides what is. Rows are dealt to folds by a hash of the job's
seed and the row's own key, so their order does not matter. Classes are dealt evenly.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from spinney import seeds
from spinney.errors import TableError
from spinney.protocols.genetic_tree.fitness import Spread, fitness
from spinney.protocols.genetic_tree.settings import GeneticSettings
from spinney.trees.binning import Binning
from spinney.trees.edit_distance import normalised_distance
from spinney.trees.genome import Genes
from spinney.trees.structures import FitTable, FittedTree, Outcomes
from spinney.typing import Floats, Integers, Keys

_FOLDS, _PARTS = 1, 2  # streams of the job's seed
Rows = tuple[Integers, Integers]  # rows to fit, and rows to score on


@dataclass(frozen=True)
class PersonalTree:
    """The tree that a party chooses; it stays at the party."""

    tree: FittedTree
    genes: NDArray[np.int16]
    depth: int
    is_home: bool  # whether it is the tree that the party would have had alone
    score: float  # on the party's own validation rows
    distance: float | None  # to the party's own structure: 0 equal, 1 nothing in common


@dataclass(frozen=True)
class HomeTree:
    """The tree that a party grows alone."""

    tree: FittedTree
    genes: NDArray[np.int16]
    depth: int
    score: float


class Home:
    """A party's rows in bins, and everything that is computed from them alone."""

    def __init__(
        self, table: FitTable, binning: Binning, keys: Keys, settings: GeneticSettings
    ) -> None:
        if table.n_rows < settings.n_folds:
            raise TableError(
                f"This party has fewer rows than the {settings.n_folds} folds of the "
                "cross-validation. Set n_folds lower, or leave the party out."
            )
        self.table = table
        self.binning = binning
        self.settings = settings
        self._keys = keys
        self._parts: tuple[int, list[Integers]] | None = None
        self._spread = Spread.of(table.target.astype(np.float64))

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.table.n_rows

    # --- depth and votes ---------------------------------------------------------------------

    @cached_property
    def depth_scores(self) -> Floats:
        """Cross-validated scores of CART's tree, (fold, depth from 0): F1, or R2."""
        metric = "f1" if self.table.n_classes else "r2"
        folds = self._dealt(_FOLDS, 0, self.settings.n_folds)
        lines = []
        for held in range(len(folds)):
            fit, judged = _without(folds, held)
            found = self.table.cart_scores(self.settings.max_depth, fit, judged)
            spread = Spread.of(self.table.target[judged].astype(np.float64))
            lines.append(fitness(metric, found, spread))
        return np.array(lines)

    @property
    def best_depth(self) -> int:
        """d^i, the depth with the best mean score; the smallest if several tie (line 6)."""
        least = self.settings.min_depth
        return least + int(np.argmax(self.depth_scores.mean(axis=0)[least:]))

    def vote_for_all_rows(self, depth: int) -> bool:
        """Vote for fitting and scoring on all rows: little noise, much interaction (Eq. 1)."""
        by_depth = self.depth_scores[:, self.settings.min_depth :]
        noise = _variation(self.depth_scores[:, depth])  # phi_d
        complexity = np.mean([_variation(fold) for fold in by_depth])  # theta
        settings = self.settings
        return bool(noise < settings.noise_threshold and complexity > settings.complexity_threshold)

    def vote_for_elitism(self) -> bool:
        """Vote for keeping all parties' structures: most targets are unique (Eq. 2)."""
        percent = 100.0 * np.unique(self.table.target).size / self.n_rows  # mu
        return bool(percent > self.settings.unique_threshold)

    # --- fitting -----------------------------------------------------------------------------

    def structure(self, depth: int) -> NDArray[np.int16]:
        """Return T_d^i, the structure of the tree that CART grows on all rows (line 12)."""
        return self.table.cart(depth, self.table.all_rows)[1]

    def judged(
        self, genes: Genes, depth: int, generation: int, *, all_rows: bool, n_threads: int
    ) -> Floats:
        """Return each structure's mean score on a generation's rows: *Evaluate* (line 28)."""
        n = 1 if all_rows else self.settings.n_divisions
        divisions = (self.rows_for(n * generation + turn, all_rows=all_rows) for turn in range(n))
        means: Floats = np.mean(
            [self.scores(genes, depth, rows, n_threads) for rows in divisions], axis=0
        )
        return means

    def scores(self, genes: Genes, depth: int, rows: Rows, n_threads: int) -> Floats:
        """Fit each structure and return its score."""
        found = self.table.score(genes, depth, *rows, n_threads=n_threads)
        return fitness(self.settings.metric or "", found, self._spread)

    def rows_for(self, division: int, *, all_rows: bool) -> Rows:
        """Return the rows that structures are fitted to, and those they are scored on."""
        if all_rows:
            return self.table.all_rows, self.table.all_rows
        n_parts = self.settings.n_parts
        if self.settings.validation == "fixed":
            division = 0
        turn, held = divmod(division, n_parts)
        if self._parts is None or self._parts[0] != turn:
            self._parts = (turn, self._dealt(_PARTS, turn, n_parts))
        return _without(self._parts[1], held)

    def home_tree(self, n_threads: int) -> HomeTree:
        """Return the tree that this party grows alone, at the depth it would choose."""
        depth = self.best_depth
        tree, genes = self.table.cart(depth, self.table.all_rows)
        metric = self.settings.metric or ""
        judged = [
            fitness(metric, _cart(self.table, depth, rows), self._spread)[0]
            for rows in self._validations()
        ]
        del n_threads
        return HomeTree(tree, genes, depth, float(np.mean(judged)))

    def personal_tree(
        self, genes: Genes, depth: int, *, all_rows: bool, n_threads: int
    ) -> PersonalTree:
        """Choose the structure that scores best here, and fit it to all rows (lines 47, 48)."""
        judged = np.mean(
            [self.scores(genes, depth, rows, n_threads) for rows in self._validations()], axis=0
        )
        chosen_by = judged
        if all_rows:
            chosen_by = self.scores(genes, depth, self.rows_for(0, all_rows=True), n_threads)
        best = int(np.argmax(chosen_by))
        score = float(judged[best])
        own = self.structure(depth)
        home = self.home_tree(n_threads)
        if self.settings.keep_home and home.score > score:
            distance = normalised_distance(home.genes, own, home.depth, depth)
            return PersonalTree(home.tree, home.genes, home.depth, True, home.score, distance)
        tree = self.table.fitted(genes[best], depth, self.table.all_rows)
        kept = tree.genes(depth)
        distance = normalised_distance(kept, own, depth, depth)
        return PersonalTree(tree, kept, depth, False, score, distance)

    # --- rows --------------------------------------------------------------------------------

    def _validations(self) -> list[Rows]:
        """Return the divisions of all rows with which a party compares trees for itself."""
        n = 1 if self.settings.validation == "fixed" else self.settings.n_parts
        return [self.rows_for(turn, all_rows=False) for turn in range(n)]

    def _dealt(self, stream: int, turn: int, n: int) -> list[Integers]:
        """Deal the rows to `n` parts."""
        salt = np.uint64(seeds.derive_seed(self.settings.seed, stream, turn))
        drawn = seeds.mix(self._keys ^ salt)
        if self.table.n_classes:
            order = np.lexsort((drawn, self.table.target))
        else:
            order = np.argsort(drawn, kind="stable")
        return [np.sort(order[part::n]) for part in range(n)]


def _without(parts: list[Integers], held: int) -> Rows:
    others = [part for number, part in enumerate(parts) if number != held]
    return np.concatenate(others), parts[held]


def _cart(table: FitTable, depth: int, rows: Rows) -> Outcomes:
    _, genes = table.cart(depth, rows[0])
    return table.scored(genes, depth, *rows)


def _variation(scores: Floats) -> float:
    """Return the coefficient of variation; infinity if the mean is zero."""
    mean = abs(float(np.mean(scores)))
    return float(np.std(scores)) / mean if mean > 0 else float("inf")
