"""How far one party of five can spoil a forest by lying about its own counts.

It counts its rows with their classes swapped: as they are, or as if it had many times as many.
Drawn rows, 100 trees of depth 10, AUC on rows that no party holds. Nobody checks that a party
counts truly; `docs/threats.md` says so. Run: python benchmarks/bench_lying_party.py
"""

import warnings
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from data import drawn
from spinney.errors import PrivacyLeakWarning
from spinney.estimators.horizontal_forest import HorizontalForestClassifier
from spinney.estimators.inputs import deal_tables, fit_input
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.rows.setup import CountsReply
from spinney.protocols.verified.simulated import connect_parties
from spinney.tables.columns import MatrixColumns
from spinney.trees.counts import Counts

_PARTIES, _TIMES = 5, (0, 1, 10, 100)


class Lying:
    """A party that swaps the classes of its rows, and counts each of them several times."""

    def __init__(self, side: Any, times: int) -> None:
        self._side, self._times = side, times

    def answer(self, ask: Any) -> Any:
        reply = self._side.answer(ask)
        if not isinstance(ask, LevelAsk) or not self._times:
            return reply
        counters = reply.counts.counters[:, ::-1].astype(np.int64) * self._times
        return CountsReply(
            Counts(counters.astype(reply.counts.counters.dtype), reply.counts.run_ends)
        )


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    split = drawn(5_000, 20, n_test=5_000)
    given = fit_input(
        HorizontalForestClassifier(),
        split.X,
        split.y,
        is_classifier=True,
        needs_ranges=False,
        schema=None,
        categorical_features="from_dtype",
    )
    tables = deal_tables(given.table, np.arange(len(split.y)) % _PARTIES)
    settings = horizontal_forest.Settings(
        task="classification", n_estimators=100, max_depth=10, min_samples_leaf=5
    )
    for times in _TIMES:
        sides: dict[str, Any] = {n: horizontal_forest.Party(t) for n, t in tables.items()}
        first = next(iter(sides))
        sides[first] = Lying(sides[first], times)
        model = horizontal_forest.train(connect_parties(sides, is_masked=False), settings).model
        found = model.predict(MatrixColumns(split.X_test))
        score = roc_auc_score(split.y_test, np.asarray(found)[:, 1])
        said = "honest" if not times else f"swapped, {times} times"
        print(f"{said:20} AUC {score:.3f}")


if __name__ == "__main__":
    main()
