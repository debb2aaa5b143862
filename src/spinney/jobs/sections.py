"""Turn a section of a TOML file into a frozen struct, with readable error messages.

msgspec checks the values; this module names the key and says what is wrong with it.
"""

import re
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec

from spinney.errors import SettingError

Config = TypeVar("Config", bound=msgspec.Struct)
_MISMATCH = re.compile(r"Expected `(?P<right>.+?)`.*?, got `(?P<wrong>.+?)`")
_PLACE = re.compile(r" - at `\$\.?(?P<place>.*)`$")


_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table of keys",
}


class ColumnConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The public facts of one column."""

    kind: str
    range: tuple[float, ...] | None = None
    values: tuple[str | int | float | bool, ...] | None = None


def section(given: dict[str, Any], name: str, kind: type[Config], where: str) -> Config:
    """Return one section, with default values if the file leaves it out."""
    found = given.get(name, {})
    if isinstance(found, list):
        raise SettingError(f"{where} has more than one [{name}]. Write it once, as [{name}].")
    return _converted(found, f"[{name}]", kind, where)


def sections(
    given: dict[str, Any], name: str, kind: type[Config], where: str
) -> tuple[Config, ...]:
    """Return all sections with a name that may be repeated."""
    found = given.get(name, [])
    if not isinstance(found, list):
        raise SettingError(f"[{name}] in {where} needs double brackets: [[{name}]].")
    return tuple(_converted(one, f"[[{name}]]", kind, where) for one in found)


def _converted(found: Any, heading: str, kind: type[Config], where: str) -> Config:
    if not isinstance(found, dict):
        raise SettingError(f"{heading} in {where} must be a section of keys; got {found!r}.")
    _refuse_unknown_keys(found, heading, kind, where)
    columns = found.get("columns")
    if not isinstance(columns, dict):
        return _checked(found, f"{heading} in {where}", kind)
    facts = {
        name: _column(one, f"The column {name!r} in {heading} of {where}")
        for name, one in columns.items()
    }
    others = {key: value for key, value in found.items() if key != "columns"}
    config = _checked(others, f"{heading} in {where}", kind)
    return msgspec.structs.replace(config, columns=facts)


def _column(found: Any, where: str) -> ColumnConfig:
    if not isinstance(found, dict):
        raise SettingError(f'{where} must be given as {{ kind = "number" }}; got {found!r}.')
    _refuse_unknown_keys(found, where, ColumnConfig)
    return _checked(found, where, ColumnConfig)


def _checked(found: dict[str, Any], where: str, kind: type[Config]) -> Config:
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, SettingError):
            raise error.__cause__ from None
        raise SettingError(f"{where}: {_in_words(str(error), found)}") from None


def _refuse_unknown_keys(found: dict[str, Any], heading: str, kind: Any, where: str = "") -> None:
    accepted = kind.__struct_encode_fields__
    known = [key for key in accepted if key not in getattr(kind, "refused", ())]
    for key in found:
        if key in accepted:
            continue
        near = get_close_matches(key, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        place = f"in {heading} of {where}" if where else f"for {heading[:1].lower()}{heading[1:]}"
        raise SettingError(f"Unknown key {key!r} {place}.{hint} Known keys: {', '.join(known)}.")


def _in_words(message: str, found: dict[str, Any]) -> str:
    """Return a readable message for an error of msgspec."""
    place = _PLACE.search(message)
    key = place["place"] if place else ""
    if lacks := re.match(r"Object missing required field `(.+?)`", message):
        return f"the key {lacks[1]!r} is missing. Add it."
    mismatch = _MISMATCH.match(message)
    if not mismatch:
        return message if message.endswith(".") else f"{message}."
    right = _typed(mismatch["right"])
    got = found.get(key)
    shown = repr(got) if isinstance(got, str | int | float) else _typed(mismatch["wrong"])
    called = f"every entry of {key.removesuffix('[...]')}" if key.endswith("[...]") else key
    return f"{called} must be {right}; got {shown}."


def _typed(names: str) -> str:
    """Return type names in words: `int | float | null` becomes "a number"."""
    kinds = [name.strip() for name in names.split("|") if name.strip() != "null"]
    if "float" in kinds and "int" in kinds:
        kinds.remove("int")
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds)
