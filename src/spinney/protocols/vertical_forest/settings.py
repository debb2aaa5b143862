"""What a vertical job fixes before it starts: the forest, and how labels are kept."""

from dataclasses import dataclass
from typing import Literal

from spinney.errors import SettingError
from spinney.protocols.settings import ForestSettings, fraction_of

Labels = Literal["shared", "encrypted"]


Place = Literal["label_party", "coordinator"]


SchemeName = Literal["auto", "okamoto-uchiyama", "paillier"]


LABELS: tuple[Labels, ...] = ("shared", "encrypted")


PLACES: tuple[Place, ...] = ("label_party", "coordinator")


SCHEMES: tuple[SchemeName, ...] = ("auto", "okamoto-uchiyama", "paillier")


KEY_BITS = (2048, 3072)


@dataclass(frozen=True, kw_only=True)
class VerticalSettings:
    """The settings of a job over columns.

    Parameters
    ----------
    forest
        The forest. Its seed stays at the coordinator.
    labels
        "shared": every party gets the labels as numbers. "encrypted": only the party that holds
        them; the others add up ciphertexts.
    label_epsilon
        Randomise the labels once, before anything leaves their party, at this cost (a fraction, as
        text); None: they are taken as they are.
    job
        A name that no other job has; the label party's ledger debits it.
    intersect_at
        Who intersects leaf sets when rows are predicted: the "label_party" or the "coordinator".
    scheme
        Which encryption: "okamoto-uchiyama" (the package sf-heu), "paillier" (phe and gmpy2), or
        "auto", the first of them that is installed.
    key_bits
        How long its modulus is: 2048 or 3072.
    """

    forest: ForestSettings
    labels: Labels = "shared"
    label_epsilon: str | None = None
    job: str = ""
    intersect_at: Place = "label_party"
    scheme: SchemeName = "auto"
    key_bits: int = 2048

    def __post_init__(self) -> None:
        _require_choice("labels", self.labels, LABELS)
        _require_choice("intersect_at", self.intersect_at, PLACES)
        _require_choice("scheme", self.scheme, SCHEMES)
        if self.key_bits not in KEY_BITS:
            raise SettingError(f"key_bits must be 2048 or 3072; got {self.key_bits!r}.")
        if self.forest.binning == "adaptive":
            raise SettingError(
                "binning='adaptive' merges histograms over rows; a vertical forest has no use "
                "for it. Use binning='quantiles' or 'ranges'."
            )
        if self.forest.privacy is not None:
            raise SettingError(
                "A vertical forest adds noise to labels only. Use label_epsilon, not epsilon."
            )
        if self.label_epsilon is not None:
            fraction_of(self.label_epsilon, "label_epsilon")
            if not self.job:
                raise SettingError("label_epsilon needs a job name for the ledger to debit.")


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        known = " or ".join(repr(choice) for choice in choices)
        raise SettingError(f"{name} must be {known}; got {value!r}.")


NAME = "vertical_forest"


Settings = VerticalSettings
