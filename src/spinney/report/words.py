"""Plurals, capitals, dates, and values as JSON."""

from datetime import UTC, datetime, timedelta

import msgspec

_FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC)


def date_of(days: float) -> str:
    """Return the date that many days after 1970-01-01; a number that is no date as it is."""
    try:
        return (_FIRST_DAY + timedelta(days=days)).date().isoformat()
    except (OverflowError, ValueError):
        return f"{days:g}"


def some(n: int, one: str, many: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{n:,} {one if n == 1 else many}"


def as_json(value: object) -> str:
    """Return a value as one JSON document."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def capital(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]
