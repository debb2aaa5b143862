"""Which rows of a level go left, without the columns of the cuts: what every party may know."""

import struct

import numpy as np
from numpy.typing import NDArray

from spinney.errors import ProtocolError, StorageError
from spinney.trees._kernels import columns as kernels
from spinney.typing import Bools, Integers

_HEAD = struct.Struct("<III")  # open nodes, split ones, bytes of sides
Bytes = NDArray[np.uint8]
SEAL_BYTES = 16
_NO_SEAL = np.zeros(0, np.uint8)
_TURNS = 1 << 31  # a bit of the number of open nodes: turns are packed too
Turns = NDArray[np.int8]
NO_TURNS: Turns = np.zeros(0, np.int8)


class Partition:
    """Which open nodes are split, which of their children stay open, and which rows go left.

    `sides` holds a bit for each row entry of a split node; every node begins at a new byte. `seal`
    says that the parties made it: 16 bytes, or none where all parties are in one process. `turns`
    says of each split in which direction its column may change the prediction, if that is limited.
    This is not a dataclass: a codec would encode its fields instead of calling `pack`.
    """

    def __init__(
        self,
        split: Bools,
        child_open: Bools,
        sides: Bytes,
        seal: Bytes = _NO_SEAL,
        turns: Turns = NO_TURNS,
    ) -> None:
        self.split = split  # (n_open,)
        self.child_open = child_open  # (2 * n_split,)
        self.sides = sides
        self.seal = seal
        self.turns = turns  # (n_split,), or none

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return all(np.array_equal(value, vars(other)[name]) for name, value in vars(self).items())

    __hash__ = None  # type: ignore[assignment]  # arrays

    def pack(self) -> bytes:
        """Return the partition with one bit per flag."""
        n_split = self.child_open.size // 2
        marked = _TURNS if self.turns.size else 0
        head = _HEAD.pack(self.split.size | marked, n_split, self.sides.size)
        flags = np.packbits(
            np.concatenate([self.split, self.child_open, self.turns > 0, self.turns < 0])
        )
        return b"".join([head, flags.tobytes(), self.sides.tobytes(), self.seal.tobytes()])

    def packed_size(self) -> int:
        """Return the length of `pack()` without encoding."""
        n_flags = self.split.size + self.child_open.size + 2 * self.turns.size
        return int(_HEAD.size + (n_flags + 7) // 8 + self.sides.size + self.seal.size)

    @classmethod
    def unpacked_size(cls, data: bytes) -> int:
        """Return about how many bytes `unpack(data)` would take: a flag becomes a byte."""
        return 8 * len(data)

    @classmethod
    def unpack(cls, data: bytes) -> "Partition":
        """Return what `pack` wrote."""
        if len(data) < _HEAD.size:
            raise StorageError("A packed partition is too short to hold its header.")
        n_open, n_split, n_bytes = _HEAD.unpack_from(data)
        has_turns, n_open = bool(n_open & _TURNS), n_open & ~_TURNS
        n_flags = n_open + (4 if has_turns else 2) * n_split
        at = _HEAD.size + (n_flags + 7) // 8
        if len(data) - at - n_bytes not in (0, SEAL_BYTES) or n_split > n_open:
            raise StorageError("A packed partition is cut short or too long.")
        packed = np.frombuffer(data, np.uint8, at - _HEAD.size, _HEAD.size)
        flags = np.unpackbits(packed, count=n_flags).astype(np.bool_)
        if int(flags[:n_open].sum()) != n_split:
            raise StorageError("A packed partition does not fit the counts in its header.")
        sides, seal = np.split(np.frombuffer(data, np.uint8, offset=at).copy(), [n_bytes])
        split, children, up, down = np.split(
            flags, [n_open, n_open + 2 * n_split, n_open + 3 * n_split]
        )
        turns = up.astype(np.int8) - down.astype(np.int8)
        return cls(split, children, sides, seal, turns)

    def has_sides(self, nodes: Integers, sizes: Integers, sides: Bytes) -> bool:
        """Return whether some nodes, in order, are split to these sides; `sizes` are all nodes'.

        It must fit the open nodes (`check`).
        """
        return bool(kernels.has_sides(self.split, sizes, self.sides, nodes, sides))

    def laid(self, sizes: Integers) -> tuple[Integers, Integers]:
        """Return which open nodes are split, and where the sides of each begin."""
        node, begin = np.empty((2, self.child_open.size // 2), np.int64)
        kernels.lay_sides(self.split, sizes, node, begin)
        return node, begin

    def check(self, sizes: Integers) -> None:
        """Raise unless it fits open nodes with these row entries; others may have sent it."""
        n_split, n_bytes = -1, -1
        if self.split.shape == sizes.shape:
            n_split, n_bytes = kernels.count_sides(self.split, sizes)
        if (
            self.child_open.size != 2 * n_split
            or self.sides.size != n_bytes
            or self.turns.size not in {0, n_split}
        ):
            raise ProtocolError("A level's partition does not fit its open nodes.")


def side_bytes(sizes: Integers) -> Integers:
    """Return how many bytes the sides of nodes with these row entries take."""
    n_bytes: Integers = (sizes + 7) >> 3
    return n_bytes


def starts_of(lengths: Integers) -> Integers:
    """Return where runs of these lengths begin."""
    begin: Integers = np.cumsum(lengths) - lengths
    return begin


class PartitionMerge:
    """Merges the parties' sides into one partition that does not say which party sent which.

    The coordinator uses it; it tracks how many row entries every open node has, from the roots on.
    """

    def __init__(self, sizes: Integers) -> None:
        self.sizes = sizes

    def merged(
        self, split: Bools, child_open: Bools, parts: list[tuple[Integers, Bytes]]
    ) -> Partition:
        """Return the level's partition; each part holds the sides of some split nodes, in order."""
        nodes = np.flatnonzero(split)
        n_bytes = side_bytes(self.sizes[nodes])
        begin = starts_of(n_bytes)
        place = np.zeros(split.size, np.int64)
        place[nodes] = np.arange(nodes.size)
        out = np.zeros(int(n_bytes.sum()), np.uint8)
        left = np.zeros(nodes.size, np.int64)
        for own, sides in parts:
            at = place[own]
            if sides.size != n_bytes[at].sum():
                raise ProtocolError("A party's sides do not have the rows of the requested nodes.")
            counted = np.zeros(own.size, np.int64)
            kernels.place_bytes(sides, starts_of(n_bytes[at]), begin[at], n_bytes[at], out, counted)
            left[at] = counted
        if np.any(left > self.sizes[nodes]):
            raise ProtocolError("A party's sides name more rows than a node has.")
        sizes = np.empty(2 * nodes.size, np.int64)
        sizes[0::2], sizes[1::2] = left, self.sizes[nodes] - left
        self.sizes = sizes[child_open]
        return Partition(split, child_open, out)
