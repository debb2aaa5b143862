"""S5's table and figure."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import pyplot as plt

from papers.experiment import Cell, Found, Shown, Table

PAPER_FOUND = {  # S5's own accuracies: ET, FET, FET-LDP, FET-GDP
    "spambase": (0.9307, 0.9348, 0.9259, 0.9339),
    "audit_2018_trial": (0.9833, 0.9859, 0.9794, 0.9849),
    "waveform": (0.8342, 0.8361, 0.8343, 0.8361),
    "credit_card_default": (0.8509, 0.8523, 0.8451, 0.8511),
    "bank_additional_full": (0.9423, 0.9414, 0.9334, 0.9220),
    "letter": (0.9527, 0.9553, 0.9240, 0.9458),
    "kddcup99_10pct": (0.9999, 0.9998, 0.9974, 0.9994),
}
_OURS = {
    "scikit-learn": "ET (scikit-learn)",
    "spinney": "FET",
    "bloom 8.79": "FET-LDP (Bloom 8.79)",
    "k-RR 2": "k-RR 2",
    "laplace 8.79": "FET-GDP (Laplace 8.79)",
}


def shown(cells: list[tuple[str, Cell, Found]]) -> Shown:
    """Return tables, facts and pictures of S5."""
    frame = pd.DataFrame([cell | found for name, cell, found in cells if name == "overall"])
    swept = pd.DataFrame([cell | found for name, cell, found in cells if name == "impact"])
    lines = [_line(name, frame) for name in PAPER_FOUND if name in set(frame["data"])]
    papers = [
        {"data": name, **dict(zip(("ET", "FET", "FET-LDP", "FET-GDP"), found, strict=True))}
        for name, found in PAPER_FOUND.items()
    ]
    note = "Mean over repetitions; differences in points, over repetitions that both learners have"
    tables = [
        Table("Table 2: accuracy, 20 trees of depth 20, two parties", lines, note),
        Table("Table 2 as the paper has it", papers),
    ]
    if swept.empty:
        return Shown(tables, _facts(lines))
    wide = swept.pivot_table("accuracy", ["data", "axis", "value"], "way").reset_index()
    figure = Table("Figure 4: accuracy", wide.to_dict("records"), "One repetition")
    return Shown([*tables, figure], _facts(lines), {"figure_4": partial(_draw, swept)})


def _line(name: str, frame: pd.DataFrame) -> dict[str, Any]:
    by = frame[frame["data"] == name].pivot_table("accuracy", "repetition", "way")
    line: dict[str, Any] = {"data": name, "repetitions": len(by)}
    line |= {label: round(float(by[way].mean()), 4) for way, label in _OURS.items() if way in by}
    for title, one, other in (
        ("FET - ET", "spinney", "scikit-learn"),
        ("LDP - FET", "bloom 8.79", "spinney"),
        ("k-RR - LDP", "k-RR 2", "bloom 8.79"),
    ):
        if one in by and other in by:
            line[title] = round(100 * float((by[one] - by[other]).mean()), 2)
    paper = PAPER_FOUND[name]
    return line | {"paper's LDP - FET": round(100 * (paper[2] - paper[1]), 2)}


def _facts(lines: list[dict[str, Any]]) -> dict[str, Any]:
    ahead = {line["data"]: line["FET - ET"] for line in lines if "FET - ET" in line}
    response = [line["k-RR - LDP"] for line in lines if "k-RR - LDP" in line]
    smaller = [line for line in lines if line.get("LDP - FET", -100) >= line["paper's LDP - FET"]]
    return {
        "sets": len(lines),
        "least_ahead": min(ahead.values()),
        "least_ahead_set": min(ahead, key=lambda name: ahead[name]),
        "within_half": sum(value >= -0.5 for value in ahead.values()),
        "least_response": min(response),
        "losses_within": len(smaller),
        "repetitions": ", ".join(str(line["repetitions"]) for line in lines),
    }


def _draw(swept: pd.DataFrame, path: Path) -> None:
    names = list(dict.fromkeys(swept["data"]))
    axes_of = list(dict.fromkeys(swept["axis"]))
    shape, size = (len(names), len(axes_of)), (4.6 * len(axes_of), 3.6 * len(names))
    figure, axes = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False)
    for row, name in enumerate(names):
        for column, axis_name in enumerate(axes_of):
            axis = axes[row, column]
            part = swept[(swept["data"] == name) & (swept["axis"] == axis_name)]
            for way, line in part.groupby("way"):
                ordered = line.sort_values("value")
                axis.plot(ordered["value"], ordered["accuracy"], "o-", label=way)
            axis.set(title=f"{name}: {axis_name}", xlabel=axis_name, ylabel="accuracy")
            axis.legend(fontsize=7)
    figure.savefig(path, dpi=80)
    plt.close(figure)
