"""Vertical forests: shared labels against LightGBM's rf on the pooled rows, encrypted labels, ids.

FedTree's own encryption (a modulus of 256 bits) grows its tree on the rows of the encrypted part,
where it is installed: pip install fedtree, and the library libntl44.
Forests are grown in turns; with `--threads 1` times are CPU times, which a busy machine hardly
disturbs. Run: python benchmarks/bench_vertical.py [--fast] [--threads 1] [--part shared]
Matching a million ids: python benchmarks/bench_vertical.py --part matching --ids 1000000
"""

import warnings
from functools import partial
from typing import Any

import lightgbm
import numpy as np
from sklearn.datasets import make_classification

from data import Split, drawn
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
from spinney import VerticalForestClassifier, deal_columns
from spinney.errors import PrivacyLeakWarning
from spinney.privacy.schemes import available
from spinney.protocols.columns.matching import count_shared, match
from spinney.protocols.columns.matching_party import MatchingParty
from spinney.protocols.columns.seat import seats_in_one_process
from spinney.protocols.columns.settings import MATCHINGS
from spinney.transport.in_process import InProcess

_DRAWN_SHARE = 0.632  # of the rows in a bootstrap


def vertical(split: Split, trees: int, depth: int, threads: int, parties: int) -> Any:
    columns = deal_columns(split.X, parties, random_state=0)
    forest = VerticalForestClassifier(
        trees,
        max_depth=depth,
        column_party=columns,
        label_party="party_0",
        n_jobs=threads,
        random_state=0,
    )
    return forest.fit(split.X, split.y)


def lightgbm_rf(split: Split, trees: int, depth: int, threads: int) -> Any:
    settings = {
        "objective": "binary",
        "boosting": "rf",
        "bagging_fraction": _DRAWN_SHARE,
        "bagging_freq": 1,
        "feature_fraction_bynode": int(split.X.shape[1] ** 0.5) / split.X.shape[1],
        "num_leaves": 2**depth,
        "max_depth": depth,
        "min_data_in_leaf": 1,
        "num_threads": threads,
        "verbosity": -1,
        "seed": 0,
    }
    return lightgbm.train(settings, lightgbm.Dataset(split.X, split.y), trees)


def shared(threads: int, repeats: int, *, fast: bool) -> list[dict[str, Any]]:
    """Grow 100 trees of depth 10 on 200,000 x 30 over two parties."""
    rows, trees, depth = (20_000, 10, 6) if fast else (200_000, 100, 10)
    split = drawn(rows, 30)
    cases = {
        "spinney, 2 parties": partial(vertical, split, trees, depth, threads, 2),
        "spinney, 4 parties": partial(vertical, split, trees, depth, threads, 4),
        "LightGBM rf, pooled": partial(lightgbm_rf, split, trees, depth, threads),
    }
    for case in cases.values():
        case()  # kernels are compiled, memory is touched
    clock = timed if threads > 1 else timed_by_cpu
    samples, models = interleaved(cases, repeats, clock=clock)
    rival = samples["LightGBM rf, pooled"]
    found = []
    for name, own in samples.items():
        model = models[name]
        is_rival = isinstance(model, lightgbm.Booster)
        guess = model.predict(split.X_test) > 0.5 if is_rival else model.predict(split.X_test)
        found.append(
            {
                "forest": name,
                "seconds": median(own),
                "times as fast as LightGBM": ratio(rival, own),
                "accuracy": float(np.mean(guess == split.y_test)),
                "foreign": foreign(own),
            }
        )
    return found


