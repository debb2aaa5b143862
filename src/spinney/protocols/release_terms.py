"""The terms on which a model leaves a run: how it is hardened, as its parties allow."""

from collections.abc import Iterable
from typing import Final

import msgspec

from spinney.errors import PolicyError, SettingError

_MOST_DIGITS = 15


class Hardening(msgspec.Struct, frozen=True):
    """Terms for hardening a model; the defaults suit models of other people's rows.

    Attributes
    ----------
    smallest_leaf
        A split becomes a leaf if one of its children has fewer rows.
    threshold_digits, value_digits
        Digits kept of thresholds and of the numbers that leaves predict, relative to the range of
        their column. For shares: digits after the decimal point. 15 keeps all digits.
    exact_counts
        Whether nodes keep their exact counts. Otherwise counts are rounded to powers of two.
    """

    smallest_leaf: int = 5
    threshold_digits: int = 4
    value_digits: int = 3
    exact_counts: bool = False

    def __post_init__(self) -> None:
        if self.smallest_leaf < 1:
            raise SettingError(f"smallest_leaf must be at least 1; got {self.smallest_leaf}.")
        for name in ("threshold_digits", "value_digits"):
            digits = getattr(self, name)
            if not 1 <= digits <= _MOST_DIGITS:
                raise SettingError(f"{name} must be between 1 and 15 (all); got {digits}.")

    @property
    def rounds_thresholds(self) -> bool:
        """Whether a threshold may change."""
        return self.threshold_digits < _MOST_DIGITS

    @property
    def rounds_values(self) -> bool:
        """Whether a prediction may change."""
        return self.value_digits < _MOST_DIGITS

    def with_all(self, others: Iterable["Hardening"]) -> "Hardening":
        """Return the strictest of these terms and the others."""
        terms = (self, *others)
        return Hardening(
            max(one.smallest_leaf for one in terms),
            min(one.threshold_digits for one in terms),
            min(one.value_digits for one in terms),
            exact_counts=all(one.exact_counts for one in terms),
        )

    def shows_more_than(self, agreed: "Hardening") -> str:
        """Return the first term by which a model would show more than agreed; empty: none."""
        for name, is_more in (
            ("smallest_leaf", self.smallest_leaf < agreed.smallest_leaf),
            ("threshold_digits", self.threshold_digits > agreed.threshold_digits),
            ("value_digits", self.value_digits > agreed.value_digits),
            ("exact_counts", self.exact_counts and not agreed.exact_counts),
        ):
            if is_more:
                return name
        return ""

    def told(self, name: str) -> str:
        """Return one of the terms as files write it."""
        return f"{name}={str(getattr(self, name)).lower()}"

    def in_words(self) -> str:
        """Return all terms as files write them."""
        return ", ".join(self.told(field.name) for field in msgspec.structs.fields(self))

    def changed(
        self,
        smallest_leaf: int | None,
        threshold_digits: int | None,
        value_digits: int | None,
        *,
        exact_counts: bool | None,
    ) -> "Hardening":
        """Return these terms with the given values replaced."""
        given = {
            "smallest_leaf": smallest_leaf,
            "threshold_digits": threshold_digits,
            "value_digits": value_digits,
            "exact_counts": exact_counts,
        }
        named = {name: value for name, value in given.items() if value is not None}
        return msgspec.structs.replace(self, **named)

    def require_within(self, agreed: "Hardening") -> None:
        """Raise `PolicyError` if a model would show more than the parties agreed to."""
        name = self.shows_more_than(agreed)
        if name:
            raise PolicyError(
                f"The parties of this run agreed to {agreed.told(name)} for exported models; "
                f"{self.told(name)} would show more. Leave the option out, or agree on another "
                "[release] in a new job."
            )


EXACT: Final = Hardening(1, _MOST_DIGITS, _MOST_DIGITS, exact_counts=True)
"""The terms on which a model leaves as it was trained."""
