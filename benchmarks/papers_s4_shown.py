"""S4's experiment as tables and pictures."""

from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from harness import RESULTS
from papers_s4_runs import SETS, TRUEX, Run

Found = dict[str, dict[str, Any]]  # what has been found, by run


def summary(wanted: list[Run], found: Found) -> dict[str, list[dict[str, Any]]]:
    """Return a table for each kind of target, number of parties and participation."""
    tables = {}
    settings = dict.fromkeys((run.n_parties, run.participation) for run in wanted)
    for (n_parties, share), task in product(settings, SETS):
        runs = [
            run
            for run in wanted
            if (run.task, run.n_parties, run.participation) == (task, n_parties, share)
            and run.key in found
        ]
        if any(run.learner == "evolved" for run in runs):
            tables[f"{task}, N = {n_parties}, c = {100 * share:.0f} %"] = by_set(runs, found)
    return tables


def by_set(runs: list[Run], found: Found) -> list[dict[str, Any]]:
    """Return a line for each table: means over runs, of parties' means; at last their mean."""
    lines = []
    for data in dict.fromkeys(run.data for run in runs if run.learner == "evolved"):
        own = [run for run in runs if run.data == data]
        records = [found[run.key] for run in own if run.learner == "evolved"]
        line = {"table": data, **of_evolved(records, sign=1 if own[0].task != "regression" else -1)}
        for learner in TRUEX:
            line |= of_truex(learner, [run for run in own if run.learner == learner], found)
        together = [one["pooled"] for one in records if "pooled" in one]
        if together:
            line["pooled"] = np.mean(together)
        lines.append(line)
    numbers = pd.DataFrame(lines).drop(columns=["table"])
    return [*lines, {"table": "mean", **numbers.mean().to_dict()}]


def of_evolved(records: list[dict[str, Any]], sign: int) -> dict[str, Any]:
    parties = pd.DataFrame([party for one in records for party in one["parties"]])
    better = sign * (parties["evolved"] - parties["local"])
    by_run = [pd.DataFrame(one["parties"])["delta"].mean() for one in records]
    return {
        "runs": len(records),
        "local": parties["local"].mean(),
        "evolved": parties["evolved"].mean(),
        "Delta": parties["delta"].mean(),
        "+-": np.std(by_run, ddof=1) if len(by_run) > 1 else np.nan,
        "gain %": 100 * (better > 0).mean(),
        "lose %": 100 * (better < 0).mean(),
        "nodes": parties["nodes"].mean(),
        "local nodes": parties["local nodes"].mean(),
        "distance": parties["distance"].mean(),
        "kept home %": 100 * parties["kept home"].mean(),
    }


def of_truex(learner: str, runs: list[Run], found: Found) -> dict[str, Any]:
    """Return how Truex's tree does beside the parties' own trees of the same division of rows."""
    deltas, wins, nodes = [], [], []
    for run in runs:
        beside = found.get(replace(run, learner="evolved").key)
        if beside is not None:
            own = pd.DataFrame(beside["parties"])["local"]
            score = found[run.key]["score"]
            deltas.append((100 * (score / own - 1)).mean())
            wins.append(100 * (score > own).mean())
            nodes.append(found[run.key]["nodes"])
    if not deltas:
        return {}
    return {
        f"{learner} Delta": np.mean(deltas),
        f"{learner} gain %": np.mean(wins),
        f"{learner} nodes": np.mean(nodes),
    }


def drawn(tables: dict[str, list[dict[str, Any]]]) -> None:
    """Write the pictures: Delta, parties that gain, nodes and distances by table."""
    pyplot = import_module("matplotlib.pyplot")
    shown = {title: lines for title, lines in tables.items() if "N = 20, c = 100 %" in title}
    figure, axes = pyplot.subplots(4, len(shown), figsize=(7 * len(shown), 14), squeeze=False)
    for column, (title, lines) in enumerate(shown.items()):
        names = [line["table"] for line in lines]
        at = np.arange(len(names))
        panels = (
            ("Delta, %", ("Delta", *(f"{name} Delta" for name in TRUEX))),
            ("parties that gain, %", ("gain %", *(f"{name} gain %" for name in TRUEX))),
            ("decision nodes", ("nodes", "local nodes", *(f"{name} nodes" for name in TRUEX))),
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
            found = {
                float(title.split(f"{word} = ")[1].split()[0].rstrip(",")): line
                for title, line in means.items()
                if fixed in title
            }
            axis = axes[row, column]
            for key in ("Delta", *(f"{name} Delta" for name in TRUEX)):
                points = sorted((at, line[key]) for at, line in found.items() if key in line)
                if points:
                    axis.plot(*zip(*points, strict=True), "o-", label=key)
                    axis.legend()
            axis.set(
                title=task,
                xlabel={"N": "parties", "c": "participation, %"}[word],
                ylabel="Delta, %",
            )
    figure.savefig(RESULTS / "papers_s4_settings.png", dpi=110)
    pyplot.close(figure)
