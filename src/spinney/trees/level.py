"""The coordinator's decisions for the open nodes of one depth, over all trees.

The forest so far is a tuple of levels; from it and the job's public facts, anyone can compute the
open nodes (`frontier`).
"""

import struct
from dataclasses import FrozenInstanceError
from functools import cached_property
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from spinney.errors import StorageError
from spinney.trees.dtypes import CATEGORY_WORDS
from spinney.typing import Bools, Codes, Integers

_HEAD = struct.Struct("<IIII?B")  # open, split, sets, children, wide columns, what else
_THRESHOLDS = 1
_LINES = 2
_PARTS = 4  # cuts have two bytes: bins are divided into parts
_WHERE = 8
_TAIL = struct.Struct("<II?")  # the shape of `where`, and whether its numbers have two bits
NOWHERE = np.zeros((0, 0), np.uint8)


class Level:
    """The decisions for the open nodes of one depth, in order.

    Rows whose bin of `feature` is at most `cut` go left; for a category, those in its bin set. A
    node that stays (its cut is the highest there is) sends all its rows into a left child, which is
    the node itself, and none into the right one, which is no node; it is asked about again. A node
    with several lines of columns is open once for each; the first one stands for it, and the others
    have no feature. This is not a dataclass: a codec would encode its fields instead of calling
    `pack`.
    """

    feature: NDArray[np.int32]  # (n_open,) -1: stays a leaf
    cut: Codes  # (n_open,)
    missing_left: Bools  # (n_open,)
    subset: NDArray[np.int32]  # (n_open,) row of bin_sets, -1 for numbers
    bin_sets: NDArray[np.uint64]  # (n_sets, 4)
    child_open: Bools  # (2 * n_split,) left and right child of each split node
    child_bits: NDArray[np.uint8]  # (open children,) bits of the row count over all parties
    child_derived: Bools  # (open children,) derived from parent and sibling
    threshold: NDArray[np.float32]  # (n_open,) instead of cuts; empty unless adaptive
    child_lines: NDArray[np.uint16]  # (open children,) how many lines of columns each is asked
    where: NDArray[np.uint8]  # what counts tell about where rows are, so that boxes get narrower

    def __init__(
        self,
        *,
        feature: NDArray[np.int32],
        cut: Codes,
        missing_left: Bools,
        subset: NDArray[np.int32],
        bin_sets: NDArray[np.uint64],
        child_open: Bools,
        child_bits: NDArray[np.uint8],
        child_derived: Bools,
        threshold: NDArray[np.float32],
        child_lines: NDArray[np.uint16] | None = None,
        where: NDArray[np.uint8] | None = None,
    ) -> None:
        ones = np.ones(child_bits.size, np.uint16)
        self.__dict__.update(
            child_lines=ones if child_lines is None else child_lines,
            feature=feature,
            cut=cut,
            missing_left=missing_left,
            subset=subset,
            bin_sets=bin_sets,
            child_open=child_open,
            child_bits=child_bits,
            child_derived=child_derived,
            threshold=threshold,
            where=NOWHERE if where is None else where,
        )

    def __setattr__(self, name: str, _: object) -> NoReturn:
        raise FrozenInstanceError(f"A level is part of messages: {name!r} cannot be changed.")

    def replaced(self, **changes: NDArray[Any]) -> "Level":
        """Return the same decisions with some changes."""
        return Level(**{name: getattr(self, name) for name in _DECISIONS} | changes)

    @cached_property
    def has_lines(self) -> bool:
        """Whether some open child is asked about in several lines."""
        return bool((self.child_lines != 1).any())

    @cached_property
    def stays(self) -> Bools:
        """Which nodes stay open as they are, (n_open,)."""
        highest = np.iinfo(self.cut.dtype).max
        stays: Bools = (self.feature >= 0) & (self.cut == highest) & (self.threshold.size == 0)
        return stays

    @cached_property
    def splits(self) -> Bools:
        """Which nodes are split, (n_open,)."""
        splits: Bools = self.feature >= 0
        return splits

    @cached_property
    def all_children(self) -> Integers:
        """The index of each node's left and right child among all, open or not; -1 for none."""
        children = np.full((self.feature.size, 2), -1, np.int64)
        children[self.splits] = np.arange(self.child_open.size).reshape(-1, 2)
        return children

    @cached_property
    def children(self) -> Integers:
        """The index of each node's left and right child among the open nodes, -1 for none."""
        place = np.full(self.child_open.size, -1, np.int64)
        lines = self.child_lines.astype(np.int64)
        place[self.child_open] = np.cumsum(lines) - lines
        children = np.full((self.feature.size, 2), -1, np.int64)
        children[self.feature >= 0] = place.reshape(-1, 2)
        return children

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Level):
            return NotImplemented
        return all(np.array_equal(getattr(self, name), getattr(other, name)) for name in _DECISIONS)

    __hash__ = None  # type: ignore[assignment]  # arrays

    def pack(self) -> bytes:
        """Return the decisions in a few bytes per node; fields that a leaf lacks are omitted."""
        split = self.feature >= 0
        n_open, n_split = self.feature.size, int(split.sum())
        wide = int(self.feature.max(initial=-1)) >= 255
        head = _HEAD.pack(
            n_open,
            n_split,
            len(self.bin_sets),
            self.child_bits.size,
            wide,
            _THRESHOLDS * (self.threshold.size > 0)
            + _LINES * self.has_lines
            + _PARTS * (self.cut.itemsize > 1)
            + _WHERE * (self.where.size > 0),
        )
        columns = (self.feature + 1).astype("<u4" if wide else "<u1")  # 0: a leaf
        flags = np.concatenate(
            [self.missing_left[split], self.subset[split] >= 0, self.child_open, self.child_derived]
        )
        return b"".join(
            [
                head,
                columns.tobytes(),
                self.cut[split].astype(f"<u{self.cut.itemsize}").tobytes(),
                np.packbits(flags).tobytes(),
                self.bin_sets.astype("<u8").tobytes(),
                self.child_bits.tobytes(),
                self.threshold.astype("<f4").tobytes(),
                self.child_lines.astype("<u2").tobytes() if self.has_lines else b"",
                self._packed_where(),
            ]
        )

    def _packed_where(self) -> bytes:
        """Return where rows are, in two bits or a byte for each column or cut."""
        if not self.where.size:
            return b""
        few = bool(self.where.max() < 4)
        planes = np.stack([self.where & 1, self.where >> 1])
        data = np.packbits(planes) if few else self.where
        return _TAIL.pack(*self.where.shape, few) + data.tobytes()

    def packed_size(self) -> int:
        """Return the length of `pack()` without encoding."""
        return self._packed_size

    @cached_property
    def _packed_size(self) -> int:
        n_split = int(np.count_nonzero(self.feature >= 0))
        wide = int(self.feature.max(initial=-1)) >= 255
        n_flags = 4 * n_split + self.child_bits.size
        body = (
            self.feature.size * (4 if wide else 1)
            + n_split * self.cut.itemsize
            + (n_flags + 7) // 8
        )
        return (
            _HEAD.size + body + 32 * len(self.bin_sets) + self.child_bits.size
            + 4 * self.threshold.size + 2 * self.child_lines.size * self.has_lines
            + len(self._packed_where())
        )  # fmt: skip

    @classmethod
    def unpacked_size(cls, data: bytes) -> int:
        """Return about how many bytes `unpack(data)` would take; each node has at least a byte."""
        return 16 * len(data)

    @classmethod
    def unpack(cls, data: bytes) -> "Level":
        """Return the decisions that `pack` wrote."""
        if len(data) < _HEAD.size:
            raise StorageError("A packed level is too short to hold its header.")
        n_open, n_split, n_sets, n_children, wide, more = _HEAD.unpack_from(data)
        n_flags = 4 * n_split + n_children
        cut_type = np.dtype(np.uint16 if more & _PARTS else np.uint8)
        sizes = [
            n_open * (4 if wide else 1), n_split * cut_type.itemsize, (n_flags + 7) // 8,
            32 * n_sets, n_children, 4 * n_open * bool(more & _THRESHOLDS),
            2 * n_children * bool(more & _LINES),
        ]  # fmt: skip
        rest = len(data) - _HEAD.size - sum(sizes)
        known = _THRESHOLDS + _LINES + _PARTS + _WHERE
        if more > known or rest < 0 or (rest > 0) != bool(more & _WHERE):
            raise StorageError("A packed level is cut short or too long.")
        ends = (np.cumsum([0, *sizes, rest]) + _HEAD.size).tolist()
        parts = [data[a:b] for a, b in pairwise(ends)]
        feature = np.frombuffer(parts[0], "<u4" if wide else "<u1").astype(np.int32) - 1
        split = feature >= 0
        flags = np.unpackbits(np.frombuffer(parts[2], np.uint8), count=n_flags).astype(np.bool_)
        child_open = flags[2 * n_split : 4 * n_split]
        with_set = flags[n_split : 2 * n_split]
        sound = int(split.sum()) == n_split and int(with_set.sum()) == n_sets
        if not sound or int(child_open.sum()) != n_children:
            raise StorageError("A packed level does not fit the counts in its header.")
        cut = np.zeros(n_open, cut_type)
        cut[split] = np.frombuffer(parts[1], cut_type.newbyteorder("<"))
        missing_left = np.zeros(n_open, np.bool_)
        missing_left[split] = flags[:n_split]
        subset = np.full(n_open, -1, np.int32)
        subset[np.flatnonzero(split)[with_set]] = np.arange(n_sets)
        return cls(
            feature=feature,
            cut=cut,
            missing_left=missing_left,
            subset=subset,
            bin_sets=np.frombuffer(parts[3], "<u8").reshape(-1, 4).astype(np.uint64),
            child_open=child_open,
            child_bits=np.frombuffer(parts[4], np.uint8).copy(),
            child_derived=flags[4 * n_split :],
            threshold=np.frombuffer(parts[5], "<f4").astype(np.float32),
            child_lines=np.frombuffer(parts[6], "<u2").astype(np.uint16) if parts[6] else None,
            where=_where_of(parts[7]),
        )


