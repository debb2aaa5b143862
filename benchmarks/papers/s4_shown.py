"""S4's figures and its table of defaults, as tables and pictures."""

import inspect
from functools import partial
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from papers.experiment import Cell, Found, Shown, Table
from papers.s4_runs import SETS, TRUEX
from spinney import GeneticTreeClassifier, GeneticTreeRegressor
from spinney.protocols.genetic_tree.settings import POPULATION

Records = list[tuple[Cell, Found]]
_TABLE_2 = {  # symbol: (ours, the paper's)
    "P": ("population_size", "20 (classification) or 40 (regression)"),
    "G": ("n_generations", 100),
    "epsilon": ("size_epsilon", 1),
    "r": ("train_ratio", 0.8),
    "r_l": ("leaf_ratio", 0.01),
    "s": ("tournament_size", 3),
    "m_1": ("flip_ratio", 0.05),
    "m_2": ("swap_ratio", 0.05),
    "phi*": ("noise_threshold", 0.25),
    "theta*": ("complexity_threshold", 0.02),
    "mu*": ("unique_threshold", 80),
    "d_min": ("min_depth", 2),
    "d_max": ("max_depth", 15),
}


def shown(cells: list[tuple[str, Cell, Found]]) -> Shown:
    """Return tables, facts and pictures of S4."""
    evolved = [(cell, found) for name, cell, found in cells if name == "evolved"]
    truex = [(cell, found) for name, cell, found in cells if name == "truex"]
    settings = dict.fromkeys((cell["n_parties"], cell["participation"]) for cell, _ in evolved)
    by_setting = {
        (task, *setting): _by_set(_of(evolved, task, setting), _of(truex, task, setting))
        for task, setting in product(SETS, settings)
        if _of(evolved, task, setting)
    }
    main = {task: lines for (task, *rest), lines in by_setting.items() if rest == [20, 1.0]}
    tables = [
        Table(_title(*key), lines, "Delta in %, of F1 or MSE; mean over runs of the parties' mean")
        for key, lines in by_setting.items()
    ]
    varied = _varied(by_setting)
    main_setting = _of(evolved, "classification", (20, 1.0))
    nursery = [one for one in main_setting if one[0]["data"] == "nursery"]
    pictures = {"figures_6_7_10": partial(_draw_varied, varied)} if varied else {}
    if main:
        pictures["figures_3_4_8_9"] = partial(_draw_sets, main)
    if nursery:
        pictures["figure_5"] = partial(_draw_nursery, nursery, truex)
    return Shown(
        [
            *(
                [Table("Figures 6, 7 and 10: mean Delta over tables, by N and c", varied)]
                * bool(varied)
            ),
            Table("Table II: defaults", _defaults()),
            *tables,
        ],
        _facts(main, varied),
        pictures,
    )


def _of(records: Records, task: str, setting: tuple[int, float]) -> Records:
    return [
        one
        for one in records
        if (one[0]["task"], one[0]["n_parties"], one[0]["participation"]) == (task, *setting)
    ]


def _title(task: str, n_parties: int, share: float) -> str:
    figures = {
        ("classification", 20, 1.0): "Figures 3 and 4: ",
        ("regression", 20, 1.0): "Figures 8 and 9: ",
    }
    return f"{figures.get((task, n_parties, share), '')}{task}, N = {n_parties}, c = {share:.0%}"


def _by_set(evolved: Records, truex: Records) -> list[dict[str, Any]]:
    """Return a line for each table: means over runs, of parties' means; at last their mean."""
    lines = []
    for data in dict.fromkeys(cell["data"] for cell, _ in evolved):
        own = [(cell, found) for cell, found in evolved if cell["data"] == data]
        sign = 1 if own[0][0]["task"] == "classification" else -1
        line = {"table": data, **_of_evolved([found for _, found in own], sign)}
        for learner in TRUEX:
            beside = [
                one for one in truex if (one[0]["data"], one[0]["learner"]) == (data, learner)
            ]
            line |= _of_truex(learner, beside, own)
        together = [found["pooled"] for _, found in own if "pooled" in found]
        lines.append(line | ({"pooled": float(np.mean(together))} if together else {}))
    numbers = pd.DataFrame(lines).drop(columns=["table"])
    return [*lines, {"table": "mean", **numbers.mean().to_dict()}]


