"""`PrivateTreeClassifier`: one readable tree with differential privacy over parties (S3)."""

from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from spinney.estimators.base import PredictsClasses
from spinney.estimators.private_base import PrivateRowsEstimator
from spinney.protocols import private_tree
from spinney.protocols.settings import as_text
from spinney.protocols.spec import Spec
from spinney.tables.schema import Schema

MethodName = Literal["auto", "distilled", "histograms", "save_budget", "propose", "noisy_max"]


class PrivateTreeClassifier(PredictsClasses, PrivateRowsEstimator):
    """A differentially private decision tree over parties that hold different rows (S3).

    One tree that people can read: `export_text` and `export_svg` show every split with its noisy
    gain, and every leaf's probability with the bounds that the noise leaves. A distilled tree cuts
    numbers where rows are, by noisy histograms, and categories into two sets. The other methods cut
    equal parts of public ranges, categories one against the rest; missing values go right.

    Parameters
    ----------
    epsilon
        The budget of the whole tree: pure, record-level differential privacy for a record that is
        added or removed. `ledger_` shows that it was spent.
    delta
        The chance with which epsilon may not hold for a record: noise is Gaussian, and smaller.
        None: epsilon is pure. With "distilled", "histograms" and "save_budget" only.
    method
        How splits are found. "distilled": many small trees are boosted from noisy sums, as
        `PrivateBoostingClassifier` does, one tree imitates them, and its leaves are counted.
        "histograms": noisy histograms of all columns (S3's Algorithm 5).
        "save_budget": bounds first, then histograms of some columns; the budget saved goes to lower
        levels (Algorithm 6, with corrected accounting). "propose": every party proposes a cut from
        its own rows, and the proposals are counted. "noisy_max": one noisy maximum over all cuts,
        taken by a coordinator that is trusted with exact sums, as the claims state; its first cut
        looks two levels ahead. "auto" never takes it: it chooses only from `n_rows`, the number of
        columns, `epsilon`, `delta` and the number of parties among methods that trust nobody;
        `method_` names the choice, and `choice_` the reason.
    max_depth
        The largest depth of the tree; its levels share the budget of splits. Except with
        "histograms", the tree grows no deeper than nodes of `min_samples_leaf` rows would be if
        every split halved `n_rows`.
    min_samples_leaf
        A node is not split if it has fewer rows by noisy counts.
    n_bins
        The number of equal parts into which a node cuts the range that its path leaves open; not
        with "distilled".
    leaf_share
        The share of the budget for counting the leaves; with "distilled", at most a fifth.
    bounds_share
        The share of a node's budget for bounds, with "save_budget".
    shrinkage
        How strongly a leaf is shrunk towards its parents, in standard deviations of its noise.
    n_rows
        The approximate number of rows of all parties together, as a public fact. None: counted,
        which only a simulation may do.
    secure_sum
        Secure aggregation: whether masks hide the parties' counts, so that they share the noise of
        one sum. Otherwise each party adds enough noise for itself, and the sum carries all of it.
    honest
        The number of parties that secure sums trust to keep their secrets; by default half of
        them, rounded up.
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data, which only
        a simulation may do.
    categorical_features, unknown_categories
        As in `HorizontalForestClassifier`.
    baselines
        Whether `fit` also trains trees without privacy, one on the pooled rows and one on each
        party's rows, for `compare`; only in a simulation.
    n_jobs, verbose
        As in `HorizontalForestClassifier`.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances follow from noisy counts.
    model_, report_, ledger_
        As in `HorizontalForestClassifier`.
    method_, choice_
        The method used, and the reason.
    baselines_
        The models without privacy, if requested: "pooled", and "local" by party.
    """

    _is_classifier = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | None = None,
        method: MethodName = "auto",
        max_depth: int = 5,
        min_samples_leaf: int = 10,
        n_bins: int = 10,
        leaf_share: float = 0.5,
        bounds_share: float = 0.25,
        shrinkage: float = 0.3,
        n_rows: int | None = None,
        secure_sum: bool = True,
        honest: int | None = None,
        schema: Schema | None = None,
        categorical_features: Any = "from_dtype",
        unknown_categories: Literal["refuse", "as_missing"] = "refuse",
        baselines: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _sizes_read(self) -> tuple[str, ...]:
        is_used = self.n_rows is None and self.method != "histograms"
        return ("number of rows",) if is_used else ()

    @property
    def _spec(self) -> Spec[private_tree.Settings]:
        return private_tree.SPEC

    def _settings(
        self,
        classes: tuple[Any, ...],  # noqa: ARG002
        sizes: dict[str, int],
    ) -> private_tree.Settings:
        return private_tree.Settings(
            privacy=self._privacy(sizes, self.leaf_share),
            method=self.method,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            n_bins=self.n_bins,
            bounds_share=as_text(self.bounds_share, "bounds_share"),
            shrinkage=self.shrinkage,
            n_rows=sum(sizes.values()) if self._sizes_read() else self.n_rows,
        )

    @property
    def method_(self) -> str:
        """The method used."""
        check_is_fitted(self, "report_")
        return str(self.report_.settings["method"])

    @property
    def choice_(self) -> str:
        """The reason for the method."""
        check_is_fitted(self, "report_")
        return str(self.report_.settings["why"])
