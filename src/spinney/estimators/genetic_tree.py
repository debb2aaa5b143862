"""`GeneticTreeClassifier` and `GeneticTreeRegressor`: scikit-learn faces of S4."""

from typing import Any, Literal

from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from spinney.estimators.base import PredictsClasses
from spinney.estimators.evolved import EvolvedTrees
from spinney.tables.schema import Schema
from spinney.typing import Floats


class GeneticTreeClassifier(PredictsClasses, EvolvedTrees):
    r"""One small tree for each party, of structures that all parties evolve together (S4).

    A structure says which column each node asks about. Parties fit structures to their own rows and
    answer with scores, which are summed; a coordinator breeds those that do well. In the end every
    party keeps the tree that does best for it; thresholds and leaves never leave it. Defaults are
    those of the paper's Table II.

    Parameters
    ----------
    population_size
        P, the structures that survive a generation. None: 20; for numbers 40.
    n_generations
        G.
    participation
        c, the share of parties that take part in a generation, drawn anew each time.
    train_ratio
        r, the share of a party's rows that structures are fitted to; the others judge them.
    validation
        "rotating": each generation is judged by other rows, and survivors again, by the mean of
        their scores. "fixed": always by the same rows and once, as in the paper; such scores are
        soon learnt by heart.
    metric
        What is evolved for. None: "f1", of the second class, or the mean over more than two. For
        numbers "mse" (default), "r2" or "rae", the relative absolute error.
    leaf_ratio, tournament_size, flip_ratio, swap_ratio
        r_l, s, m_1 and m_2: absent nodes in random structures; structures in a tournament; shares
        of a structure's nodes that a mutation flips or swaps.
    n_folds, min_depth, max_depth
        K, d_min and d_max: each party's cross-validation chooses a depth; all use the median.
    noise_threshold, complexity_threshold, unique_threshold
        phi*, theta* and mu* (in percent), for regression: when parties vote for judging by all
        rows, and for keeping all parties' own structures.
    keep_home
        Whether a party keeps the tree it would have had alone, where that does better on its own
        validation rows. So joining costs nobody.
    binning
        "own": numbers are cut at quantiles of the party's own rows, which stay there. "pooled": at
        quantiles of all parties' rows, found by summed counts; with `max_bins=5` the paper's.
    max_bins
        How finely numbers are told apart: 2 to 255.
    size_epsilon
        With which epsilon a party's number of rows is noised before it weighs its scores; 1 in the
        paper. None: without noise, inside sums only. Noise cannot be fixed by `random_state`.
    categorical_features
        "from_dtype", None, or which columns are categories: names, positions or a mask.
    unknown_categories
        What `predict` does with a category it has never seen: "refuse" it, or take it
        "as_missing".
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data.
    secure_sum
        Whether parties' scores are masked, so that the coordinator sees weighted sums only; the
        trees are the same.
    honest
        How many parties secure sums count on to keep their secrets; half of them, rounded up.
    epsilon, delta
        For classes, the budget of the whole search (zCDP, read at `delta`): structures then evolve
        from noisy counts of public halvings of declared ranges, in place of scores; every party
        still fits its own tree exactly, and keeps it. Needs a small `max_depth`, such as 4, few
        structures and generations, and many rows. None: no noise.
    random_state
        Fixes the search, the folds and who takes part.
    n_jobs
        Threads; None means all cores.
    verbose
        Print progress, with the best score of each generation.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances are means over the parties' trees.
    tree_of_
        Each party's tree by its name: `text()`, `svg()`, `n_decisions`, `edit_distance`.
    home_tree_of_
        The tree each party grows alone, at the depth it would choose.
    depth_
        The depth of the evolved structures.
    model_
        All parties' trees; deployed, each party has its own only.
    report_
        What happened: scores and nodes by party, the best score by generation, what left a party.
    ledger_
        The ledger of each simulated party; empty without `size_epsilon`.
    """

    _is_classifier = True

    def __init__(
        self,
        population_size: int | None = None,
        *,
        n_generations: int = 100,
        participation: float = 1.0,
        train_ratio: float = 0.8,
        validation: Literal["rotating", "fixed"] = "rotating",
        metric: Literal["f1"] | None = None,
        leaf_ratio: float = 0.01,
        tournament_size: int = 3,
        flip_ratio: float = 0.05,
        swap_ratio: float = 0.05,
        n_folds: int = 5,
        min_depth: int = 2,
        max_depth: int = 15,
        keep_home: bool = True,
        binning: Literal["own", "pooled"] = "own",
        max_bins: int = 255,
        size_epsilon: float | None = None,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        honest: int | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def predict_proba(self, X: Any, party: Any = None) -> Floats:
        """Return the probability of each class, in the order of `classes_`; see `predict`."""
        return self._by_party(X, party)

    def predict(self, X: Any, party: Any = None) -> NDArray[Any]:
        """Return the likeliest class of each row.

        By the tree of `party`: one name, or one for each row; None: by the mean of all trees.
        """
        best = self._by_party(X, party).argmax(axis=1)
        found: NDArray[Any] = self.classes_.take(best)
        return found


class GeneticTreeRegressor(RegressorMixin, EvolvedTrees):  # type: ignore[misc]
    """One small tree for each party, for numbers, of structures that all evolve together (S4).

    As `GeneticTreeClassifier`. Parties also vote, as the paper has it: on judging by all rows where
    there is little noise and much interaction, and on keeping all parties' own structures.
    """

    _is_classifier = False

    def __init__(
        self,
        population_size: int | None = None,
        *,
        n_generations: int = 100,
        participation: float = 1.0,
        train_ratio: float = 0.8,
        validation: Literal["rotating", "fixed"] = "rotating",
        metric: Literal["mse", "r2", "rae"] | None = None,
        leaf_ratio: float = 0.01,
        tournament_size: int = 3,
        flip_ratio: float = 0.05,
        swap_ratio: float = 0.05,
        n_folds: int = 5,
        min_depth: int = 2,
        max_depth: int = 15,
        noise_threshold: float = 0.25,
        complexity_threshold: float = 0.02,
        unique_threshold: float = 80.0,
        keep_home: bool = True,
        binning: Literal["own", "pooled"] = "own",
        max_bins: int = 255,
        size_epsilon: float | None = None,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        schema: Schema | None = None,
        secure_sum: bool = False,
        honest: int | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    def predict(self, X: Any, party: Any = None) -> Floats:
        """Return the predicted target of each row.

        By the tree of `party`: one name, or one for each row; None: by the mean of all trees.
        """
        return self._by_party(X, party)[:, 0]
