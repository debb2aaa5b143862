"""Marks of some rows, by which a party knows them again under another name.

A row's keyed rank decides by its leading zeros whether it is in a sketch: in that of a small table
every row is, in that of a large one those whose rank has as many zeros as leave at most 4,096. So
of two tables, however large or small, the same rows are chosen down to the coarser of the two, and
a slice of a table shows its whole part of them. What is stored of a row is a second, cryptographic
hash under the same key: whoever has the ledger but not the key learns no row from it.

**What is noticed.** Rows are the same if two marks are, and 1 % of the smaller table's. The sketch
of a large table keeps one row in n / 4,096 at worst one in n / 2,048, so 0.33 % of its rows in
another table are noticed with 99 % (`tests/unit/privacy/test_sketches.py`).
"""

from hmac import digest
from typing import Final

import numpy as np

from spinney.seeds import mix
from spinney.typing import Keys

MOST_MARKS: Final = 4096
_MARK_BYTES: Final = 6
_LEVEL_LENGTH: Final = 2  # hexadecimal digits of a number of zeros
_LEAST: Final = 2
OF_IDS: Final = 0.01  # the share of the smaller table from which rows count as the same
OF_CELLS: Final = 0.05  # cells may be alike by chance


def sketch(secret: bytes, rows: Keys) -> tuple[str, ...]:
    """Return the marks of some rows, given a hash of each; the first says how coarse they are."""
    distinct = np.unique(rows)
    order = int.from_bytes(_keyed(secret, b"order")[:8], "little")
    rank = mix(distinct ^ np.uint64(order))
    zeros = 63 - np.floor(np.log2(np.maximum(rank, 1).astype(np.longdouble))).astype(np.int64)
    level = 0
    while np.count_nonzero(zeros >= level) > MOST_MARKS:
        level += 1
    chosen = zeros >= level
    marks = (
        f"{n:02x}{_keyed(secret, row.tobytes())[:_MARK_BYTES].hex()}"
        for row, n in zip(distinct[chosen], zeros[chosen].tolist(), strict=True)
    )
    return (f"{level:02x}", *sorted(marks))


def check_value(secret: bytes) -> str:
    """Return a value by which a key is known again."""
    return _keyed(secret, b"which key")[:8].hex()


def have_same_rows(one: tuple[str, ...], other: tuple[str, ...], share: float = OF_IDS) -> bool:
    """Return whether two sketches under one key share too many rows for chance."""
    if not (_is_sketch(one) and _is_sketch(other)):
        return False
    level = max(one[0], other[0])
    mine, others = (
        {mark for mark in marks[1:] if mark[:_LEVEL_LENGTH] >= level} for marks in (one, other)
    )
    return len(mine & others) >= max(_LEAST, share * min(len(mine), len(others)))


def _is_sketch(marks: tuple[str, ...]) -> bool:
    return bool(marks) and len(marks[0]) == _LEVEL_LENGTH


def _keyed(secret: bytes, data: bytes) -> bytes:
    return digest(secret, b"spinney rows\0" + data, "sha256")
