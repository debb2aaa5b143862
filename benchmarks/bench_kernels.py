"""The rate of each kernel on its own, on one thread and on all cores.

A forest of 20 trees is grown on 200,000 x 30 drawn rows and its questions are kept; kernels then
answer them again, and so meet the nodes, cells and rows that they meet in earnest.
Run: python benchmarks/bench_kernels.py [--fast]
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from data import Split, drawn
from harness import CORES, arguments, foreign, interleaved, median, save, table
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.rows.levels import GrowingJob
from spinney.protocols.settings import ForestSettings
from spinney.protocols.training import Training
from spinney.tables.columns import MatrixColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess
from spinney.trees.binning import BinnedTable
from spinney.trees.counts import Counts
from spinney.trees.frontier import tree_keys
from spinney.trees.histogram import level_counts
from spinney.trees.rows import Standing, standing_at_roots
from spinney.trees.split import Criterion, LeastLeaf, best_splits

Case = tuple[str, float, str, Callable[[], Any]]  # name, amount of work, its unit, the work


class KeptQuestions(InProcess):
    """A channel that keeps the questions about levels, and their sums."""

    def __init__(self, parties: Any) -> None:
        super().__init__(parties)
        self.levels: list[tuple[LevelAsk, Counts]] = []

    def sum(self, ask: Any) -> Any:
        reply = super().sum(ask)
        if isinstance(ask, LevelAsk):
            self.levels.append((ask, reply.counts))
        return reply


@dataclass(frozen=True)
class Grown:
    """A forest grown on a table, with all that its kernels met."""

    rows: MemoryTable
    table: BinnedTable
    training: Training
    levels: list[tuple[LevelAsk, Counts]]
    standings: list[Standing]

    @property
    def job(self) -> GrowingJob:
        return self.levels[0][0].job

    @property
    def keys(self) -> np.ndarray:
        return tree_keys(self.job.settings.seed, self.job.settings.n_estimators)

    @classmethod
    def of(cls, split: Split, n_trees: int, depth: int) -> "Grown":
        columns = tuple(Column(f"x{i}", "number") for i in range(split.X.shape[1]))
        schema = Schema(columns, Label("y", "class", (0, 1)))
        rows = MemoryTable(schema, MatrixColumns(split.X), split.y.astype(np.int32))
        channel = KeptQuestions({"all": horizontal_forest.Party(rows)})
        settings = ForestSettings(task="classification", n_estimators=n_trees, max_depth=depth)
        training = horizontal_forest.train(channel, settings)
        job = channel.levels[0][0].job
        binned = in_bins(rows, job)
        return cls(rows, binned, training, channel.levels, _standings(binned, channel.levels))


def in_bins(rows: MemoryTable, job: GrowingJob, n_threads: int = CORES) -> BinnedTable:
    """Return the table in bins."""
    batches = (
        (batch.values, batch.target.astype(np.uint8), batch.keys) for batch in rows.batches()
    )
    return BinnedTable.of_batches(batches, job.binning, rows.n_rows, n_threads=n_threads)


def _standings(binned: BinnedTable, levels: list[tuple[LevelAsk, Counts]]) -> list[Standing]:
    """Return where the rows stood at each level, each with entries of its own."""
    last, _ = levels[-1]
    keys = tree_keys(last.job.settings.seed, last.job.settings.n_estimators)
    found = [standing_at_roots(binned, keys, bootstrap=True, n_threads=CORES)]
    for level in last.levels:
        entries = found[-1].entries.copy()
        next_one = Standing(entries, found[-1].starts, found[-1].ends)
        found.append(next_one.after(level, binned, CORES))
    return found


def count(grown: Grown, n_threads: int) -> None:
    for (ask, _), standing in zip(grown.levels, grown.standings, strict=True):
        nodes = (ask.first, ask.last)
        columns = ask.frontier.columns
        level_counts(
            grown.table, columns, standing, ask.slots, nodes, n_classes=2, n_threads=n_threads
        )


def move(grown: Grown, n_threads: int) -> None:
    """Move rows into children; done twice it gives the same, so that it can be repeated."""
    last, _ = grown.levels[-1]
    for level, standing in zip(last.levels, grown.standings, strict=False):
        standing.after(level, grown.table, n_threads)


def search(grown: Grown, n_threads: int) -> None:
    criterion = Criterion.of("gini", np.ones(2), 0)
    for ask, counts in grown.levels:
        best_splits(
            counts.counters,
            ask.slots,
            ask.frontier.columns,
            criterion,
            least=LeastLeaf(1),
            root_weight=np.ones(ask.last - ask.first),
            n_threads=n_threads,
        )


def predict(grown: Grown, X: np.ndarray, n_threads: int) -> None:
    out = np.zeros((len(X), 2))
    grown.training.model.forest.add_predictions(X, out, n_threads=n_threads)


def threaded(grown: Grown, X: np.ndarray, n_threads: int) -> list[Case]:
    """Return the kernels that run on threads."""
    n_rows, n_columns = grown.rows.n_rows, grown.table.n_columns
    n_trees = grown.job.settings.n_estimators
    passes = [int(standing.rows_of_node.sum()) for standing in grown.standings]
    slots = grown.levels[0][0].slots.feature.shape[1]
    cells = sum(counts.counters.shape[0] for _, counts in grown.levels)
    drawing = partial(
        standing_at_roots, grown.table, grown.keys, bootstrap=True, n_threads=n_threads
    )
    return [
        ("bins", n_rows * n_columns, "cells", lambda: in_bins(grown.rows, grown.job, n_threads)),
        ("bootstrap", n_rows * n_trees, "draws", drawing),
        ("histograms", sum(passes) * slots, "additions", partial(count, grown, n_threads)),
        ("partition", sum(passes[:-1]), "rows", partial(move, grown, n_threads)),
        ("split search", cells, "cells", partial(search, grown, n_threads)),
        ("prediction", len(X) * n_trees, "row trees", partial(predict, grown, X, n_threads)),
    ]


def single(grown: Grown) -> list[Case]:
    """Return what runs on one thread: the encoding of a reply and the way back."""
    ask, kept = grown.levels[-1]
    counts = Counts(kept.counters, ask.slots.ends.ravel())
    n = counts.counters.size
    return [
        ("packed size", n, "counters", counts.packed_size),
        ("packing", n, "counters", counts.pack),
        ("unpacking", n, "counters", partial(Counts.unpack, counts.pack())),
    ]


def rates(cases: list[Case], n_threads: int, repeats: int) -> list[dict[str, Any]]:
    samples, _ = interleaved({name: work for name, _, _, work in cases}, repeats)
    return [
        {
            "kernel": name,
            "threads": n_threads,
            "ms": 1000 * median(samples[name]),
            "M/s": amount / median(samples[name]) / 1e6,
            "of": unit,
            "foreign": foreign(samples[name]),
        }
        for name, amount, unit, _ in cases
    ]


def main() -> None:
    asked = arguments(__doc__, repeats=5)
    n_rows, repeats = (20_000, 2) if asked.fast else (200_000, asked.repeats)
    split = drawn(n_rows)
    grown = Grown.of(split, 20, 10)
    rows = []
    for n_threads in (1, CORES):
        rows += rates(threaded(grown, split.X_test, n_threads), n_threads, repeats)
    rows += rates(single(grown), 1, repeats)
    title = f"kernels on {n_rows:,} x 30 rows, 20 trees, depth 10, 2 classes, 33 cells"
    table(title, rows)
    save("kernels", "median over turns", {title: rows})


if __name__ == "__main__":
    main()
