"""The settings of a vertical job: the forest, and how labels are protected."""

from dataclasses import asdict, dataclass
from typing import Final, Literal, cast

import msgspec
import numpy as np

from spinney.errors import SettingError
from spinney.protocols.settings import (
    ForestSettings,
    PrivacySettings,
    as_text,
    forest_settings,
    fraction_of,
    require_choice,
    require_honest_masks,
)
from spinney.protocols.spec import JobFacts, JobSettings
from spinney.seeds import derive_seed, generator, job_seed
from spinney.tables.schema import join_words
from spinney.typing import Bools

Labels = Literal["shared", "encrypted"]
Place = Literal["label_party", "coordinator"]
SchemeName = Literal["auto", "okamoto-uchiyama", "paillier"]
LABELS: tuple[Labels, ...] = ("shared", "encrypted")
PLACES: tuple[Place, ...] = ("label_party", "coordinator")
SCHEMES: tuple[SchemeName, ...] = ("auto", "okamoto-uchiyama", "paillier")
KEY_BITS = (2048, 3072)


@dataclass(frozen=True, kw_only=True)
class VerticalSettings:
    """The settings of a vertical job.

    Parameters
    ----------
    forest
        The forest. Its seed stays at the coordinator.
    labels
        "shared": every party gets the labels as numbers. "encrypted": only the party that holds
        them sees them; the others add up ciphertexts (homomorphic encryption).
    label_epsilon
        Randomise the labels once, before anything leaves their party, at this cost (a fraction, as
        text). None: the true labels are used.
    job
        A unique job name, under which the label party's ledger records the charge.
    intersect_at
        Who intersects leaf sets in a prediction: the "label_party" or the "coordinator".
    scheme
        The encryption scheme: "okamoto-uchiyama" (the package sf-heu), "paillier" (phe and gmpy2),
        or "auto", the first of them that is installed.
    key_bits
        The length of its modulus: 2048 or 3072.
    """

    forest: ForestSettings
    labels: Labels = "shared"
    label_epsilon: str | None = None
    job: str = ""
    intersect_at: Place = "label_party"
    scheme: SchemeName = "auto"
    key_bits: int = 2048

    def __post_init__(self) -> None:
        require_choice("labels", self.labels, LABELS)
        require_choice("intersect_at", self.intersect_at, PLACES)
        require_choice("scheme", self.scheme, SCHEMES)
        if self.key_bits not in KEY_BITS:
            raise SettingError(f"key_bits must be 2048 or 3072; got {self.key_bits!r}.")
        if self.forest.binning == "adaptive":
            raise SettingError(
                "binning='adaptive' merges histograms over rows; a vertical forest does not "
                "support it. Use binning='quantiles' or 'ranges'."
            )
        if self.forest.privacy is not None:
            raise SettingError(
                "A vertical forest adds noise to labels only. Use label_epsilon, not epsilon."
            )
        if self.label_epsilon is not None:
            fraction_of(self.label_epsilon, "label_epsilon")
            if not self.job:
                raise SettingError("label_epsilon needs a job name, which the ledger debits.")


NAME: Final = "vertical_forest"
Matching = Literal["psi", "keyed_hash"]
MATCHINGS: Final[tuple[Matching, ...]] = ("psi", "keyed_hash")
Settings = VerticalSettings
_HOLD_BACK: Final = 2  # the purpose of a derived seed


@dataclass(frozen=True, kw_only=True)
class MatchedSettings:
    """The settings of a vertical job that begins with matching.

    Parameters
    ----------
    vertical
        The forest, and how labels are protected.
    label_party
        The party that holds the labels and leads the matching.
    matching
        How common rows are found: "psi" (private set intersection) or "keyed_hash". None: all
        parties hold the same rows in the same order.
    held_out, held_out_seed
        The share of the common rows that is not trained on, and the seed that draws them.
    join_parts
        Whether the coordinator gets the whole forest.
    """

    vertical: VerticalSettings
    label_party: str
    matching: Matching | None = None
    held_out: float = 0.0
    held_out_seed: int = 0
    join_parts: bool = False

    def __post_init__(self) -> None:
        if self.matching is not None and self.matching not in MATCHINGS:
            known = " or ".join(map(repr, MATCHINGS))
            raise SettingError(f"matching must be {known}; got {self.matching!r}.")
        if not 0 <= self.held_out < 1:
            raise SettingError(f"held_out must be at least 0 and below 1; got {self.held_out}.")

    @property
    def task(self) -> str:
        """What the forest predicts."""
        return self.vertical.forest.task

    @property
    def binning(self) -> str:
        """How bins are laid."""
        return self.vertical.forest.binning

    @property
    def n_estimators(self) -> int:
        """How many trees there are."""
        return self.vertical.forest.n_estimators

    @property
    def max_depth(self) -> int | None:
        """How deep they may grow."""
        return self.vertical.forest.max_depth

    @property
    def min_samples_leaf(self) -> float:
        """The minimum number of rows in a leaf, or their share."""
        return self.vertical.forest.min_samples_leaf

    @property
    def privacy(self) -> PrivacySettings | None:
        """What the label party's ledger must pay; None if nothing."""
        if self.vertical.label_epsilon is None:
            return None
        return PrivacySettings(
            job=self.vertical.job,
            mechanism="randomised_labels",
            epsilon=self.vertical.label_epsilon,
        )

    def is_held_out(self, n_rows: int) -> Bools:
        """Return which of the common rows are held out; the same at every party."""
        n_held_out = round(self.held_out * n_rows)
        chosen = np.zeros(n_rows, np.bool_)
        if 0 < n_held_out < n_rows:
            order = generator(derive_seed(self.held_out_seed, _HOLD_BACK)).permutation(n_rows)
            chosen[order[:n_held_out]] = True
        return chosen

    def described(self) -> dict[str, object]:
        """Return the settings besides those of the forest, as the report shows them."""
        own = asdict(self)
        del own["vertical"]
        return own


