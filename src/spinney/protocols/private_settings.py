"""What a private job promises before it starts: how much, to whom, by which noise.

Numbers are exact and travel as text ("1/10"), so that every party divides the same budget.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

from spinney.errors import SettingError
from spinney.privacy.budget import positive_epsilon
from spinney.privacy.mechanisms import Shares

MechanismName = Literal["noisy_histograms", "perturbed_input", "randomised_labels"]
LabelScheme = Literal["randomised_response", "bloom", "unary"]
TreeRows = Literal["disjoint", "sampled", "all", "bootstrap"]
MECHANISMS: Final = ("noisy_histograms", "perturbed_input")
LABEL_SCHEMES: Final = ("randomised_response", "bloom", "unary")
TREE_ROWS: Final = ("disjoint", "sampled", "all", "bootstrap")

LARGEST_NOISE: Final = 2**20  # rows: noise of that size drowns a table

_NUMBER = re.compile(r"\d{1,80}(/\d{1,80})?", re.ASCII)  # no exponent, so no endless number


@dataclass(frozen=True, kw_only=True)
class PrivacySettings:
    """The privacy of a job; every party sees it and recomputes from it what each release costs.

    Parameters
    ----------
    job
        A name that no other job has: a party's ledger debits it.
    mechanism
        "noisy_histograms": noise on counts while trees grow. "perturbed_input": noise on each
        party's rows, once, before anything is counted. "randomised_labels": noise on each label,
        once for the life of its record.
    epsilon
        The whole job's budget, divided by the code.
    epsilon_per_count
        In place of `epsilon`: what each single number costs, as in S1; the ledger shows the total.
    tree_rows
        Which of a party's rows a tree reads: "disjoint" parts, one to a tree; rows "sampled" by
        secret coins; "all"; or a "bootstrap" with repeats, which only `epsilon_per_count` allows.
    sample_rate
        The chance of a row to be in a tree's sample.
    leaf_share
        The part of a tree's budget that is kept for counting its leaves once more.
    in_shares
        Whether noise is drawn in shares, to be hidden under secure sums; else each party's own
        noise is enough for itself.
    honest
        How many parties' shares must be enough: t. None: half of them, rounded up.
    label_scheme
        How labels are randomised. Bloom filters have a price of their own, and no epsilon.
    read_facts
        Facts that should be public and were read from the rows, in a simulation: no epsilon holds
        where there are any, and every ledger says so.
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

    def __post_init__(self) -> None:
        _require_choice("mechanism", self.mechanism, (*MECHANISMS, "randomised_labels"))
        _require_choice("label_scheme", self.label_scheme, LABEL_SCHEMES)
        _require_choice("tree_rows", self.tree_rows, TREE_ROWS)
        if self.randomises_labels:
            self._require_label_epsilon()
            return
        if (self.epsilon is None) == (self.epsilon_per_count is None):
            raise SettingError(
                "Give either epsilon, the budget of the whole job, or epsilon_per_count, the noise "
                "of a single number; not both."
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
                "twelve times, and then costs as much. Use tree_rows='disjoint', 'sampled' or "
                "'all'."
            )
        if self.in_shares and self.perturbs_input:
            raise SettingError(
                "mechanism='perturbed_input' has no noise in shares: each row carries its own."
            )

    def _require_label_epsilon(self) -> None:
        """Raise unless the price of a label is given, or follows from the scheme."""
        if self.label_scheme == "bloom" and self.epsilon is not None:
            raise SettingError(
                "label_scheme='bloom' has a fixed price, epsilon=8 ln 3=8.788898 for each label. "
                "Leave epsilon out, or use label_scheme='randomised_response'."
            )
        if self.label_scheme != "bloom":
            positive_epsilon(fraction_of(self.epsilon or "", "epsilon"), "epsilon")

    @property
    def randomises_labels(self) -> bool:
        """Whether labels are randomised, once, and nothing else is."""
        return self.mechanism == "randomised_labels"

    @property
    def perturbs_input(self) -> bool:
        """Whether rows are perturbed, so that all that is counted follows without further cost."""
        return self.mechanism == "perturbed_input"

    @property
    def amount(self) -> Fraction:
        """The epsilon that was given, of the job or of a count."""
        return fraction_of(self.epsilon or self.epsilon_per_count or "", "epsilon")

    def reported_bits(self, n_classes: int) -> int:
        """Return how many bits rows report in place of a class; 0: they report a class."""
        bits = {"bloom": 32, "unary": n_classes}
        return bits.get(self.label_scheme, 0) if self.randomises_labels else 0

    def shares(self, n_parties: int) -> Shares | None:
        """Return how many parties share the noise; None if each party's own is enough."""
        return Shares(n_parties, self.honest) if self.in_shares else None


@dataclass(frozen=True)
class Terms:
    """What a question repeats of a private job, so that it can be answered by itself."""

    privacy: PrivacySettings
    n_parties: int


def terms_of(privacy: PrivacySettings | None, n_parties: int) -> Terms | None:
    """Return a job's terms; None where it is not private."""
    return None if privacy is None else Terms(privacy, n_parties)


def as_text(value: Any, name: str) -> str:
    """Return a user's positive number exactly, as text; 0.1 means one tenth."""
    return str(positive_epsilon(value, name))


def fraction_of(text: str, name: str) -> Fraction:
    """Return the number that `as_text` wrote."""
    try:
        if isinstance(text, str) and _NUMBER.fullmatch(text):
            return Fraction(text)
    except ZeroDivisionError:
        pass
    raise SettingError(f"{name} must be a fraction such as '1/10'; got {text!r}.")


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        known = " or ".join(repr(choice) for choice in choices)
        raise SettingError(f"{name} must be {known}; got {value!r}.")
