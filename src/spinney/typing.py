"""Array aliases and the few structural types that sibling layers share.

A name here says what the numbers mean; the comment says the shape.
"""

from collections.abc import Callable
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]  # (n_columns, n_rows); NaN = missing; categories by their index
Codes = NDArray[np.uint8] | NDArray[np.uint16]  # (n_columns, n_rows) bins of a table
Keys = NDArray[np.uint64]  # (n_rows,) each row's own key
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Packs(Protocol):
    """A value that can encode itself."""

    def pack(self) -> bytes:
        """Return the encoding."""
        ...


@runtime_checkable
class Packable(Protocol):
    """A value that can encode itself in fewer bytes than its arrays take."""

    def pack(self) -> bytes:
        """Return the encoding."""
        ...

    def packed_size(self) -> int:
        """Return `len(self.pack())` without encoding."""
        ...

    @classmethod
    def unpacked_size(cls, data: bytes) -> int:
        """Return the approximate size in bytes of `unpack(data)`; reads only the header."""
        ...

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Return the value that `pack` encoded; raise `StorageError` on anything else."""
        ...


Progress = Callable[[str, int, int], None]  # (phase, steps done, steps in all)
"""A callback; long computations call it before or after every step.

A phase without steps has 0 in all; one whose steps have no known end has `ENDLESS`. What follows a
comma in the phase is about the last step: "evolving, best f1 0.8".
"""
ENDLESS = -1


def step_under_way(done: int, total: int) -> int:
    """Return the number of the present step, counted from 1; 0 if the phase has no steps."""
    if not total:
        return 0
    return done + 1 if total < 0 else min(done + 1, total)


def silent(phase: str, done: int, total: int) -> None:
    """Ignore progress."""
