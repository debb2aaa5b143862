"""The seal of a level: all parties move their rows by what the parties cut, and by nothing else.

The coordinator merges the parties' cuts into a level's partition. If it could make one up, it would
put any rows that it likes into a node, and read from the replies what stands in their cells.

The parties of a matched run have a key that the coordinator lacks. Whoever cuts a node makes a
keyed hash of the node's number and of the sides of its rows; whoever decides which children stay
open makes another. All hashes of a level are joined by exclusive or, first at each party and then
at the coordinator. The result is the seal (an aggregate of message authentication codes, Katz and
Lindell 2008). It does not say who cut which node. Every party checks it before it moves a row. The
keys of a level depend on all levels before it, so parties that were told different ones do not
accept each other's cuts.

It holds against a coordinator alone. A party that shares its key with the coordinator breaks it.
"""

from collections.abc import Iterable
from functools import reduce
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spinney.privacy.keys import derive_key
from spinney.privacy.streams import add_stream
from spinney.trees.partition import SEAL_BYTES, Bytes, Partition, Turns, side_bytes, starts_of
from spinney.typing import Bools, Integers

_WAYS: Final = 4  # both, one or none of two children stay open


class LevelSeal:
    """What seals the levels of one job."""

    def __init__(self, key: bytes, job: str) -> None:
        self._key = key
        self._story = job.encode()  # and all levels so far

    def go_on(self, partition: Partition) -> None:
        """Go on to the next level: its seal is for parties that were told the same levels."""
        self._story = blake2b(partition.pack(), key=blake2b(self._story).digest()).digest()

    def of_sides(self, depth: int, nodes: Integers, sizes: Integers, sides: Bytes) -> bytes:
        """Return the seal of the sides of some nodes; `sizes` are the nodes' row entries."""
        key, view = self._derived("sides of rows", depth), memoryview(sides.tobytes())
        n_bytes = side_bytes(sizes)
        begin = starts_of(n_bytes)
        total = 0
        places = zip(nodes.tolist(), begin.tolist(), (begin + n_bytes).tolist(), strict=True)
        for node, first, last in places:
            one = blake2b(
                view[first:last], digest_size=SEAL_BYTES, key=key, salt=node.to_bytes(8, "little")
            )
            total ^= int.from_bytes(one.digest(), "little")
        return total.to_bytes(SEAL_BYTES, "little")

    def of_children(
        self, depth: int, n_open: int, nodes: Integers, child_open: Bools, turns: Turns
    ) -> bytes:
        """Return the seal of which children of some nodes stay open, and of the cuts' turns."""
        ways = _WAYS * (3 if turns.size else 1)
        words = np.zeros(n_open * ways * 2, np.uint64)
        add_stream([words], self._derived("open children", depth))
        pairs = child_open.reshape(-1, 2).astype(np.int64)
        way = pairs[:, 0] + 2 * pairs[:, 1]
        if turns.size:
            way = way + _WAYS * (turns.astype(np.int64) + 1)
        chosen = words.reshape(n_open, ways, 2)[nodes, way]
        joined: NDArray[np.uint64] = np.bitwise_xor.reduce(chosen, axis=0)
        return joined.astype("<u8").tobytes()

    def fits(self, depth: int, partition: Partition, sizes: Integers) -> bool:
        """Return whether a level's partition has the right seal."""
        nodes = np.flatnonzero(partition.split)
        parts = (
            self.of_sides(depth, nodes, sizes[nodes], partition.sides),
            self.of_children(depth, sizes.size, nodes, partition.child_open, partition.turns),
        )
        return join_seals(parts) == (partition.seal.tobytes() or bytes(SEAL_BYTES))

    def _derived(self, purpose: str, depth: int) -> bytes:
        return derive_key(self._key, purpose, job=self._story, round_number=depth, names=())


def join_seals(seals: Iterable[bytes]) -> bytes:
    """Return the seal of several parts together; empty if one has none, or there are none."""
    found = list(seals)
    if not found or not all(found):
        return b""
    total = reduce(lambda one, other: one ^ other, (int.from_bytes(s, "little") for s in found), 0)
    return total.to_bytes(SEAL_BYTES, "little")
