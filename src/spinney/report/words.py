"""Small matters of language: plurals and capitals."""


def some(n: int, one: str, many: str) -> str:
    """Return a number of things."""
    return f"{n:,} {one if n == 1 else many}"


def capital(text: str) -> str:
    """Return a text that begins a line."""
    return text[:1].upper() + text[1:]
