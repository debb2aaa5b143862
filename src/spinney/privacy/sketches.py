"""Marks of some rows, by which a party knows them again under another name.

A sketch holds the rows whose keyed hashes are the smallest (a bottom-k MinHash), so two sketches
under one key share about as large a part as the tables do. What is stored of a row is a second,
cryptographic hash under the same key: whoever has the ledger but not the key learns no row from it.
"""

from hmac import digest
from typing import Final

import numpy as np

from spinney.seeds import mix
from spinney.typing import Keys

_ROWS: Final = 256
_MARK_BYTES: Final = 8
_SHARE: Final = 0.05  # of the smaller sketch, from which rows count as the same
_LEAST: Final = 2


def sketch(secret: bytes, rows: Keys) -> tuple[str, ...]:
    """Return the marks of some rows, given a hash of each."""
    distinct = np.unique(rows)
    order = int.from_bytes(_keyed(secret, b"order")[:8], "little")
    ranked = mix(distinct ^ np.uint64(order))
    chosen = distinct[np.argsort(ranked, kind="stable")[:_ROWS]]
    return tuple(sorted(_keyed(secret, row.tobytes())[:_MARK_BYTES].hex() for row in chosen))


def check_value(secret: bytes) -> str:
    """Return a value by which a key is known again."""
    return _keyed(secret, b"which key")[:_MARK_BYTES].hex()


def have_same_rows(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two sketches under one key share too many rows for chance."""
    shared = len(set(one) & set(other))
    return shared >= max(_LEAST, _SHARE * min(len(one), len(other)))


def _keyed(secret: bytes, data: bytes) -> bytes:
    return digest(secret, b"spinney rows\0" + data, "sha256")