def _of_evolved(found: list[Found], sign: int) -> dict[str, Any]:
    parties = pd.DataFrame([party for one in found for party in one["parties"]])
    better = sign * (parties["evolved"] - parties["local"])
    by_run = [pd.DataFrame(one["parties"])["delta"].mean() for one in found]
    return {
        "runs": len(found),
        "local": float(parties["local"].mean()),
        "evolved": float(parties["evolved"].mean()),
        "Delta": float(parties["delta"].mean()),
        "+-": float(np.std(by_run, ddof=1)) if len(by_run) > 1 else None,
        "gain %": float(100 * (better > 0).mean()),
        "lose %": float(100 * (better < 0).mean()),
        "nodes": float(parties["nodes"].mean()),
        "local nodes": float(parties["local nodes"].mean()),
        "distance": float(parties["distance"].mean()),
        "kept home %": float(100 * parties["kept home"].mean()),
    }


def _of_truex(learner: str, runs: Records, evolved: Records) -> dict[str, Any]:
    """Return how Truex's tree does beside the parties' own trees of the same division of rows."""
    local = {_place(cell): pd.DataFrame(found["parties"])["local"] for cell, found in evolved}
    pairs = [(found, local[_place(cell)]) for cell, found in runs if _place(cell) in local]
    if not pairs:
        return {}
    # a party whose own tree finds nobody has no Delta, here as beside the evolved trees
    deltas = [100 * (found["score"] / own[own > 0] - 1).mean() for found, own in pairs]
    return {
        f"{learner} Delta": float(np.mean(deltas)),
        f"{learner} gain %": float(np.mean([100 * (f["score"] > own).mean() for f, own in pairs])),
        f"{learner} nodes": float(np.mean([found["nodes"] for found, _ in pairs])),
    }


def _place(cell: Cell) -> tuple[int, int]:
    return cell["split"], cell["run"]


