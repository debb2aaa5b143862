"""Plurals, capitals, and values as JSON."""

import msgspec


def some(n: int, one: str, many: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{n:,} {one if n == 1 else many}"


def as_json(value: object) -> str:
    """Return a value as one JSON document."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def capital(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]
