"""Checks of `column_party` and `label_party`: which party holds which column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from spinney.errors import SettingError
from spinney.tables.names import feature_names
from spinney.tables.schema import join_words


@dataclass(frozen=True)
class ColumnParties:
    """The positions of every party's columns in the table, and the party with the labels."""

    columns: Mapping[str, tuple[int, ...]]
    label_party: str

    @property
    def owners(self) -> tuple[str, ...]:
        """The party of each column, in the order of the table."""
        party = {column: name for name, own in self.columns.items() for column in own}
        return tuple(party[column] for column in range(len(party)))


def column_parties(
    given: Any, label_party: Any, names: Sequence[str], X: Any = None
) -> ColumnParties:
    """Return which party holds which columns, in the given order of the parties.

    Parameters
    ----------
    given
        A dict with a list of columns per party, by name or by position; None: one party.
    label_party
        The party with the labels; may be None if there is only one party.
    names
        The names of all columns.
    X
        The table as given. The columns of an array have no names, so only positions work.
    """
    if given is None:
        if label_party is not None:
            raise SettingError(
                f"label_party names {label_party!r}, but column_party names no parties. Give "
                "column_party a dict of each party's columns."
            )
        return ColumnParties({"all": tuple(range(len(names)))}, "all")
    if not isinstance(given, Mapping) or not given:
        raise SettingError(
            "column_party must be a dict with a list of columns for each party, for example "
            f"{{'bank': ['age'], 'shop': ['visits']}}; got {given!r}."
        )
    has_names = X is None or feature_names(X) is not None
    place_of = {name: place for place, name in enumerate(names)} if has_names else {}
    columns = {
        str(party): _places(str(party), own, place_of, len(names)) for party, own in given.items()
    }
    _require_one_owner(columns, names)
    if label_party is None and len(columns) == 1:
        label_party = next(iter(columns))
    if not isinstance(label_party, str) or label_party not in columns:
        raise SettingError(
            f"label_party must name the one party that holds the labels: "
            f"{join_words(map(repr, columns))}; got {label_party!r}. If it holds only labels, "
            "give it an empty list in column_party."
        )
    return ColumnParties(columns, label_party)


def _places(party: str, own: Any, place_of: Mapping[str, int], n_columns: int) -> tuple[int, ...]:
    if isinstance(own, str) or not hasattr(own, "__iter__"):
        raise SettingError(
            f"column_party must give party {party!r} a list of columns; got {own!r}."
        )
    places = []
    for column in own:
        if column in place_of:
            places.append(place_of[column])
        elif isinstance(column, Integral) and 0 <= int(column) < n_columns:
            places.append(int(column))
        else:
            known = join_words(place_of) if place_of else f"positions 0 to {n_columns - 1}"
            raise SettingError(
                f"column_party gives party {party!r} the column {column!r}, which the table does "
                f"not have. It has: {known}."
            )
    return tuple(sorted(places))


def _require_one_owner(columns: Mapping[str, tuple[int, ...]], names: Sequence[str]) -> None:
    owner: dict[int, str] = {}
    for party, own in columns.items():
        for column in own:
            if column in owner:
                twice = "twice" if owner[column] == party else f"and to party {owner[column]!r}"
                raise SettingError(
                    f"column_party gives the column {names[column]!r} to party {party!r} {twice}. "
                    "Every column belongs to one party."
                )
            owner[column] = party
    missing = [repr(name) for place, name in enumerate(names) if place not in owner]
    if missing:
        raise SettingError(
            f"column_party gives the column {join_words(missing)} to no party. Give it to one, or "
            "drop it from X."
        )
