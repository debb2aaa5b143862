"""S2's table and figures. What has no cells yet is left out."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import pyplot as plt

from papers.experiment import Cell, Found, Shown, Table
from papers.spread import with_spread

PAPER_FOUND = {  # S2's RF1, RF2, NonFF, FF (accuracy, for superconduct RMSE), and its p-value
    "ionosphere": (0.864, 0.828, 0.908, 0.896, 0.211),
    "spambase": (0.844, 0.831, 0.943, 0.928, 0.065),
    "waveform": (0.745, 0.743, 0.826, 0.822, 0.029),
    "kddcup99_10pct": (0.974, 0.965, 0.995, 0.995, 0.012),
    "superconduct_76": (19.74, 17.49, 15.369, 15.411, 0.186),
}
_FIGURE = {"domains": 3, "trees": 4, "depth": 5, "test share": 6}
_MODELS = ("RF1", "RF2", "pooled", "federated")
_EXACT = {"score": "accuracy", "rounds": "rounds", "classical rounds": "classical rounds"}
_TIMED = {"train s": "training", "one round s": "one round", "classical s": "classical"}
_ALL = _EXACT | _TIMED


def shown(cells: list[tuple[str, Cell, Found]]) -> Shown:
    """Return tables, facts and pictures of S2."""
    ran = pd.DataFrame([cell | found for name, cell, found in cells if name == "two_parties"])
    timed = pd.DataFrame([cell | found for name, cell, found in cells if name == "prediction"])
    tables, facts, pictures = [], dict[str, Any](), {}
    if not ran.empty:
        lines = [_line(name, ran) for name in PAPER_FOUND if name in set(ran["data"])]
        note = "Accuracy; RMSE for superconduct. identical: the two models are the same bytes"
        tables.append(Table("Table 1: two parties", lines, note))
        facts |= _facts_of_table(ran)
    if not timed.empty:
        tables += _figures(timed)
        facts |= _facts_of_figures(timed)
        pictures["figures_3_to_6"] = partial(_draw, timed)
    return Shown(tables, facts, pictures)


def _line(name: str, ran: pd.DataFrame) -> dict[str, Any]:
    own = ran[ran["data"] == name]
    *scores, p_value = PAPER_FOUND[name]
    line: dict[str, Any] = {"data": name, "repetitions": len(own)}
    for title, paper in zip(_MODELS, scores, strict=True):
        line[title] = with_spread(own[title], 3)
        line[f"paper's {title}"] = paper
    line["paper's p"] = p_value
    line["identical"] = f"{int(own['identical'].sum())} of {len(own)}"
    line["labels recovered"] = round(float(own["labels recovered"].mean()), 3)
    return line


def _figures(timed: pd.DataFrame) -> list[Table]:
    """Return two tables of every figure that has cells: what repeats, and seconds."""
    tables = []
    for axis, number in _FIGURE.items():
        part = timed[timed["axis"] == axis]
        if not part.empty:
            exact, seconds = _wide(part, axis, _EXACT, "mean"), _wide(part, axis, _TIMED, "median")
            title, note = f"Figure {number}: by {axis}", _repetitions(part)
            tables += [
                Table(f"{title}, rounds and accuracy", exact, f"Means over {note}"),
                Table(f"{title}, seconds", seconds, f"Medians over {note}", timed=True),
            ]
    return tables


def _wide(part: pd.DataFrame, axis: str, of: dict[str, str], how: str) -> list[dict[str, Any]]:
    """Return a line for each value on the axis, with the columns of one data set after another."""
    found = part.groupby(["value", "data"])[list(of)].agg(how)
    sets = list(dict.fromkeys(part["data"]))
    return [
        {axis: int(value) if float(value).is_integer() else value}
        | {
            f"{data}: {title}": float(f"{found.loc[(value, data), name]:.4g}")
            for data in sets
            if (value, data) in found.index
            for name, title in of.items()
        }
        for value in sorted(part["value"].unique())
    ]


def _repetitions(part: pd.DataFrame) -> str:
    counts = sorted(set(part.groupby(["data", "value"]).size()))
    most = "repetition" if counts == [1] else "repetitions"
    return f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} {most}"


def _facts_of_table(ran: pd.DataFrame) -> dict[str, Any]:
    counts = ran.groupby("data").size()
    return {
        "sets": len(counts),
        "identical": int(ran["identical"].sum()),
        "runs": len(ran),
        "repetitions": int(counts.min()),
    }


def _facts_of_figures(timed: pd.DataFrame) -> dict[str, Any]:
    ratio = timed["classical s"] / timed["one round s"]
    facts = {
        "least_ratio": float(ratio.min()),
        "most_ratio": float(ratio.max()),
        "timing_runs": int(timed.groupby(["data", "axis", "value"]).size().max()),
    }
    for fact, axis, what in (
        ("training_by_domains", "domains", "train s"),
        ("one_round_by_domains", "domains", "one round s"),
        ("one_round_by_trees", "trees", "one round s"),
        ("classical_by_trees", "trees", "classical s"),
        ("one_round_by_rows", "test share", "one round s"),
        ("classical_by_rows", "test share", "classical s"),
    ):
        facts |= {fact: _growth(timed[timed["axis"] == axis], what)}
    return facts


def _growth(part: pd.DataFrame, what: str) -> str:
    """Return by how much a time grows along an axis, from its first to its last value, by set."""
    grown = []
    for data, own in part.groupby("data", sort=False):
        times = own.groupby("value")[what].median()
        grown.append(f"{times.iloc[-1] / times.iloc[0]:.1f} ({data})")
    return " and ".join(grown)


def _draw(timed: pd.DataFrame, path: Path) -> None:
    panels = [("domains", "accuracy", ["score"]), ("domains", "seconds of training", ["train s"])]
    both = ["classical s", "one round s"]
    panels += [(axis, "seconds of prediction", both) for axis in _FIGURE]
    panels = [panel for panel in panels if panel[0] in set(timed["axis"])]
    n_lines = -(-len(panels) // 3)
    figure, axes = plt.subplots(
        n_lines, 3, figsize=(14, 4 * n_lines), layout="constrained", squeeze=False
    )
    for unused in axes.flat[len(panels) :]:
        unused.set_visible(False)
    for axis, (name, words, lines) in zip(axes.flat, panels, strict=False):
        for data, part in timed[timed["axis"] == name].groupby("data"):
            by_value = part.groupby("value")[lines]
            found = by_value.mean() if lines == ["score"] else by_value.median()
            for line in lines:
                style = "x--" if line == "one round s" else "o-"
                axis.plot(found.index, found[line], style, label=f"{data}, {_ALL[line]}")
        axis.set(title=f"Figure {_FIGURE[name]}", xlabel=name, ylabel=words)
        if lines == both:
            axis.set_yscale("log")
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=80)
    plt.close(figure)
