"""Secrets that a file names and does not hold, such as the address of a database with its password.

A secret comes from a systemd credential of that name, or from the environment. A process that
serves others gets its secrets when it starts in its cage, and has none in its environment.
"""

import os
from pathlib import Path

_TAKEN: dict[str, str] = {}


def secret_called(name: str) -> str | None:
    """Return a secret; None if there is none of that name."""
    if name in _TAKEN:
        return _TAKEN[name]
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    credential = None if folder is None else Path(folder) / name
    if credential is not None and credential.is_file():
        return credential.read_text().strip()
    return os.environ.get(name)


def keep_secret(name: str, value: str) -> None:
    """Keep a secret in memory, from where `secret_called` takes it."""
    _TAKEN[name] = value
