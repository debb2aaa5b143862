"""Settings that protocols share, checked in one place: forests, and the privacy of a job.

Privacy parameters are exact fractions and travel as text ("1/10"), so that every party divides the
same budget.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, Final, Literal

import numpy as np
from msgspec import UNSET, UnsetType

from spinney.errors import SettingError
from spinney.privacy.budget import positive_epsilon, probability
from spinney.privacy.labels import BloomResponse
from spinney.privacy.release import Shares
from spinney.seeds import job_seed
from spinney.tables.outside import Outside
from spinney.tables.schema import Category
from spinney.transport.messages import message
from spinney.trees.dtypes import MAX_BINS, MAX_ROWS, MAX_WEIGHT

MechanismName = Literal["noisy_histograms", "perturbed_input", "randomised_labels"]
LabelScheme = Literal["randomised_response", "bloom", "unary"]
TreeRows = Literal["disjoint", "sampled", "all", "bootstrap"]
MECHANISMS: Final = ("noisy_histograms", "perturbed_input")
LABEL_SCHEMES: Final = ("randomised_response", "bloom", "unary")
TREE_ROWS: Final = ("disjoint", "sampled", "all", "bootstrap")
LARGEST_DELTA: Final = Fraction(1, 1000)
LARGEST_NOISE: Final = 2**20  # rows; larger noise would drown any table
_NUMBER = re.compile(r"\d{1,80}(/\d{1,80})?", re.ASCII)  # no exponent, so numbers stay short


@dataclass(frozen=True, kw_only=True)
class PrivacySettings:
    """The privacy of a job; every party sees it and computes the cost of each release from it.

    Parameters
    ----------
    job
        A unique job name, under which a party's ledger records the charges.
    mechanism
        "noisy_histograms": noise on counts while trees grow. "perturbed_input": noise on each
        party's rows, once, before anything is counted. "randomised_labels": noise on each label,
        once for the life of its record.
    epsilon
        The budget of the whole job; the code divides it.
    epsilon_per_count
        The alternative to `epsilon`: the cost of each single number, as in S1. The ledger shows the
        total.
    tree_rows
        Which of a party's rows a tree reads: "disjoint" parts, one for each tree; rows "sampled" by
        secret coins; "all"; or a "bootstrap" with repeats, which only `epsilon_per_count` allows.
    sample_rate
        The probability that a row is in a tree's sample.
    leaf_share
        The part of a tree's budget that is kept for a second count of its leaves.
    in_shares
        Whether the parties draw the noise in shares, which secure sums (secure aggregation) hide.
        If not, each party's own noise is enough to protect that party.
    honest
        t, the number of parties whose shares alone must be enough noise. None: half of the parties,
        rounded up.
    label_scheme
        How labels are randomised. Bloom filters have a fixed price and take no epsilon.
    read_facts
        Facts that should be public but were read from the rows, in a simulation. If there are any,
        no epsilon holds, and every ledger says so.
    delta
        The chance with which epsilon may not hold: noise is then Gaussian. Left out: epsilon is
        pure, and noise is Laplace.
    """

    job: str
    mechanism: MechanismName = "noisy_histograms"
    epsilon: str | None = None
    epsilon_per_count: str | None = None
    tree_rows: TreeRows = "disjoint"
    sample_rate: str = "1/2"
    leaf_share: str = "1/4"
    in_shares: bool = False
    honest: int | None = None
    label_scheme: LabelScheme = "randomised_response"
    read_facts: tuple[str, ...] = ()
    # Left out: epsilon is pure. Neither agreements nor questions of earlier versions mention it.
    delta: str | UnsetType = field(default=UNSET, repr=False)

    def __post_init__(self) -> None:
        if self.delta is not UNSET:
            self._require_delta(self.delta)
        require_choice("mechanism", self.mechanism, (*MECHANISMS, "randomised_labels"))
        require_choice("label_scheme", self.label_scheme, LABEL_SCHEMES)
        require_choice("tree_rows", self.tree_rows, TREE_ROWS)
        if self.randomises_labels:
            self._require_label_epsilon()
            return
        if (self.epsilon is None) == (self.epsilon_per_count is None):
            raise SettingError(
                "Give either epsilon, the budget of the whole job, or epsilon_per_count, the noise "
                "of a single number, but not both."
            )
        positive_epsilon(self.amount, "epsilon")
        if not 0 < fraction_of(self.sample_rate, "sample_rate") <= 1:
            raise SettingError(
                f"sample_rate must be above 0 and at most 1; got {self.sample_rate}."
            )
        if not 0 < fraction_of(self.leaf_share, "leaf_share") < 1:
            raise SettingError(f"leaf_share must be above 0 and below 1; got {self.leaf_share}.")
        if self.tree_rows == "bootstrap" and self.epsilon is not None and not self.perturbs_input:
            raise SettingError(
                "Trees on a bootstrap with repeats cannot keep to an epsilon: a row may be drawn "
                "twelve times and then costs twelve times as much. Use tree_rows='disjoint', "
                "'sampled' or 'all'."
            )
        if self.in_shares and self.perturbs_input:
            raise SettingError(
                "mechanism='perturbed_input' cannot share its noise: each row carries its own."
            )

    def _require_delta(self, delta: str) -> None:
        """Raise unless a delta is a small chance, beside an epsilon for the whole job."""
        chance = probability(fraction_of(delta, "delta"), "delta")
        if chance > LARGEST_DELTA:
            raise SettingError(
                f"delta must be at most {float(LARGEST_DELTA):g}: it is the chance that epsilon "
                f"does not hold for a record; got {float(chance):g}. Take less than one over the "
                "number of rows, such as 1e-6."
            )
        if self.epsilon is None or self.tree_rows != "all":
            raise SettingError(
                "delta goes with epsilon, the budget of the whole job, on trees that read all "
                "rows. Give epsilon and tree_rows='all', or leave delta out."
            )

    def _require_label_epsilon(self) -> None:
        """Raise unless the price of a label is given or follows from the scheme."""
        if self.label_scheme == "bloom" and self.epsilon is not None:
            raise SettingError(
                "label_scheme='bloom' has a fixed price, epsilon=8 ln 3=8.788898 for each label. "
                "Leave epsilon out, or use label_scheme='randomised_response'."
            )
        if self.label_scheme != "bloom":
            positive_epsilon(fraction_of(self.epsilon or "", "epsilon"), "epsilon")

    @property
    def randomises_labels(self) -> bool:
        """Whether only labels are randomised, each once."""
        return self.mechanism == "randomised_labels"

    @property
    def perturbs_input(self) -> bool:
        """Whether rows are perturbed, so that counting them costs nothing more."""
        return self.mechanism == "perturbed_input"

    @property
    def noises_counts(self) -> bool:
        """Whether every count carries noise; if rows or labels do, their counts are exact."""
        return self.mechanism == "noisy_histograms"

    @property
    def outside(self) -> Outside:
        """What becomes of values that the schema does not allow.

        If a record may be removed, a row without a label is; otherwise its party must report as
        many rows as it has.
        """
        return "keep" if self.randomises_labels or self.perturbs_input else "leave_out"

    @property
    def amount(self) -> Fraction:
        """The epsilon that was given, for the job or for a count."""
        return fraction_of(self.epsilon or self.epsilon_per_count or "", "epsilon")

    @property
    def price(self) -> Fraction | None:
        """The maximum cost of the job in epsilon; None if the settings set no limit."""
        if self.epsilon is not None:
            return fraction_of(self.epsilon, "epsilon")
        if self.randomises_labels:  # Bloom filters have one price for any number of classes
            return BloomResponse(2).cost().amount
        return None

    def reported_bits(self, n_classes: int) -> int:
        """Return how many bits a row reports instead of a class; 0 if it reports a class."""
        bits = {"bloom": 32, "unary": n_classes}
        return bits.get(self.label_scheme, 0) if self.randomises_labels else 0

    def shares(self, n_parties: int) -> Shares | None:
        """Return how the parties share the noise; None if each party's own noise is enough."""
        return Shares(n_parties, self.honest) if self.in_shares else None


