"""A batch of boosted trees: which columns its nodes may use, and the batch once it is grown."""

import struct
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spinney import seeds
from spinney.errors import ProtocolError, StorageError
from spinney.trees.frontier import ColumnCells, Draws, Frontier, Slots, line_sums
from spinney.trees.level import Level, splits_only
from spinney.typing import Bools, Integers, Keys, Packs

_COLUMN_STREAM = np.uint64(0x636F6C756D6E73)  # draws of columns, apart from all other draws
_LENGTH = struct.Struct("<I")
_MOST_LEVELS = 64


@dataclass(frozen=True)
class ColumnRules:
    """Which columns the nodes of a tree may use."""

    per_tree: float = 1.0  # the share of columns that a tree draws
    per_node: float = 1.0  # the share of those that a node draws
    together: tuple[tuple[int, ...], ...] = ()  # columns that may be on one path; empty: any


@dataclass(frozen=True)
class BatchFrontier(Frontier):
    """The open nodes of a batch; a node has slots for the columns that it may use."""

    rules: ColumnRules
    drawn: Bools  # (n_trees, n_columns) the columns of each tree
    on_path: Bools  # (n_open, n_columns) the columns that have split the nodes above

    @classmethod
    def of_batch(
        cls, columns: ColumnCells, rules: ColumnRules, keys: Keys, *, draws: Draws, bits: int
    ) -> Self:
        """Return the roots of a batch; each holds fewer than 2^bits rows."""
        n_trees, n_columns = keys.size, columns.n_columns
        roots = Frontier.of_roots(columns, draws, seed=0, n_trees=n_trees, bits=bits)
        every = np.ones((n_trees, n_columns), np.bool_)
        return cls(
            **{name: getattr(roots, name) for name in Frontier.__dataclass_fields__}
            | {"key": seeds.mix(keys ^ np.uint64(1)), "phase_key": keys},
            rules=rules,
            drawn=draw_share(every, keys, rules.per_tree),
            on_path=~every,
        )

    def _of_children(self, level: Level) -> dict[str, Any]:
        found = super()._of_children(level)
        on_path = self.on_path[found["parent"]]
        split = level.feature[found["parent"]]
        on_path[np.arange(split.size), split] = True
        return found | {"on_path": on_path}

    @property
    def allows_all(self) -> bool:
        """Whether every node may use every column."""
        rules = self.rules
        return not rules.together and rules.per_tree >= 1.0 and rules.per_node >= 1.0

    @cached_property
    def allowed(self) -> Bools:
        """Which columns each open node may use, (n_open, n_columns)."""
        allowed = self.drawn[self.tree]
        if self.rules.together:
            sets = np.zeros((len(self.rules.together), self.columns.n_columns), np.bool_)
            for number, chosen in enumerate(self.rules.together):
                sets[number, list(chosen)] = True
            # A set is open to a node if it holds every column of the node's path.
            fits = (~self.on_path[:, None, :] | sets[None]).all(axis=2, keepdims=True)
            allowed = allowed & np.logical_or.reduce(fits & sets[None], axis=1)
        if self.rules.per_node < 1.0:
            allowed = draw_share(allowed, self.key, self.rules.per_node)
        return allowed

    @cached_property
    def slots(self) -> Slots:
        """The allowed features of every open node; at least one, so that its rows are counted."""
        found = self._slots()
        if self.allows_all or self.allowed.all():
            return found
        keep = (found.feature >= 0) & np.take_along_axis(
            self.allowed, found.feature.clip(0).astype(np.intp), axis=1
        )
        keep[:, 0] |= ~keep.any(axis=1)
        order = np.argsort(~keep, axis=1, kind="stable")

        def kept(array: NDArray[Any], unused: int) -> NDArray[Any]:
            moved = np.take_along_axis(np.where(keep, array, unused), order, axis=1)
            return np.ascontiguousarray(moved[:, :width]).astype(array.dtype)

        width = max(1, int(line_sums(keep).max(initial=1)))
        return Slots.of(
            kept(found.feature, -1), kept(found.add, 0), kept(found.shift, 0), kept(found.cells, 0)
        )


