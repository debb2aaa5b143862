"""What every job over columns fixes besides its trees: how labels are protected, which rows."""

from abc import abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np

from spinney.errors import SettingError
from spinney.protocols.settings import (
    PrivacySettings,
    as_text,
    fraction_of,
    require_choice,
    require_honest_masks,
)
from spinney.protocols.spec import JobFacts
from spinney.seeds import derive_seed, generator, job_seed
from spinney.tables.schema import join_words
from spinney.typing import Bools

Labels = Literal["shared", "encrypted"]
Place = Literal["label_party", "coordinator"]
SchemeName = Literal["auto", "okamoto-uchiyama", "paillier"]
Matching = Literal["psi", "keyed_hash"]
LABELS: Final[tuple[Labels, ...]] = ("shared", "encrypted")
PLACES: Final[tuple[Place, ...]] = ("label_party", "coordinator")
SCHEMES: Final[tuple[SchemeName, ...]] = ("auto", "okamoto-uchiyama", "paillier")
MATCHINGS: Final[tuple[Matching, ...]] = ("psi", "keyed_hash")
KEY_BITS: Final = (2048, 3072)
_HOLD_BACK: Final = 2  # the purpose of a derived seed


@dataclass(frozen=True, kw_only=True)
class LabelSettings:
    """How a job over columns protects its labels.

    Parameters
    ----------
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
        The encryption scheme: "okamoto-uchiyama", "paillier" (slower), or "auto", the first.
    key_bits
        The length of its modulus: 2048 or 3072.
    """

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
        if self.label_epsilon is not None:
            fraction_of(self.label_epsilon, "label_epsilon")
            if not self.job:
                raise SettingError("label_epsilon needs a job name, which the ledger debits.")


@dataclass(frozen=True, kw_only=True)
class MatchedRows:
    """The settings of a job over columns that begins with matching.

    Parameters
    ----------
    vertical
        The trees, and how labels are protected.
    label_party
        The party that holds the labels and leads the matching.
    matching
        How common rows are found: "psi" (private set intersection) or "keyed_hash". None: all
        parties hold the same rows in the same order.
    held_out, held_out_seed
        The share of the common rows that is not trained on, and the seed that draws them.
    join_parts
        Whether the coordinator gets the whole model.
    """

    vertical: LabelSettings
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
    @abstractmethod
    def task(self) -> str:
        """What the trees predict."""

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
        """Return the settings besides those of the trees, as the report shows them."""
        own = asdict(self)
        del own["vertical"]
        return own


OF_COLUMNS: Final = (
    "label_party",
    "matching",
    "labels",
    "label_epsilon",
    "scheme",
    "key_bits",
    "intersect_at",
    "join_parts",
)
"""The keys of a job file's settings about labels and matching, whatever the trees are."""


def refuse_sums(given: Any, protocol: str) -> None:
    """Raise if a job file asks for masks, which a job over columns has no use for."""
    if given.secure_sum:
        raise SettingError(
            f"protocol = {protocol!r} sums nothing over parties: each has its own columns. "
            "Drop secure_sum; labels = 'encrypted' hides the labels."
        )
    require_honest_masks(given.honest, secure_sum=False)


def labels_given(given: Any, facts: JobFacts) -> dict[str, Any]:
    """Return the fields of `LabelSettings` that a job file gives."""
    epsilon = given.label_epsilon
    return {
        "labels": given.labels or "shared",
        "label_epsilon": None if epsilon is None else as_text(epsilon, "label_epsilon"),
        "job": "" if epsilon is None else facts.name,
        "intersect_at": given.intersect_at or "label_party",
        "scheme": given.scheme or "auto",
        "key_bits": 2048 if given.key_bits is None else given.key_bits,
    }


def rows_given(given: Any, facts: JobFacts) -> dict[str, Any]:
    """Return the fields of `MatchedRows`, besides the trees, that a job file gives."""
    return {
        "label_party": _label_party(given.label_party, facts),
        "matching": _matching(given.matching, facts),
        "held_out": facts.held_out,
        "held_out_seed": job_seed(facts.held_out_seed),
        "join_parts": bool(given.join_parts),
    }


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
