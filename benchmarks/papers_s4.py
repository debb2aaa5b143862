"""S4's experiment: what parties gain by evolved trees, over their own and over Truex's tree.

Of the paper's 28 tables 21 are in ../shared/data; others of that folder (*) stand in for the rest.
As in the paper: 90 % of the rows are dealt at random to N parties, 10 % judge everybody; numbers of
classification tables are cut at quantiles in 5 bins (Appendix A), categories stand by their codes;
Delta = 100 (score of the evolved tree / score of the party's own tree - 1), F1 or MSE. The sizes of
parties are noised with epsilon 1; Truex's tree has epsilon 1, depth 6, and all parties but one
honest. Every run is written down as it ends, and what is written down is not run again.

Run: python benchmarks/papers_s4.py [--fast] [--splits 3] [--runs 3] [--minutes 0]
"""

import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score, mean_squared_error
from sklearn.preprocessing import KBinsDiscretizer

from data import SHARED
from harness import RESULTS, arguments, save, table
from spinney import GeneticTreeClassifier, GeneticTreeRegressor
from spinney.errors import PrivacyLeakWarning
from spinney.estimators.inputs import dealt_tables, fit_input
from spinney.privacy.ledger import Ledger
from spinney.protocols import truex_tree
from spinney.protocols.private_settings import PrivacySettings
from spinney.protocols.secure_sums import secured
from spinney.tables.frames import columns_of
from spinney.transport.in_process import InProcess

CLASSIFICATION = {
    "nursery": "nursery",
    "adult": "adult",
    "california": "tb_california",
    "compas": "tb_compas",
    "creditcard": "tb_creditcard",
    "diabetes": "tb_diabetes130us",
    "eyemvt": "tb_eye_movements",
    "house16H": "tb_house_16H_clf",
    "marketing": "tb_bank_marketing",
    "pol": "tb_pol",
    "telco*": "telco_churn",
    "bank*": "bank_additional_full",
}
REGRESSION = {
    "analcatdata": "tb_analcatdata_supreme",
    "abalone": "tb_abalone",
    "bikesharing": "tb_bike_sharing",
    "brazil": "tb_brazilian_houses",
    "elevators": "tb_elevators",
    "house16H": "tb_house_16H_reg",
    "houses": "tb_houses",
    "soil": "tb_soil",
    "sulfur": "tb_sulfur",
    "wine": "tb_wine_quality",
    "yprop": "tb_yprop_4_1",
    "superconduct*": "superconduct_76",
}  # * not among the paper's
SETS = {"classification": CLASSIFICATION, "regression": REGRESSION}
SETTINGS = ((20, 1.0), (20, 0.1), (20, 0.5), (20, 0.25), (10, 1.0), (30, 1.0), (5, 1.0), (15, 1.0))
_BINS = 5
_TRUEX_DEPTH = 6
_FAST = ("compas", "marketing", "abalone", "soil")


@dataclass(frozen=True)
class Run:
    """One job: a table, a division of it, N parties of which a share takes part."""

    task: str
    data: str
    n_parties: int
    participation: float
    split: int
    run: int
    generations: int = 100

    @property
    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Rows:
    """A table's rows for training and for judging."""

    X: pd.DataFrame
    y: np.ndarray
    X_test: pd.DataFrame
    y_test: np.ndarray


@cache
def read(file: str) -> tuple[pd.DataFrame, np.ndarray]:
    frame = pd.read_parquet(SHARED / f"{file}.parquet")
    y = frame.pop("target")
    is_class = y.dtype.name in {"category", "object", "str", "string"}
    return frame, y.astype("category").cat.codes.to_numpy() if is_class else y.to_numpy(np.float64)


