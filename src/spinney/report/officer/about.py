"""What only people know about a run: `about.toml` beside its report.

```toml
purpose = "Predict readmission within 30 days, to plan care after discharge."
legal_basis = "Art. 9(2)(i) GDPR; ethics vote 2026-114"

[contacts]                          # by party; "lead" and "coordinator" are known names, too
north = "dpo@north.example.org"

[data_categories]                   # by column
age = "personal data"
ward = "health data (Art. 9 GDPR)"
```
"""

import tomllib

import msgspec

from spinney.errors import SettingError

ABOUT = "about.toml"


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Purpose, legal basis and contacts of a run, and the category of each column's data."""

    purpose: str = ""
    legal_basis: str = ""
    contacts: dict[str, str] = {}
    data_categories: dict[str, str] = {}


def about_of(data: bytes, parties: tuple[str, ...], columns: tuple[str, ...]) -> About:
    """Return what the file says; raise if it names parties or columns that the run does not have.

    Without a model nobody knows the columns, and `columns` is empty.
    """
    try:
        about = msgspec.convert(tomllib.loads(data.decode("utf-8-sig")), type=About)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        words = f"{ABOUT!r} cannot be read: {error}. docs/report.md shows one."
        raise SettingError(words) from None
    known = (*parties, "lead", "coordinator")
    for name in about.contacts:
        if name not in known:
            raise SettingError(
                f"{ABOUT!r} has a contact for {name!r}, who is not in this run. Known: "
                f"{', '.join(known)}."
            )
    for name in about.data_categories if columns else ():
        if name not in columns:
            raise SettingError(
                f"{ABOUT!r} has a data category for {name!r}, which is no column of this run's "
                f"model. It has: {', '.join(columns)}."
            )
    return about
