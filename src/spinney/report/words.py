"""Plurals and capitals."""


def some(n: int, one: str, many: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{n:,} {one if n == 1 else many}"


def capital(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]