@message
class Terms:
    """What a question repeats about a private job, so that it can be answered on its own."""

    privacy: PrivacySettings
    n_parties: int


def terms_of(privacy: PrivacySettings | None, n_parties: int) -> Terms | None:
    """Return a job's terms; None if it is not private."""
    return None if privacy is None else Terms(privacy, n_parties)


def as_text(value: Any, name: str) -> str:
    """Return a user's positive number as exact text; 0.1 means one tenth."""
    return str(positive_epsilon(value, name))


def fraction_of(text: str, name: str) -> Fraction:
    """Return the number that `as_text` wrote."""
    try:
        if isinstance(text, str) and _NUMBER.fullmatch(text):
            return Fraction(text)
    except ZeroDivisionError:
        pass
    raise SettingError(f"{name} must be a fraction such as '1/10'; got {text!r}.")


MaxFeatures = Literal["sqrt", "log2"] | float | int | None
Task = Literal["classification", "regression"]


CRITERIA: dict[Task, tuple[str, ...]] = {
    "classification": ("gini", "entropy", "log_loss"),
    "regression": ("squared_error",),
}


MAX_TREES = 100_000  # the most trees that a question may make a party grow at once
MAX_MESSAGE = 1 << 31  # the codec's limit
BINNINGS = ("quantiles", "ranges", "adaptive", "magnitudes")
THRESHOLDS = ("public", "exchanged")


