"""A party that sends counts below zero, or so large that their sum is: nobody's memory is at risk.

Packed counts were measured as if they were not below zero, and written as they are: a party could
have its coordinator write beyond the bytes of a sum, which ended the process.
"""

from dataclasses import replace

import numpy as np
import pytest

from hostile.cheats import Run, tables_for  # type: ignore[import-not-found]
from spinney import HorizontalForestClassifier
from spinney.errors import ProtocolError, SpinneyError
from spinney.jobs.registry import spec_of
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.spec import PartySite
from spinney.trees.counts import _HEAD, Counts

LIAR = "a"


class AsTheyAre(Counts):
    """Counts that are packed whatever they are: each in 64 bits."""

    def pack(self):
        """Return the bytes that say so."""
        shape, ends = self.counters.shape, self.run_ends
        head = _HEAD.pack(4, *shape, ends.size) + np.diff(ends, prepend=0).astype("<u2").tobytes()
        runs = np.split(self.counters, ends[:-1])
        text = "".join(
            "0" * 6 + "".join("1" * 40 + f"{x % 2**64:064b}"[::-1] for x in run.ravel().tolist())
            for run in runs
        )
        return head + np.packbits(np.array(list(text), np.uint8), bitorder="little").tobytes()

    def packed_size(self):
        """Return their length."""
        return len(self.pack())


class Lying:
    """A party whose counts of levels are what it likes."""

    def __init__(self, side, number):
        self.side, self.number = side, number

    def answer(self, ask):
        reply = self.side.answer(ask)
        if not isinstance(ask, LevelAsk):
            return reply
        counters = np.full(reply.counts.counters.shape, 1000, np.int32)
        counters[::3] = self.number
        return replace(reply, counts=AsTheyAre(counters, reply.counts.run_ends))


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (-500, SpinneyError, f"Party '{LIAR}': .* hold numbers below zero"),
        (2**31 - 1, ProtocolError, "not below zero: a party sent what it cannot have counted"),
    ],
)
def test_counts_below_zero_end_the_run(number, kind, words):
    random = np.random.default_rng(5)
    X = random.normal(size=(600, 5))
    y = (X[:, 0] + X[:, 1] * random.normal(size=600) > 0).astype(int)
    tables = tables_for(HorizontalForestClassifier(), X, y)
    settings = horizontal_forest.Settings(
        task="classification", criterion="gini", n_estimators=4, max_depth=4, seed=1
    )
    site = PartySite(LIAR, 1, is_masked=False)
    side = spec_of("horizontal_forest").party(tables[LIAR], settings, site)
    run = Run("horizontal_forest", tables, settings, sides={LIAR: Lying(side, number)})
    with pytest.raises(kind, match=words):
        run.trained()
