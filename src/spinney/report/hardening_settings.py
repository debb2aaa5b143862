"""Terms for hardening a model before it leaves, agreed by the parties and used by an export."""

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
        for name, is_more in (
            ("smallest_leaf", self.smallest_leaf < agreed.smallest_leaf),
            ("threshold_digits", self.threshold_digits > agreed.threshold_digits),
            ("value_digits", self.value_digits > agreed.value_digits),
            ("exact_counts", self.exact_counts and not agreed.exact_counts),
        ):
            if is_more:
                raise PolicyError(
                    f"The parties of this run agreed to {name}={_told(agreed, name)} for exported "
                    f"models; {name}={_told(self, name)} would show more. Leave the option out, "
                    "or agree on another [release] in a new job."
                )


def _told(terms: Hardening, name: str) -> str:
    return str(getattr(terms, name)).lower()
