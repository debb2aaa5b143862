"""Boosting over columns: against boosting over rows in the clear, and with encrypted labels.

20,000 x 40, 20 columns at each of two parties, 32 bins, depth 6, trees one after another. Models
are trained in turns. `--part fedtree` grows two encrypted trees over 5,000 rows, ours and FedTree's
(whose modulus has 256 bits) in turns: pip install fedtree, and the library libntl44. `--part
memory` grows one encrypted tree over 1,000,000 x 20 and tells the memory of both sides together.
Run: python benchmarks/bench_vertical_boosting.py [--fast] [--threads 1] [--part clear]
"""

import resource
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import make_classification

from harness import (
    CORES,
    arguments,
    foreign,
    interleaved,
    median,
    ratio,
    save,
    table,
    timed,
    timed_by_cpu,
)
from spinney import HorizontalBoostingClassifier, VerticalBoostingClassifier
from spinney.errors import PrivacyLeakWarning

_PARTIES = {"bank": list(range(20)), "shop": list(range(20, 40))}
_TREES: dict[str, Any] = {
    "batch_trees": 1,
    "learning_rate": 0.1,
    "max_depth": 6,
    "max_bins": 32,
    "max_cells": 32,
    "subsample": 1.0,
    "colsample_bytree": 1.0,
    "random_state": 0,
}


def rows(*, fast: bool) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(500 if fast else 20_000, 40, n_informative=16, random_state=0)
    return X.astype(np.float32), y


def over_rows(data: Any, n_trees: int, threads: int) -> Any:
    model = HorizontalBoostingClassifier(max_iter=n_trees, n_jobs=threads, **_TREES)
    return model.fit(*data)


def over_columns(data: Any, n_trees: int, threads: int, **more: Any) -> Any:
    chosen = _TREES | {"column_party": _PARTIES, "label_party": "bank"} | more
    model = VerticalBoostingClassifier(max_iter=n_trees, n_jobs=threads, **chosen)
    return model.fit(*data)


def clear(threads: int, repeats: int, *, fast: bool) -> list[dict[str, Any]]:
    """Compare 100 trees over two parties' columns with 100 trees over rows at one party."""
    data, n_trees = rows(fast=fast), 5 if fast else 100
    cases = {
        "over rows, 1 party": partial(over_rows, data, n_trees, threads),
        "over columns, 2 parties": partial(over_columns, data, n_trees, threads),
    }
    for case in cases.values():
        case()  # kernels are compiled, memory is touched
    clock = timed if threads > 1 else timed_by_cpu
    samples, models = interleaved(cases, repeats, clock=clock)
    first = samples["over rows, 1 party"]
    expected = models["over rows, 1 party"].model_.to_bytes()
    return [
        {
            "booster": name,
            "seconds": median(own),
            "times as long as over rows": 1.0 / ratio(first, own),
            "same bytes": _over_rows_bytes(models[name]) == expected,
            "foreign": foreign(own),
        }
        for name, own in samples.items()
    ]


def encrypted(threads: int, *, fast: bool) -> list[dict[str, Any]]:
    """Grow two trees with encrypted labels, of all rows and of a sample."""
    data, found = rows(fast=fast), []
    over_columns(data, 1, threads)  # kernels are compiled
    for name, share in (("all rows", 1.0), ("half of the rows", 0.5)):
        work = partial(over_columns, data, 2, threads, labels="encrypted", subsample=share)
        sample, model = timed(work)
        plain = over_columns(data, 2, threads, subsample=share)
        found.append(
            {
                "tree of": name,
                "seconds a tree": model.report_.seconds["growing"] / 2,
                "cpu s a tree": sample.cpu / 2,
                "MB down a tree": sum(model.report_.bytes_down.values()) / 2e6,
                "MB up a tree": sum(model.report_.bytes_up.values()) / 2e6,
                "same as in the clear": _over_rows_bytes(model) == _over_rows_bytes(plain),
                "foreign": sample.foreign,
            }
        )
    return found