def _where_of(data: bytes) -> NDArray[np.uint8]:
    """Return where rows are, as `pack` wrote it."""
    if not data:
        return NOWHERE
    n_lines, width, few = _TAIL.unpack_from(data.ljust(_TAIL.size, b"\0"))
    n = n_lines * width
    found = np.frombuffer(data, np.uint8, offset=min(_TAIL.size, len(data)))
    if not n or found.size != ((2 * n + 7) // 8 if few else n):
        raise StorageError("A packed level is cut short or too long.")
    if few:
        low, high = np.unpackbits(found, count=2 * n).reshape(2, n)
        found = low + 2 * high
    return found.reshape(n_lines, width).copy()


_DECISIONS = (
    "feature", "cut", "missing_left", "subset", "bin_sets", "child_open", "child_bits",
    "child_derived", "threshold", "child_lines", "where",
)  # fmt: skip


def by_node(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Return levels in which every open node stands once, however many lines it has."""
    found: list[Level] = []
    for above, level in zip((None, *levels), levels, strict=False):
        if above is None or not above.has_lines:
            found.append(level)
            continue
        lines = above.child_lines.astype(np.int64)
        first = np.cumsum(lines) - lines
        threshold = level.threshold[first] if level.threshold.size else level.threshold
        own = {name: getattr(level, name)[first] for name in _OF_NODES}
        found.append(level.replaced(threshold=threshold, **own))
    return tuple(found)


_OF_NODES = ("feature", "cut", "missing_left", "subset")


def empty_bin_sets(n: int) -> NDArray[np.uint64]:
    """Return `n` empty bin sets."""
    return np.zeros((n, CATEGORY_WORDS), np.uint64)


def splits_only(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Return levels without the choice of nodes asked about, which changes if a party leaves."""
    return tuple(
        level.replaced(child_derived=np.zeros_like(level.child_derived)) for level in levels
    )
