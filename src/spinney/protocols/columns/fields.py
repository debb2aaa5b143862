"""How sums are packed into one encrypted number: side by side, in fields of the same width.

Fields are as wide as the heaviest tree needs, so no sum overflows into the next field.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spinney.errors import ProtocolError
from spinney.typing import Integers


@dataclass(frozen=True)
class Fields:
    """The packing of a cell's sums in a number, or in several planes of numbers."""

    field_bits: int
    n_fields: int  # over all planes
    room: int

    @classmethod
    def of(cls, n_fields: int, field_bits: int, room: int) -> "Fields":
        """Return fields that fit a key's room; raise if one does not."""
        if not 0 < field_bits < room:
            raise ProtocolError("The labels' fields do not fit the key.")
        return cls(field_bits, n_fields, room)

    @property
    def per_plane(self) -> int:
        """How many fields one ciphertext of a row holds."""
        return min(self.n_fields, self.room // self.field_bits)

    @property
    def n_planes(self) -> int:
        """How many ciphertexts a row has."""
        return -(-self.n_fields // self.per_plane)

    @property
    def width(self) -> int:
        """How many bits one cell's sums take in a plane."""
        return self.per_plane * self.field_bits

    def cells_in_one(self, n: int) -> int:
        """Return how many of `n` cells are packed into one ciphertext."""
        return max(1, min(self.room // self.width, n))

    def split(self, planes: Sequence[Sequence[int]]) -> Integers:
        """Return the fields of every cell, (n_cells, n_fields)."""
        mask = (1 << self.field_bits) - 1
        rows = [
            [
                number >> (self.field_bits * place) & mask
                for number in numbers
                for place in range(self.per_plane)
            ]
            for numbers in zip(*planes, strict=True)
        ]
        return np.array(rows, np.int64).reshape(-1, self.n_planes * self.per_plane)[
            :, : self.n_fields
        ]