@dataclass(frozen=True, kw_only=True)
class ForestSettings:
    """What a forest job fixes before it starts; every party sees it."""

    task: Task
    n_estimators: int = 100
    criterion: str = "gini"
    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    min_impurity_decrease: float = 0.0
    max_features: MaxFeatures = "sqrt"
    max_bins: int = MAX_BINS
    max_cells: int = 33
    binning: str = "quantiles"
    bootstrap: bool = True
    class_weight: str | tuple[float, ...] | None = None  # by class, in the schema's order
    oob_score: bool = False
    seed: int = 0
    message_limit: int = 256 << 20  # bytes of counters in one reply before it is packed
    privacy: PrivacySettings | None = None  # None: no noise is added
    thresholds: str | None = None  # for extra-trees, which draw cuts; None: search for the best

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self)):
            value = getattr(self, name)
            if isinstance(value, np.generic):  # messages and reports carry Python's own types
                object.__setattr__(self, name, value.item())
        require_int("n_estimators", self.n_estimators, 1, most=MAX_TREES)
        if self.max_depth is not None:
            require_int("max_depth", self.max_depth, 1, "or None for no limit")
        require_int("max_bins", self.max_bins, 2, most=MAX_BINS)
        require_int("max_cells", self.max_cells, 2, most=MAX_BINS)
        require_int("message_limit", self.message_limit, 1 << 16, most=MAX_MESSAGE)
        require_int("seed", self.seed, 0, most=2**64 - 1)
        _require_samples("min_samples_split", self.min_samples_split, 2)
        _require_samples("min_samples_leaf", self.min_samples_leaf, 1)
        require_real("min_impurity_decrease", self.min_impurity_decrease)
        require_real("min_weight_fraction_leaf", self.min_weight_fraction_leaf)
        if self.min_weight_fraction_leaf > 0.5:
            raise SettingError(
                "min_weight_fraction_leaf must be at most 0.5, or no node could be split; "
                f"got {self.min_weight_fraction_leaf!r}."
            )
        require_choice("criterion", self.criterion, CRITERIA[self.task])
        if self.criterion == "log_loss":  # scikit-learn's second name of the same criterion
            object.__setattr__(self, "criterion", "entropy")
        require_choice("binning", self.binning, BINNINGS)
        _require_features(self.max_features)
        if self.thresholds is not None:
            require_choice("thresholds", self.thresholds, THRESHOLDS)
            if self.thresholds == "exchanged" and self.privacy is not None:
                raise SettingError(
                    "thresholds='exchanged' reveals the smallest and largest value of every node, "
                    "which belong to real records; no noise hides them. Use thresholds='public' "
                    "in a private job."
                )
        require_choice("bootstrap", self.bootstrap, (True, False))
        require_choice("oob_score", self.oob_score, (True, False))
        if self.oob_score and not self.bootstrap:
            raise SettingError(
                "Out of bag estimation only available if bootstrap=True: oob_score=True needs "
                "bootstrap=True; without it no row is out of bag."
            )

    @property
    def goes_on(self) -> bool:
        """Whether nodes draw on if no drawn column tells their rows apart.

        With noise nobody knows where rows are alike; cells of adaptive histograms are not shared.
        """
        privacy = self.privacy
        is_exact = privacy is None or privacy.perturbs_input or privacy.randomises_labels
        return is_exact and self.binning != "adaptive"

    def n_slots(self, n_columns: int) -> int:
        """Return how many features are drawn for a node."""
        wanted = self.max_features
        if wanted is None:
            return n_columns
        if wanted == "sqrt":
            return max(1, math.isqrt(n_columns))
        if wanted == "log2":
            return max(1, int(math.log2(n_columns)))
        if isinstance(wanted, int):
            return min(wanted, n_columns)
        assert isinstance(wanted, float)
        return max(1, int(wanted * n_columns))

    def least_rows(self, wanted: float, n_rows: int) -> int:
        """Return a number of rows, which may have been given as a fraction."""
        least = math.ceil(wanted * n_rows) if isinstance(wanted, float) else int(wanted)
        return min(least, MAX_ROWS * MAX_WEIGHT)  # no job has more