def fedtree(threads: int, *, fast: bool) -> list[dict[str, Any]]:
    """Grow two encrypted trees on the same rows, ours and FedTree's in turns."""
    try:
        import fedtree as rival  # noqa: PLC0415  seldom installed
    except (ImportError, OSError) as error:
        return [{"booster": f"FedTree cannot be loaded: {error}"}]
    X, y = (part[: 300 if fast else 5_000] for part in rows(fast=fast))
    theirs = rival.FLClassifier(
        n_parties=2, mode="vertical", partition_mode="vertical", privacy_tech="he", n_trees=2,
        max_depth=6, max_num_bin=32, learning_rate=0.1, num_class=2, verbose=0,
    )  # fmt: skip
    cases = {
        "ours, 2048 bits": partial(over_columns, (X, y), 2, threads, labels="encrypted"),
        "FedTree, 256 bits": partial(theirs.fit, X, y),
    }
    over_columns((X[:300], y[:300]), 1, threads, labels="encrypted")  # kernels are compiled
    samples, models = interleaved(cases, 1 if fast else 2, retries=0)
    return [
        {
            "booster": name,
            "seconds a tree": median(own) / 2,
            "cpu s a tree": own[-1].cpu / 2,
            "times as long as ours": ratio(own, samples["ours, 2048 bits"]),
            "accuracy": float(np.mean(models[name].predict(X) == y)),
            "foreign": foreign(own),
        }
        for name, own in samples.items()
    ]


def memory(threads: int, *, fast: bool) -> list[dict[str, Any]]:
    """Grow one tree with encrypted labels over many rows; both sides are in this process."""
    n_rows = 5_000 if fast else 1_000_000
    random = np.random.default_rng(0)
    X = random.standard_normal((n_rows, 20), np.float32)
    y = (X[:, 0] + X[:, 12] + random.standard_normal(n_rows) > 0).astype(int)
    before = _peak_gigabytes()
    parties = {"bank": list(range(10)), "shop": list(range(10, 20))}
    work = partial(
        over_columns, (X, y), 1, threads, labels="encrypted", column_party=parties, max_bins=255,
        max_cells=17,
    )  # fmt: skip
    sample, model = timed(work)
    return [
        {
            "rows": n_rows,
            "GB with the table": _peak_gigabytes(),
            "GB before": before,
            "cpu s a tree": sample.cpu,
            "MB down": sum(model.report_.bytes_down.values()) / 1e6,
            "MB up": sum(model.report_.bytes_up.values()) / 1e6,
        }
    ]


def _peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def _over_rows_bytes(model: Any) -> bytes:
    return replace(model.model_, protocol="horizontal_boosting").to_bytes()


def main() -> None:
    options = arguments(__doc__, threads=CORES, repeats=5, part="all")
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    tables: dict[str, Any] = {}
    if options.part in {"all", "clear"}:
        repeats = 1 if options.fast else options.repeats
        tables["clear"] = clear(options.threads, repeats, fast=options.fast)
        table(f"labels in the clear, {options.threads} threads", tables["clear"])
    if options.part in {"all", "encrypted"}:
        tables["encrypted"] = encrypted(options.threads, fast=options.fast)
        table("encrypted labels, 2048 bits", tables["encrypted"])
    if options.part in {"all", "fedtree"}:
        tables["fedtree"] = fedtree(options.threads, fast=options.fast)
        table("two encrypted trees, 5,000 x 40", tables["fedtree"])
    if options.part == "memory":
        tables["memory"] = memory(options.threads, fast=options.fast)
        table("one encrypted tree, memory of both sides together", tables["memory"])
    if not options.fast and options.part == "all":
        save("bench_vertical_boosting", "median over turns", tables, threads=options.threads)


if __name__ == "__main__":
    main()