def encrypted(*, fast: bool) -> list[dict[str, Any]]:
    """Grow one tree of depth 6 on 20,000 x 40 with 32 bins; the label party has no column."""
    X, y = _rows_to_encrypt(fast=fast)
    how: dict[str, Any] = {"max_depth": 6, "max_features": None, "max_bins": 32, "random_state": 0}
    pooled = VerticalForestClassifier(1, **how).fit(X, y)
    found = []
    for scheme in available():
        forest = VerticalForestClassifier(
            1,
            column_party={"bank": [], "shop": list(range(40))},
            label_party="bank",
            labels="encrypted",
            scheme=scheme,
            **how,
        )
        sample, forest = timed(partial(forest.fit, X, y))
        seconds = forest.report_.seconds
        found.append(
            {
                "scheme": scheme,
                "one-off encryption s": seconds["encrypting"],
                "tree s": seconds["growing"],
                "cpu s, all": sample.cpu,
                "foreign": sample.foreign,
                "MB up": sum(forest.report_.bytes_up.values()) / 1e6,
                "same as pooled": forest.model_.to_bytes() == pooled.model_.to_bytes(),
            }
        )
    return found


def fedtree(*, fast: bool) -> list[dict[str, Any]]:
    """Grow FedTree's tree on the same rows, over two parties, without encryption and with its own.

    It is a boosted tree, and grows deeper than ours only where that gains by its own measure.
    """
    try:
        import fedtree as rival  # noqa: PLC0415  seldom installed
    except (ImportError, OSError) as error:
        return [{"FedTree": f"cannot be loaded: {error}"}]
    X, y = _rows_to_encrypt(fast=fast)
    found = []
    for privacy in ("none", "he"):
        model = rival.FLClassifier(
            n_parties=2, mode="vertical", partition_mode="vertical", privacy_tech=privacy,
            n_trees=1, max_depth=6, max_num_bin=32, num_class=2, verbose=0,
        )  # fmt: skip
        sample, model = timed(partial(model.fit, X, y))
        found.append(
            {
                "FedTree": privacy,
                "seconds": sample.seconds,
                "cpu s": sample.cpu,
                "foreign": sample.foreign,
                "accuracy": float(np.mean(model.predict(X) == y)),
            }
        )
    return found


def _rows_to_encrypt(*, fast: bool) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(500 if fast else 20_000, 40, n_informative=16, random_state=0)
    return X.astype(np.float32), y


def matching(n: int) -> list[dict[str, Any]]:
    """Match so many ids against as many, of which half are common."""
    ids = {"bank": list(range(n)), "shop": list(range(n // 2, n + n // 2))}
    found = []
    for way in (*MATCHINGS, "sizes only"):
        seats = seats_in_one_process(tuple(ids), "bank")
        by = "psi" if way == "sizes only" else way
        sides = {name: MatchingParty(own, seats[name], by) for name, own in ids.items()}
        channel = InProcess(sides)
        work = (
            partial(count_shared, channel, lead="bank")
            if way == "sizes only"
            else partial(match, channel, way, lead="bank")
        )
        sample, common = timed(work)
        found.append(
            {"matching": way, "seconds": sample.seconds, "cpu s": sample.cpu, "common": common}
        )
    return found


def main() -> None:
    options = arguments(__doc__, threads=CORES, repeats=3, part="all", ids=100_000)
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    tables: dict[str, Any] = {}
    if options.part in {"all", "shared"}:
        repeats = 1 if options.fast else options.repeats
        tables["shared"] = shared(options.threads, repeats, fast=options.fast)
        table(f"shared labels, {options.threads} threads", tables["shared"])
    if options.part in {"all", "encrypted"}:
        tables["encrypted"] = encrypted(fast=options.fast)
        table("encrypted labels, 2048 bits", tables["encrypted"])
    if options.part in {"all", "encrypted", "fedtree"}:
        tables["fedtree"] = fedtree(fast=options.fast)
        table("FedTree, 256 bits, the same rows", tables["fedtree"])
    if options.part in {"all", "matching"}:
        tables["matching"] = matching(2_000 if options.fast else options.ids)
        table("matching", tables["matching"])
    if not options.fast:
        save("bench_vertical", "median over turns", tables, threads=options.threads)


if __name__ == "__main__":
    main()
