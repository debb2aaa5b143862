"""`PrivateTreeClassifier`: one tree that can be read, grown over parties in private (S3)."""

from typing import Any, Literal

from sklearn.utils.validation import check_is_fitted

from spinney.estimators.base import PredictsClasses
from spinney.estimators.private_base import PrivateEstimator
from spinney.protocols import private_tree
from spinney.protocols.settings import ForestSettings, as_text
from spinney.protocols.spec import Spec
from spinney.tables.schema import Schema

MethodName = Literal["auto", "histograms", "save_budget", "propose", "noisy_max"]


class PrivateTreeClassifier(PredictsClasses, PrivateEstimator):
    """A differentially private decision tree over parties that hold different rows (S3).

    One tree that people can read: `export_text` and `export_svg` show every split with its noisy
    gain and every leaf's probability with its bounds under the noise. Columns are cut into equal
    parts of their public ranges; categories one against the rest; missing values go right.

    Parameters
    ----------
    epsilon
        The budget of the whole tree: pure differential privacy for a record that is added or
        removed. `ledger_` shows that it was spent.
    method
        How splits are found. "histograms": noisy histograms of all columns (S3's Algorithm 5).
        "save_budget": bounds first, then histograms of some columns; what that saves goes down the
        tree (Algorithm 6, its accounting put right). "propose": every party proposes a cut by its
        own rows, and those are counted. "noisy_max": one noisy maximum over all cuts, taken by a
        coordinator that is trusted with exact sums; the claims say so. Its first cut looks two
        levels ahead. "auto" chooses from
        `n_rows`, the number of columns, `epsilon` and the number of parties alone; `method_` says
        what, and `choice_` why.
    max_depth
        How deep the tree may be; levels share the budget of splits. But for "histograms", no deeper
        than nodes of `min_samples_leaf` rows would be, if every split halved `n_rows`.
    min_samples_leaf
        A node is not split if noisy counts give it fewer rows.
    n_bins
        Into how many equal parts a node cuts what its path leaves of a number's range.
    leaf_share
        The part of the budget that is kept for counting the leaves; with "auto" at most, for a
        noisy maximum leaves no more to them than their rows need.
    bounds_share
        The part of a node's budget for bounds, with "save_budget".
    shrinkage
        How strongly a leaf is drawn to its parents: by so many standard deviations of its noise.
    n_rows
        How many rows all parties hold together, roughly, as everybody may know. None: counted,
        which only a simulation may do.
    secure_sum
        Whether the parties' counts are masked, so that they share the noise of one sum. Else each
        adds enough for itself, and the sum has that of all of them.
    honest
        How many parties secure sums count on to keep their secrets; half of them, rounded up.
    schema
        The public facts: kinds, ranges, categories, classes. None: read from the data, which only
        a simulation may do.
    categorical_features, unknown_categories
        As in `HorizontalForestClassifier`.
    baselines
        Whether `fit` also trains, without privacy, a tree of the pooled rows and one of each
        party's own, for `compare`; only a simulation may.
    n_jobs, verbose
        As in `HorizontalForestClassifier`.

    Attributes
    ----------
    classes_, n_classes_, n_features_in_, feature_names_in_, feature_importances_
        As in scikit-learn; importances follow from noisy counts.
    model_, report_, ledger_
        As in `HorizontalForestClassifier`.
    method_, choice_
        The method that was used, and why.
    baselines_
        The models without privacy, if they were asked for: "pooled", and "local" by party.
    """

    _is_classifier = True

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
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
        self.epsilon = epsilon
        self.method = method
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.n_bins = n_bins
        self.leaf_share = leaf_share
        self.bounds_share = bounds_share
        self.shrinkage = shrinkage
        self.n_rows = n_rows
        self.secure_sum = secure_sum
        self.honest = honest
        self.schema = schema
        self.categorical_features = categorical_features
        self.unknown_categories = unknown_categories
        self.baselines = baselines
        self.n_jobs = n_jobs
        self.verbose = verbose

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
            privacy=self._privacy(len(sizes), self.leaf_share),
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
        """The method that was used."""
        check_is_fitted(self, "report_")
        return str(self.report_.settings["method"])

    @property
    def choice_(self) -> str:
        """Why it was that one."""
        check_is_fitted(self, "report_")
        return str(self.report_.settings["why"])

    def _baseline(self) -> ForestSettings:
        return ForestSettings(
            task="classification",
            n_estimators=1,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=None,
            bootstrap=False,
        )