_REFUSED: Final = ("secure_sum", "honest", "epsilon", "epsilon_per_count")


class VerticalJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    """The [settings] of a job file that grows a vertical forest."""

    refused = (*_REFUSED, *JobSettings.refused)

    n_estimators: int | None = None
    criterion: str | None = None
    max_depth: int | None = None
    min_samples_split: int | float | None = None
    min_samples_leaf: int | float | None = None
    min_weight_fraction_leaf: float | None = None
    min_impurity_decrease: float | None = None
    max_features: int | float | str | None = None
    max_bins: int | None = None
    max_cells: int | None = None
    binning: str | None = None
    bootstrap: bool | None = None
    class_weight: str | dict[str, float] | None = None
    oob_score: bool | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    epsilon: int | float | None = None
    epsilon_per_count: int | float | None = None
    message_limit: int | None = None
    max_leaf_nodes: int | None = None
    label_party: str | None = None
    matching: str | None = None
    labels: str | None = None
    label_epsilon: int | float | None = None
    scheme: str | None = None
    key_bits: int | None = None
    intersect_at: str | None = None
    join_parts: bool | None = None
    random_state: int = 0
    n_jobs: int | None = None


_VERTICAL: Final = (
    "label_party",
    "matching",
    "labels",
    "label_epsilon",
    "scheme",
    "key_bits",
    "intersect_at",
    "join_parts",
)


def settings_of(given: VerticalJobSettings, facts: JobFacts) -> MatchedSettings:
    """Return the checked settings of a job file; without classes, check what is possible."""
    if given.secure_sum:
        raise SettingError(
            "protocol = 'vertical_forest' sums nothing over parties: each has its own columns. "
            "Drop secure_sum; labels = 'encrypted' hides the labels."
        )
    require_honest_masks(given.honest, secure_sum=False)
    if given.epsilon is not None or given.epsilon_per_count is not None:
        raise SettingError(
            "protocol = 'vertical_forest' adds noise to labels only. Use label_epsilon instead of "
            "epsilon."
        )
    others = (*_VERTICAL, *_REFUSED)
    said = msgspec.structs.asdict(given).items()
    plain = {key: value for key, value in said if value is not None and key not in others}
    epsilon = given.label_epsilon
    vertical = VerticalSettings(
        forest=forest_settings(plain, facts.task, facts.classes),
        labels=cast("Labels", given.labels or "shared"),
        label_epsilon=None if epsilon is None else as_text(epsilon, "label_epsilon"),
        job="" if epsilon is None else facts.name,
        intersect_at=cast("Place", given.intersect_at or "label_party"),
        scheme=cast("SchemeName", given.scheme or "auto"),
        key_bits=2048 if given.key_bits is None else given.key_bits,
    )
    return MatchedSettings(
        vertical=vertical,
        label_party=_label_party(given.label_party, facts),
        matching=_matching(given.matching, facts),
        held_out=facts.held_out,
        held_out_seed=job_seed(facts.held_out_seed),
        join_parts=bool(given.join_parts),
    )


def _label_party(named: str | None, facts: JobFacts) -> str:
    known = facts.parties
    if facts.is_aligned:
        named = named or known[0]
    if named is None or (known and named not in known):
        who = f", one of {join_words(map(repr, known))}" if known else ""
        raise SettingError(
            f"label_party must name the one party that holds the labels{who}; got {named!r}. "
            "Give it in [settings]."
        )
    return named


def _matching(given: str | None, facts: JobFacts) -> Matching | None:
    if facts.is_aligned:
        if given is not None:
            raise SettingError(
                "The rows of one [table] are already in the same order. Drop matching, or give "
                "each [[party]] its own table."
            )
        return None
    if given not in MATCHINGS:
        known = " or ".join(map(repr, MATCHINGS))
        raise SettingError(
            f"Parties with separate tables find their common rows by matching = {known}; got "
            f"{given!r}. Set it in [settings], and give each table a row_id."
        )
    return given
