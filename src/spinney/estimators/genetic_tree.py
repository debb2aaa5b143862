"""`GeneticTreeClassifier` and `GeneticTreeRegressor`: the scikit-learn estimators of S4."""

from typing import Any, Literal

from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from spinney.estimators.base import PredictsClasses
from spinney.estimators.evolved import EvolvedTrees
from spinney.tables.schema import Schema
from spinney.typing import Floats


class GeneticTreeClassifier(PredictsClasses, EvolvedTrees):
    r"""One small tree for each party, from structures that all parties evolve together (S4).

    A structure assigns a column to each node. Parties fit structures to their own rows and answer
    with scores, which are summed; a coordinator breeds the structures that score well. In the end
    every party keeps the tree that scores best on its rows; thresholds and leaves never leave the
    party. Defaults are those of the paper's Table II.

    Parameters
    ----------
    population_size
        P, the number of structures that survive a generation. None: 20; for numbers 40.
    n_generations
        G, the number of generations.
    participation
        c, the share of parties that take part in a generation, drawn again for each generation.
    train_ratio
        r, the share of a party's rows to which structures are fitted; the other rows score them.
    validation
        "rotating": each generation is scored on other rows; survivors are scored again and keep
        the mean of their scores. "fixed": every structure is scored once, always on the same rows,
        as in the paper; the search soon overfits such scores.
    metric
        The score that evolution maximises or minimises. None: "f1", of the second class, or the
        mean over more than two classes. For numbers: "mse" (default), "r2" or "rae", the relative
        absolute error.
    leaf_ratio, tournament_size, flip_ratio, swap_ratio
        r_l, s, m_1 and m_2: absent nodes in random structures; structures in a tournament; shares
        of a structure's nodes that a mutation flips or swaps.
    n_folds, min_depth, max_depth
        K, d_min and d_max: each party chooses a depth by cross-validation; all use the median.
    noise_threshold, complexity_threshold, unique_threshold
        phi*, theta* and mu* (in percent), for regression: thresholds of the votes on scoring on all
        rows and on keeping every party's structure.
    keep_home
        Whether a party keeps the tree that it would have grown alone if that tree scores better on
        its own validation rows. Joining then costs no party anything.
    binning
        "own": numbers are cut at quantiles of the party's own rows, which stay there. "pooled": at
        quantiles of all parties' rows, found from summed counts; `max_bins=5` is the paper's.
    max_bins
        The largest number of bins per numeric column, 2 to 255.
    size_epsilon
        The epsilon of the noise on a party's number of rows, which weights its scores; 1 in the
        paper. None: no noise, and the number appears only inside sums. `random_state` does not fix
        the noise.
    categorical_features
        "from_dtype", None, or which columns are categories: names, positions or a mask.
    unknown_categories
        What `predict` does with an unseen category: "refuse" raises an error, "as_missing" treats
        it as a missing value.
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data.
    secure_sum
        Secure aggregation: whether masks hide the parties' scores, so that the coordinator sees
        only weighted sums. The trees are the same.
    honest
        The number of parties that secure sums trust to keep their secrets; by default half of
        them, rounded up.
    epsilon, delta
        For classes, the budget of the whole search (zCDP, converted at `delta`). Structures then
        evolve from noisy counts over public halvings of the declared ranges instead of scores;
        every party still fits its own tree exactly, and keeps it. This needs a small `max_depth`
        (for example 4), few structures and generations, and many rows. None: no noise.
    random_state
        Fixes the search, the folds and which parties take part.
    n_jobs
        Number of threads; None means all cores.
    baselines
        Whether `fit` also trains the models that `compare` compares with, without noise.
    verbose
        Print progress, with the best score of each generation.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances are means over the parties' trees.
    tree_of_
        Each party's tree, by name: `text()`, `svg()`, `n_decisions`, `edit_distance`.
    home_tree_of_
        The tree that each party grows alone, at the depth that it chooses.
    depth_
        The depth of the evolved structures.
    model_
        All parties' trees; in a deployed job each party has only its own.
    report_
        The report: scores and nodes by party, the best score by generation, disclosures.
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
        baselines: bool = False,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def predict_proba(self, X: Any, party: Any = None) -> Floats:
        """Return the probability of each class, in the order of `classes_`; see `predict`."""
        return self._by_party(X, party)

    def predict(self, X: Any, party: Any = None) -> NDArray[Any]:
        """Return the most probable class of each row.

        `party` selects the tree: one name, or one name per row; None uses the mean of all trees.
        """
        best = self._by_party(X, party).argmax(axis=1)
        found: NDArray[Any] = self.classes_.take(best)
        return found


class GeneticTreeRegressor(RegressorMixin, EvolvedTrees):  # type: ignore[misc]
    """One small regression tree for each party, from structures that all evolve together (S4).

    Parameters are those of `GeneticTreeClassifier`. Parties also vote, as in the paper: score on
    all rows (where there is little noise and much interaction)? keep every party's structure?
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
        baselines: bool = False,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def predict(self, X: Any, party: Any = None) -> Floats:
        """Return the predicted target of each row.

        `party` selects the tree: one name, or one name per row; None uses the mean of all trees.
        """
        return self._by_party(X, party)[:, 0]