@cache
def divided(task: str, data: str, split: int) -> Rows:
    """Divide a table 90 / 10; discretise the numbers of a classification table."""
    frame, y = read(SETS[task][data])
    order = np.random.default_rng(split).permutation(len(y))
    n_test = round(0.1 * len(y))
    test, train = order[:n_test], order[n_test:]
    columns = {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype.name in {"category", "object", "str", "string"}:
            codes = column.astype("category").cat.codes.to_numpy(np.float64)
            columns[name] = np.where(codes < 0, np.nan, codes)
        else:
            values = column.to_numpy(np.float64)
            is_class = task == "classification"
            columns[name] = discretised(values, train) if is_class else values
    X = pd.DataFrame(columns)
    return Rows(X.iloc[train], y[train], X.iloc[test], y[test])


def discretised(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Cut at quantiles of the training rows; in two equal parts where all quantiles coincide."""
    known = ~np.isnan(values)
    fitted = values[train][known[train]][:, None]
    found = np.full(len(values), np.nan)
    for n_bins, strategy in ((_BINS, "quantile"), (2, "uniform")):
        cutter = KBinsDiscretizer(
            n_bins, encode="ordinal", strategy=strategy, subsample=None,
            **({"quantile_method": "averaged_inverted_cdf"} if strategy == "quantile" else {}),
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # bins that coincide are removed
            cutter.fit(fitted)
        if cutter.n_bins_[0] > 1:
            break
    found[known] = cutter.transform(values[known][:, None])[:, 0]
    return found


def dealt(rows: Rows, run: Run) -> np.ndarray:
    """Deal the training rows at random to the parties, in equal parts."""
    random = np.random.default_rng([run.split, 7])
    return random.permutation(np.arange(len(rows.y)) % run.n_parties)


def score(task: str, truth: np.ndarray, found: np.ndarray, n_classes: int) -> float:
    if task == "regression":
        return float(mean_squared_error(truth, found))
    average = "binary" if n_classes == 2 else "macro"
    return float(f1_score(truth, found, average=average, zero_division=0.0))


def evolved(run: Run) -> dict[str, Any]:
    """Evolve trees and judge everybody's on the common test rows."""
    rows = divided(run.task, run.data, run.split)
    site = dealt(rows, run)
    is_class = run.task == "classification"
    face: Any = GeneticTreeClassifier if is_class else GeneticTreeRegressor
    model = face(
        participation=run.participation,
        n_generations=run.generations,
        size_epsilon=1.0,
        random_state=1000 * run.split + run.run,
    )
    begin = time.perf_counter()
    model.fit(rows.X, rows.y, party=site)
    seconds = time.perf_counter() - begin
    n_classes = int(rows.y.max()) + 1 if is_class else 0
    columns = columns_of(rows.X_test, model.model_.schema)
    parties = []
    for name, tree in model.tree_of_.items():
        home = model.home_tree_of_[name]
        own, joint = (
            score(run.task, rows.y_test, predicted(one.model, columns), n_classes)
            for one in (home, tree)
        )
        parties.append(
            {
                "local": own,
                "evolved": joint,
                "delta": 100 * (joint / own - 1) if own else None,
                "nodes": tree.n_decisions,
                "local nodes": home.n_decisions,
                "distance": tree.edit_distance,
                "kept home": bool(tree.is_home),
            }
        )
    return {"depth": model.depth_, "seconds": seconds, "parties": parties}


def predicted(model: Any, columns: Any) -> np.ndarray:
    found = model.predict(columns)
    return found[:, 0] if found.shape[1] == 1 else found.argmax(axis=1)


def pooled(run: Run) -> float:
    """Return the score of the tree that all rows in one place give."""
    rows = divided(run.task, run.data, run.split)
    is_class = run.task == "classification"
    face: Any = GeneticTreeClassifier if is_class else GeneticTreeRegressor
    model = face(2, n_generations=1, random_state=run.run).fit(rows.X, rows.y)
    columns = columns_of(rows.X_test, model.model_.schema)
    n_classes = int(rows.y.max()) + 1 if is_class else 0
    return score(
        run.task, rows.y_test, predicted(model.home_tree_of_["all"].model, columns), n_classes
    )


def truex(run: Run) -> dict[str, Any]:
    """Grow Truex's tree over the parties that take part."""
    rows = divided(run.task, run.data, run.split)
    site = dealt(rows, run)
    random = np.random.default_rng([run.split, run.run, 3])
    n_active = max(2, round(run.participation * run.n_parties))
    mine = np.isin(site, random.permutation(run.n_parties)[:n_active])
    kinds = {
        name: pd.CategoricalDtype(np.unique(rows.X[name].dropna()).astype(int).tolist())
        for name in rows.X.columns
    }
    train, test = (
        frame.astype("Int64").astype(object).where(frame.notna(), None).astype(kinds)
        for frame in (rows.X[mine], rows.X_test)
    )
    given = fit_input(
        GeneticTreeClassifier(), train, rows.y[mine], is_classifier=True, needs_ranges=False,
        schema=None, categorical_features="from_dtype",
    )  # fmt: skip
    tables = dealt_tables(given.table, site[mine])
    parties: dict[str, Any] = {
        name: truex_tree.Party(table, Ledger.in_memory(name)) for name, table in tables.items()
    }
    honest = max(1, n_active - 1)
    privacy = PrivacySettings(job="truex", epsilon="1", in_shares=True, honest=honest)
    channel = secured(
        parties, InProcess, truex_tree.SUMMED, job="truex", honest=honest, min_survivors=n_active
    )
    settings = truex_tree.Settings(privacy=privacy, max_depth=_TRUEX_DEPTH)
    model = truex_tree.train(channel, settings).model
    found = predicted(model, columns_of(test, model.schema, unknown_categories="as_missing"))
    n_classes = int(rows.y.max()) + 1
    return {
        "score": score(run.task, rows.y_test, found, n_classes),
        "nodes": int((model.forest.feature >= 0).sum()),
    }


def done(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = evolved(run)
    if run.run == 0 and (run.n_parties, run.participation) == (20, 1.0):
        found["pooled"] = pooled(run)
    if run.task == "classification":
        found["truex"] = truex(run)
    return found


def runs(splits: int, repeats: int, *, fast: bool) -> Iterator[Run]:
    """Give all runs, those first on which most depends."""
    settings = SETTINGS[:2] if fast else SETTINGS
    for n_parties, share in settings:
        for split, repeat, task in product(range(splits), range(repeats), SETS):
            for data in SETS[task]:
                if fast and data not in _FAST:
                    continue
                generations = 20 if fast else 100
                yield Run(task, data, n_parties, share, split, repeat, generations)


def by_set(records: list[tuple[Run, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return a line for each table: means over runs, of parties' means."""
    lines = []
    for data in dict.fromkeys(run.data for run, _ in records):
        found = [(run, one) for run, one in records if run.data == data]
        parties = pd.DataFrame([p for _, one in found for p in one["parties"]])
        is_class = found[0][0].task == "classification"
        sign = 1 if is_class else -1
        gains = sign * (parties["evolved"] - parties["local"]) > 0
        loses = sign * (parties["evolved"] - parties["local"]) < 0
        line = {
            "table": data,
            "runs": len(found),
            "local": parties["local"].mean(),
            "evolved": parties["evolved"].mean(),
            "Delta": parties["delta"].mean(),
            "gain %": 100 * gains.mean(),
            "lose %": 100 * loses.mean(),
            "nodes": parties["nodes"].mean(),
            "local nodes": parties["local nodes"].mean(),
            "distance": parties["distance"].mean(),
            "kept home %": 100 * parties["kept home"].mean(),
        }
        if is_class:
            own = [pd.DataFrame(one["parties"])["local"] for _, one in found]
            scores = [one["truex"]["score"] for _, one in found]
            deltas = [(100 * (s / o - 1)).mean() for s, o in zip(scores, own, strict=True)]
            wins = [100 * (s > o).mean() for s, o in zip(scores, own, strict=True)]
            line |= {"Truex Delta": np.mean(deltas), "Truex gain %": np.mean(wins)}
            line["Truex nodes"] = np.mean([one["truex"]["nodes"] for _, one in found])
        together = [one["pooled"] for _, one in found if "pooled" in one]
        if together:
            line["pooled"] = np.mean(together)
        lines.append(line)
    numbers = pd.DataFrame(lines).drop(columns=["table"])
    return [*lines, {"table": "mean", **numbers.mean().to_dict()}]


def drawn(tables: dict[str, list[dict[str, Any]]]) -> None:
    """Write the pictures: Delta, parties that gain, nodes and distances by table."""
    pyplot = import_module("matplotlib.pyplot")
    shown = {title: lines for title, lines in tables.items() if "N = 20, c = 100 %" in title}
    figure, axes = pyplot.subplots(4, len(shown), figsize=(7 * len(shown), 14), squeeze=False)
    for column, (title, lines) in enumerate(shown.items()):
        names = [line["table"] for line in lines]
        at = np.arange(len(names))
        panels = (
            ("Delta, %", ("Delta", "Truex Delta")),
            ("parties that gain, %", ("gain %", "Truex gain %")),
            ("decision nodes", ("nodes", "local nodes", "Truex nodes")),
            ("edit distance to own structure", ("distance",)),
        )
        for axis, (label, keys) in zip(axes[:, column], panels, strict=True):
            held = [key for key in keys if key in lines[0]]
            for place, key in enumerate(held):
                shift = (place - (len(held) - 1) / 2) * 0.8 / len(held)
                axis.bar(at + shift, [line[key] for line in lines], 0.8 / len(held), label=key)
            axis.set(ylabel=label, title=title if axis is axes[0, column] else "")
            axis.set_xticks(at, names, rotation=60, ha="right")
            axis.legend()
    figure.tight_layout()
    figure.savefig(RESULTS / "papers_s4.png", dpi=110)
    pyplot.close(figure)
    by_setting(pyplot, tables)


def by_setting(pyplot: Any, tables: dict[str, list[dict[str, Any]]]) -> None:
    """Write the picture of mean Delta by number of parties and by participation."""
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for row, task in enumerate(SETS):
        means = {t: lines[-1] for t, lines in tables.items() if t.startswith(task)}
        for column, (word, fixed) in enumerate((("N", "c = 100 %"), ("c", "N = 20"))):
            found = (
                sorted(
                    (float(title.split(f"{word} = ")[1].split()[0].rstrip(",")), line)
                    for title, line in means.items()
                    if fixed in title
                )
                if means
                else []
            )
            axis = axes[row, column]
            for key in ("Delta", "Truex Delta"):
                if found and key in found[0][1]:
                    axis.plot(
                        [x for x, _ in found], [line[key] for _, line in found], "o-", label=key
                    )
            axis.set(
                title=task,
                xlabel={"N": "parties", "c": "participation, %"}[word],
                ylabel="Delta, %",
            )
            axis.legend()
    figure.savefig(RESULTS / "papers_s4_settings.png", dpi=110)
    pyplot.close(figure)


def written(path: Any) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["key"]: line["found"] for line in lines}


def summary(wanted: list[Run], found: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    tables = {}
    for (n_parties, share), task in product(SETTINGS, SETS):
        records = [
            (run, found[run.key])
            for run in wanted
            if (run.task, run.n_parties, run.participation) == (task, n_parties, share)
            and run.key in found
        ]
        if records:
            title = f"{task}, N = {n_parties}, c = {100 * share:.0f} %"
            tables[title] = by_set(records)
    return tables


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, splits=3, runs=3, minutes=0)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "papers_s4.jsonl"
    found = written(path)
    splits, repeats = (1, 1) if asked.fast else (asked.splits, asked.runs)
    wanted = list(runs(splits, repeats, fast=asked.fast))
    begin = time.monotonic()
    for run in wanted:
        if run.key in found:
            continue
        if asked.minutes and time.monotonic() - begin > 60 * asked.minutes:
            break
        found[run.key] = done(run)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": run.key, "found": found[run.key]}) + "\n")
        delta = pd.DataFrame(found[run.key]["parties"])["delta"].mean()
        print(f"{run.key} Delta {delta:.2f} in {found[run.key]['seconds']:.1f} s", flush=True)
    tables = summary(wanted, found)
    for title, lines in tables.items():
        table(title, lines)
    save("papers_s4", f"means of up to {splits} splits x {repeats} runs", tables)
    drawn(tables)


if __name__ == "__main__":
    main()