def _varied(by_setting: dict[Any, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    kept = ("Delta", "gain %", *(f"{name} Delta" for name in TRUEX))
    return [
        {"task": task, "N": n_parties, "c": share, "tables": len(lines) - 1, "runs": _runs(lines)}
        | {name: lines[-1][name] for name in kept if name in lines[-1]}
        for (task, n_parties, share), lines in by_setting.items()
    ]


def _runs(lines: list[dict[str, Any]]) -> str:
    """Say how many runs the tables of a setting have."""
    *tables, _ = lines
    least, most = (int(f(line["runs"] for line in tables)) for f in (min, max))
    return str(least) if least == most else f"{least} to {most}"


def _defaults() -> list[dict[str, Any]]:
    """Return Table II beside the estimators' defaults."""
    faces = {"classification": GeneticTreeClassifier, "regression": GeneticTreeRegressor}
    lines = []
    for symbol, (name, paper) in _TABLE_2.items():
        line = {"symbol": symbol, "here": name, "paper": paper}
        for task, face in faces.items():
            known = inspect.signature(face).parameters
            value = known[name].default if name in known else "not voted on"
            if name == "population_size":
                value = POPULATION[task]
            if name == "size_epsilon":
                value = "1 in this experiment; off unless asked for"
            line[task] = value
        lines.append(line)
    return lines


def _facts(main: dict[str, Any], varied: list[dict[str, Any]]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for task, lines in main.items():
        *tables, mean = lines
        sign = 1 if task == "classification" else -1
        facts |= {
            f"{task}_tables": len(tables),
            f"{task}_runs": min(line["runs"] for line in tables),
            f"{task}_delta": mean["Delta"],
            f"{task}_gain": mean["gain %"],
            f"{task}_better": sum(sign * line["Delta"] > 0 for line in tables),
            f"{task}_clear": sum(_is_clear(sign * line["Delta"], line) for line in tables),
            f"{task}_worse_tables": ", ".join(
                line["table"] for line in tables if sign * line["Delta"] <= 0
            )
            or "none",
        }
        for name in TRUEX:
            if f"{name} Delta" in mean:
                facts[f"{name} Delta"] = mean[f"{name} Delta"]
    by = {(line["task"], line["N"], line["c"]): line["Delta"] for line in varied}
    if ("classification", 20, 0.1) in by and "classification_delta" in facts:
        facts["tenth_delta"] = by["classification", 20, 0.1]
        facts["tenth_apart"] = abs(facts["tenth_delta"] - facts["classification_delta"])
    return facts


def _is_clear(gain: float, line: dict[str, Any]) -> bool:
    """Tell whether a table's gain is above 0 by more than two standard errors over its runs."""
    return line["+-"] is not None and bool(gain > 2 * line["+-"] / sqrt(line["runs"]))


def _draw_sets(main: dict[str, Any], path: Path) -> None:
    """Draw Delta, parties that gain, nodes and distances by table."""
    figure, axes = plt.subplots(
        4, len(main), figsize=(7 * len(main), 13), squeeze=False, layout="constrained"
    )
    panels = (
        ("Delta, %", ("Delta", *(f"{name} Delta" for name in TRUEX))),
        ("parties that gain, %", ("gain %", *(f"{name} gain %" for name in TRUEX))),
        ("decision nodes", ("nodes", "local nodes", *(f"{name} nodes" for name in TRUEX))),
        ("edit distance to own structure", ("distance",)),
    )
    for column, (task, lines) in enumerate(main.items()):
        at = np.arange(len(lines))
        for axis, (label, keys) in zip(axes[:, column], panels, strict=True):
            held = [key for key in keys if key in lines[0]]
            for place, key in enumerate(held):
                shift = (place - (len(held) - 1) / 2) * 0.8 / len(held)
                heights = [line.get(key, np.nan) for line in lines]
                axis.bar(at + shift, heights, 0.8 / len(held), label=key)
            axis.set(ylabel=label, title=task if axis is axes[0, column] else "")
            axis.set_xticks(at, [line["table"] for line in lines], rotation=60, ha="right")
            axis.legend(fontsize=7)
    figure.savefig(path, dpi=70)
    plt.close(figure)


def _draw_varied(varied: list[dict[str, Any]], path: Path) -> None:
    """Draw mean Delta by the number of parties and by participation."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    frame = pd.DataFrame(varied)
    panels = (("N", "c", 1.0), ("c", "N", 20))
    for (row, task), (column, (name, fixed, value)) in product(enumerate(SETS), enumerate(panels)):
        axis = axes[row, column]
        part = frame[(frame["task"] == task) & (frame[fixed] == value)].sort_values(name)
        for key in ("Delta", *(f"{one} Delta" for one in TRUEX)):
            if key in part and part[key].notna().any():
                axis.plot(part[name], part[key], "o-", label=key)
        axis.set(title=task, ylabel="Delta, %")
        axis.set_xlabel({"N": "parties", "c": "share that takes part"}[name])
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _draw_nursery(nursery: Records, truex: Records, path: Path) -> None:
    """Draw figure 5: nursery's scores, (a) of single parties over runs, (b) by division of rows."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4), layout="constrained")
    split = nursery[0][0]["split"]
    _draw_parties([one for one in nursery if one[0]["split"] == split], left)
    left.set(xlabel=f"party; division {split} of the rows", ylabel="macro F1")
    left.set_title("(a) evolved trees of single parties, least to most over runs; - own tree")
    names = []
    for place, (cell, found) in enumerate(nursery):
        for shift, key in ((-0.2, "local"), (0.2, "evolved")):
            scores = [party[key] for party in found["parties"]]
            right.boxplot(scores, positions=[place + shift], widths=0.3, manage_ticks=False)
        for learner, mark in zip(TRUEX, "x+", strict=True):
            scores = [f["score"] for c, f in truex if c == cell | {"learner": learner}]
            right.plot([place] * len(scores), scores, mark, color="black")
        if "pooled" in found:
            right.plot(place, found["pooled"], "*", color="black")
        names.append(f"{cell['split']}/{cell['run']}")
    right.set_xticks(range(len(names)), names)
    right.set(xlabel="division of rows / run", ylabel="macro F1")
    right.set_title(f"(b) own | evolved, all parties; x {TRUEX[0]}, + {TRUEX[1]}, * pooled")
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _draw_parties(runs: Records, axis: Any) -> None:
    """Draw every other party's evolved scores over runs, beside its own tree's."""
    others = range(0, len(runs[0][1]["parties"]), 2)
    axis.set_xticks(others)
    for party in others:
        scores = [found["parties"][party]["evolved"] for _, found in runs]
        axis.plot([party, party], [min(scores), max(scores)], "o-", color="tab:blue")
        axis.plot(party, runs[0][1]["parties"][party]["local"], "_", color="tab:orange", ms=14)
