"""What a check tells about a table, and what a user may choose about it."""

from dataclasses import dataclass
from typing import Literal

from spinney.errors import SettingError

Weight = Literal["changed", "left out", "look"]


@dataclass(frozen=True)
class Note:
    """One finding: what was seen, and what to do; for the table's owner, because it shows cells."""

    weight: Weight  # cells are read otherwise | the column is not used | look at it yourself
    column: str
    seen: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.seen} {self.remedy}"


@dataclass(frozen=True)
class Choices:
    """What the user says about a table on the command line."""

    drop: tuple[str, ...] = ()
    dates: str = "days"
    na: tuple[str, ...] = ()
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.dates not in ("days", "drop"):
            raise SettingError(
                f"--dates must be days (days since 1970-01-01) or drop; got {self.dates!r}."
            )
        if self.decimal not in (None, ",", "."):
            raise SettingError(f"--decimal must be ',' or '.'; got {self.decimal!r}.")


def share(part: int, whole: int) -> str:
    """Return a share as a percentage that is never rounded to nothing or to all."""
    percent = 100 * part / max(whole, 1)
    if 0 < percent < 0.1:
        return "below 0.1 %"
    if 99.9 < percent < 100:
        return "above 99.9 %"
    is_whole = not part or 10 <= percent <= 99 or percent == 100
    return f"{percent:.0f} %" if is_whole else f"{percent:.1f} %"


def some_cells(cells: tuple[tuple[str, int], ...], at_most: int = 4) -> str:
    """Return a few cells with their numbers of rows."""
    shown = ", ".join(f"{_short(text)!r} ({n})" for text, n in cells[:at_most])
    return shown + (", ..." if len(cells) > at_most else "")


def _short(text: str) -> str:
    return text if len(text) <= 30 else f"{text[:27]}..."


def some(n: int, one: str, many: str) -> str:
    """Return a number of things with the right word."""
    return f"{n:,} {one if n == 1 else many}"