def refuse_max_leaf_nodes(value: object) -> None:
    """Raise if scikit-learn's `max_leaf_nodes` is set: it needs best-first growth."""
    if value is not None:
        raise SettingError(
            "max_leaf_nodes is not supported: all trees grow one level at a time. "
            "Use max_depth, min_samples_leaf or min_impurity_decrease."
        )


def require_int(
    name: str, value: object, least: int, hint: str = "", *, most: int | None = None
) -> None:
    """Raise unless a setting is a whole number within its bounds."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if number >= least and (most is None or number <= most):
            return
    bounds = f"at least {least}" if most is None else f"between {least} and {most}"
    raise SettingError(
        f"{name} must be a whole number {bounds}{' ' + hint if hint else ''}; got {value!r}."
    )


def require_real(name: str, value: object) -> None:
    """Raise unless a setting is a finite number of at least 0."""
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not (good and math.isfinite(float(value)) and float(value) >= 0):  # type: ignore[arg-type]
        raise SettingError(f"{name} must be a finite number of at least 0; got {value!r}.")


def _require_samples(name: str, value: object, least: int) -> None:
    if isinstance(value, float):
        if 0.0 < value < 1.0:
            return
        raise SettingError(f"{name} as a fraction must lie between 0 and 1; got {value!r}.")
    require_int(name, value, least, "or a fraction between 0 and 1")


def require_choice(name: str, value: object, choices: tuple[str | bool, ...]) -> None:
    """Raise unless a setting is one of the choices."""
    if not isinstance(value, str | bool) or value not in choices:
        known = " or ".join(repr(choice) for choice in choices)
        raise SettingError(f"{name} must be {known}; got {value!r}.")


def _require_features(value: object) -> None:
    if value is None or (isinstance(value, str) and value in ("sqrt", "log2")):
        return
    if isinstance(value, float) and 0.0 < value <= 1.0:
        return
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1:
        return
    raise SettingError(
        "max_features must be 'sqrt', 'log2', None, a whole number of at least 1, or a fraction "
        f"above 0 and up to 1; got {value!r}."
    )


REGRESSION_DEFAULTS: Final[dict[str, Any]] = {"criterion": "squared_error", "max_features": 1.0}


def forest_settings(
    given: Mapping[str, Any], task: Task, classes: tuple[Category, ...] | None, **fixed: Any
) -> ForestSettings:
    """Return the settings of a forest from a job file's keys, checked.

    Parameters
    ----------
    given
        The job file's [settings]; keys that say how a job runs are ignored.
    task
        What the forest predicts.
    classes
        The label's classes, in the schema's order; None: check only what needs no classes.
    fixed
        Settings that the protocol itself fixes.
    """
    said = dict(given)
    seed = job_seed(said.pop("random_state", 0))
    said.pop("n_jobs", None)
    said.pop("coordinator", None)
    refuse_max_leaf_nodes(said.pop("max_leaf_nodes", None))
    chosen = {} if task == "classification" else dict(REGRESSION_DEFAULTS)
    weights = said.pop("class_weight", None)
    if weights is not None:
        unknown = classes is None and isinstance(weights, dict)
        names = tuple(weights) if unknown else classes or ()
        chosen["class_weight"] = weights_of(weights, task, names)
    return ForestSettings(task=task, seed=seed, **chosen | said | fixed)


def weights_of(given: Any, task: Task, classes: tuple[Category, ...]) -> Any:
    """Return the class weights in the order of the classes; TOML gives them by name."""
    if task == "regression":
        raise SettingError("class_weight is for classification only. Drop it.")
    if isinstance(given, str):
        if given != "balanced":
            raise SettingError(
                f"class_weight must be 'balanced' or a table of weights by class; got {given!r}."
            )
        return given
    names = [str(label) for label in classes]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise SettingError(
            f"class_weight names {unknown[0]!r}, which is not a class. "
            f"The classes are: {', '.join(names)}."
        )
    return tuple(float(given.get(name, 1.0)) for name in names)


def outside_of(privacy: PrivacySettings | None) -> Outside:
    """Return what becomes of values that the schema does not allow: only private jobs take them."""
    return "refuse" if privacy is None else privacy.outside


def with_read_facts(settings: Any, facts: tuple[str, ...]) -> Any:
    """Return a private job's settings with the public facts that were read from the rows."""
    if settings.privacy is None:
        return settings
    return replace(settings, privacy=replace(settings.privacy, read_facts=facts))


def require_honest_masks(honest: int | None, *, secure_sum: bool) -> None:
    """Raise if `honest` is given but nothing is masked."""
    if honest is not None and not secure_sum:
        raise SettingError(
            "honest is the number of parties that must be honest for a secure sum. It needs "
            "secure_sum=True; without it each party's own noise is enough for itself."
        )