def draw_share(among: Bools, keys: Keys, share: float) -> Bools:
    """Return a share of each line's columns, drawn by hash; at least one if there is any."""
    if share >= 1.0:
        return among
    columns = seeds.mix(np.arange(among.shape[1], dtype=np.uint64) ^ _COLUMN_STREAM)
    words = seeds.mix(keys[:, None] ^ columns[None]) >> np.uint64(1)
    words = np.where(among, words, np.uint64(2**64 - 1))
    n = line_sums(among)
    rank = np.argsort(np.argsort(words, axis=1, kind="stable"), axis=1, kind="stable")
    wanted = np.maximum(np.ceil(n * share), np.minimum(n, 1))
    drawn: Bools = among & (rank < wanted[:, None])
    return drawn


class Told:
    """A step of the job's story, packed once: a level's splits, or a finished batch."""

    __slots__ = ("_packed",)

    def __init__(self, what: Packs) -> None:
        self._packed = what.pack()

    def pack(self) -> bytes:
        """Return the step as bytes."""
        return self._packed


class GrownBatch:
    """A finished batch: its levels, and what each leaf adds to scores, level by level.

    It is packed once, however many questions repeat it. This is not a dataclass: a codec would
    encode its fields instead of calling `pack`.
    """

    __slots__ = ("_packed", "_story", "digest", "levels", "value")

    def __init__(self, levels: tuple[Level, ...], value: Integers) -> None:
        self.levels = levels
        self.value = value
        parts = [level.pack() for level in levels]
        head = [_LENGTH.pack(len(levels)), *(_LENGTH.pack(len(part)) for part in parts)]
        self._packed = b"".join([*head, *parts, value.astype("<i4").tobytes()])
        self.digest = blake2b(self._packed, digest_size=16).digest()
        self._story: tuple[Told, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GrownBatch) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def story(self) -> tuple[Told, ...]:
        """The batch as steps of the job's story: its levels' splits, and the batch itself."""
        if not self._story:
            self._story = (*map(Told, splits_only(self.levels)), Told(self))
        return self._story

    @property
    def n_leaves(self) -> int:
        """How many leaves the levels make, besides one for each root."""
        return sum(int(np.count_nonzero(level.feature >= 0)) for level in self.levels)

    def pack(self) -> bytes:
        """Return the batch as bytes."""
        return self._packed

    def packed_size(self) -> int:
        """Return the length of `pack()`."""
        return len(self._packed)

    @classmethod
    def unpacked_size(cls, data: bytes) -> int:
        """Return about how many bytes `unpack(data)` would take."""
        return 16 * len(data)

    @classmethod
    def unpack(cls, data: bytes) -> "GrownBatch":
        """Return the batch that `pack` wrote."""
        if len(data) < _LENGTH.size:
            raise StorageError("A packed batch is too short to hold its header.")
        (n_levels,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size * (1 + n_levels)
        if n_levels > _MOST_LEVELS or len(data) < at:
            raise StorageError("A packed batch has a header that does not fit its length.")
        sizes = [_LENGTH.unpack_from(data, _LENGTH.size * (1 + i))[0] for i in range(n_levels)]
        if at + sum(sizes) > len(data) or (len(data) - at - sum(sizes)) % 4:
            raise StorageError("A packed batch has a header that does not fit its length.")
        levels = []
        for size in sizes:
            levels.append(Level.unpack(data[at : at + size]))
            at += size
        return cls(tuple(levels), np.frombuffer(data, "<i4", offset=at).astype(np.int64))


def require_leaves(batch: GrownBatch, n_trees: int) -> None:
    """Raise unless a batch has one value for each leaf."""
    if batch.value.size != n_trees + batch.n_leaves:
        raise ProtocolError("A finished batch's leaves do not fit its levels.")
