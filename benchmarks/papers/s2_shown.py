"""S2's table and figures."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import pyplot as plt

from papers.experiment import Cell, Found, Shown, Table

PAPER_FOUND = {  # S2's RF1, RF2, NonFF, FF: accuracy, for superconduct RMSE
    "ionosphere": (0.864, 0.828, 0.908, 0.896),
    "spambase": (0.844, 0.831, 0.943, 0.928),
    "waveform": (0.745, 0.743, 0.826, 0.822),
    "kddcup99_10pct": (0.974, 0.965, 0.995, 0.995),
    "superconduct_76": (19.74, 17.49, 15.369, 15.411),
}
_FIGURE = {"domains": 3, "trees": 4, "depth": 5, "test share": 6}
_MODELS = ("RF1", "RF2", "pooled", "federated")


def shown(cells: list[tuple[str, Cell, Found]]) -> Shown:
    """Return tables, facts and pictures of S2."""
    ran = pd.DataFrame([cell | found for name, cell, found in cells if name == "two_parties"])
    timed = pd.DataFrame([cell | found for name, cell, found in cells if name == "prediction"])
    lines = [_line(name, ran) for name in PAPER_FOUND if name in set(ran.get("data", []))]
    note = "Accuracy; RMSE for superconduct. identical: the two models are the same bytes"
    tables = [Table("Table 1: two parties", lines, note)]
    if timed.empty:
        return Shown(tables, _facts(lines, timed))
    means = timed.groupby(["data", "axis", "value"], sort=False).mean(numeric_only=True)
    for axis, number in _FIGURE.items():
        part = means.xs(axis, level="axis").reset_index().rename(columns={"value": axis})
        title = f"Figure {number}: by {axis}"
        exact = part[["data", axis, "score", "rounds", "classical rounds"]]
        clock = part[["data", axis, "train s", "one round s", "classical s"]]
        tables += [
            Table(f"{title}, rounds and accuracy", exact.to_dict("records")),
            Table(f"{title}, seconds", clock.to_dict("records"), timed=True),
        ]
    return Shown(tables, _facts(lines, timed), {"figures_3_to_6": partial(_draw, means)})


def _line(name: str, ran: pd.DataFrame) -> dict[str, Any]:
    own = ran[ran["data"] == name]
    line: dict[str, Any] = {"data": name, "repetitions": len(own)}
    for title, paper in zip(_MODELS, PAPER_FOUND[name], strict=True):
        line[title] = f"{own[title].mean():.3f} +- {own[title].std(ddof=0):.3f}"
        line[f"paper's {title}"] = paper
    line["identical"] = f"{int(own['identical'].sum())} of {len(own)}"
    line["labels recovered"] = round(float(own["labels recovered"].mean()), 3)
    return line


def _facts(lines: list[dict[str, Any]], timed: pd.DataFrame) -> dict[str, Any]:
    counts = [line["identical"].split(" of ") for line in lines]
    facts: dict[str, Any] = {
        "sets": len(lines),
        "identical": sum(int(same) for same, _ in counts),
        "runs": sum(int(n) for _, n in counts),
        "repetitions": ", ".join(str(line["repetitions"]) for line in lines),
    }
    if not timed.empty:
        ratio = timed["classical s"] / timed["one round s"]
        facts |= {"least_ratio": float(ratio.min()), "most_ratio": float(ratio.max())}
    return facts


def _draw(means: pd.DataFrame, path: Path) -> None:
    figure, axes = plt.subplots(1, 4, figsize=(18, 4.2), layout="constrained")
    for axis, (name, number) in zip(axes, _FIGURE.items(), strict=True):
        for data, part in means.xs(name, level="axis").groupby("data"):
            at = part.index.get_level_values("value")
            axis.plot(at, part["classical s"], "o-", label=f"{data}, classical")
            axis.plot(at, part["one round s"], "x--", label=f"{data}, one round")
        axis.set(title=f"Figure {number}", xlabel=name, ylabel="seconds", yscale="log")
    axes[0].legend(fontsize=7)
    figure.savefig(path, dpi=80)
    plt.close(figure)
