"""S5's table and figure. What has no cells yet is left out."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import pyplot as plt

from papers.experiment import Cell, Found, Shown, Table
from papers.s5 import BALANCED, LAPLACE, PERMANENT, THEIRS, TWO_CLASSES
from papers.spread import with_spread

_THEIRS = ("ET", "FET", "FET-LDP", "FET-GDP")
PAPER_FOUND = {  # S5's own accuracies, in the order of _THEIRS
    "spambase": (0.9307, 0.9348, 0.9259, 0.9339),
    "audit_2018_trial": (0.9833, 0.9859, 0.9794, 0.9849),
    "waveform": (0.8342, 0.8361, 0.8343, 0.8361),
    "credit_card_default": (0.8509, 0.8523, 0.8451, 0.8511),
    "bank_additional_full": (0.9423, 0.9414, 0.9334, 0.9220),
    "letter": (0.9527, 0.9553, 0.9240, 0.9458),
    "kddcup99_10pct": (0.9999, 0.9998, 0.9974, 0.9994),
}
PAPER_VARIES = {  # what it prints after its accuracies, and calls their variance
    "spambase": (4.06e-03, 1.50e-05, 1.03e-05, 1.72e-05),
    "audit_2018_trial": (2.80e-03, 6.62e-06, 4.38e-05, 6.31e-06),
    "waveform": (4.71e-03, 1.88e-05, 2.26e-05, 6.53e-05),
    "credit_card_default": (1.62e-03, 1.07e-06, 3.32e-06, 7.28e-06),
    "bank_additional_full": (1.03e-03, 1.76e-06, 1.46e-06, 4.24e-04),
    "letter": (1.96e-03, 5.71e-06, 6.55e-06, 7.55e-06),
    "kddcup99_10pct": (2.57e-05, 3.31e-07, 6.25e-07, 2.35e-07),
}
PAPER_F1 = {
    "spambase": (0.9316, 0.9355, 0.9259, 0.9346),
    "audit_2018_trial": (0.9834, 0.9858, 0.9795, 0.9850),
    "waveform": (0.8342, 0.8361, 0.8343, 0.8361),
    "credit_card_default": (0.8424, 0.8440, 0.8362, 0.8426),
    "bank_additional_full": (0.9427, 0.9418, 0.9335, 0.9219),
    "letter": (0.9527, 0.9554, 0.9240, 0.9460),
    "kddcup99_10pct": (0.9999, 0.9998, 0.9974, 0.9994),
}
_FET, _LDP, _RESPONSE = "spinney", "bloom 8.79", "k-RR 2"
_OURS = {
    THEIRS: "ET (scikit-learn)",
    _FET: "FET",
    _LDP: "FET-LDP (Bloom 8.79)",
    _RESPONSE: "k-RR 2",
    LAPLACE: "FET-GDP (Laplace 8.79)",
}
_DIFFERENCES = {
    "FET - ET": (_FET, THEIRS),
    "LDP - FET": (_LDP, _FET),
    "k-RR - LDP": (_RESPONSE, _LDP),
}


def shown(cells: list[tuple[str, Cell, Found]]) -> Shown:
    """Return tables, facts and pictures of S5."""
    frame = pd.DataFrame([cell | found for name, cell, found in cells if name == "overall"])
    swept = pd.DataFrame([cell | found for name, cell, found in cells if name == "impact"])
    tables, facts, pictures = [], dict[str, Any](), {}
    if not frame.empty:
        names = [name for name in PAPER_FOUND if name in set(frame["data"])]
        lines = [_line(name, _by(frame, name, "accuracy")) for name in names]
        steps = [line for name in names if (line := _steps(name, _by(frame, name, "accuracy")))]
        tables += _of_table_2(frame, names, lines)
        facts |= _facts(lines) | _facts_of_steps(steps)
        if steps:
            note = "Accuracy, means over the repetitions that all three have"
            tables.append(Table("The Bloom filters' two steps", steps, note))
        if even := _evened(frame):
            note = "scikit-learn's ET on drawn rows, too; F1 of class 1 or yes"
            tables.append(Table("Two classes made even before the split", even, note))
    if not swept.empty:
        wide = swept.pivot_table("accuracy", ["data", "axis", "value"], "way").reset_index()
        n = int(swept["repetition"].nunique())
        note = f"Repetitions: {n}"
        tables.append(Table("Figure 4: accuracy", wide.to_dict("records"), note))
        facts["figure_repetitions"] = "one repetition" if n == 1 else f"{n} repetitions"
        facts["ends"] = _ends(swept)
        pictures["figure_4"] = partial(_draw, swept)
    return Shown(tables, facts, pictures)


def _by(frame: pd.DataFrame, name: str, score: str) -> pd.DataFrame:
    """Return the score of every repetition (lines) and way (columns) on one set."""
    return frame[frame["data"] == name].pivot_table(score, "repetition", "way")


def _of_table_2(frame: pd.DataFrame, names: list[str], lines: list[dict[str, Any]]) -> list[Table]:
    papers = [
        {"data": name}
        | {
            theirs: f"{mean:.4f} ({varies:.2e})"
            for theirs, mean, varies in zip(
                _THEIRS, PAPER_FOUND[name], PAPER_VARIES[name], strict=True
            )
        }
        for name in names
    ]
    f1 = []
    for name in names:
        if name in TWO_CLASSES:
            f1.append(_f1(name, "of class 1 or yes", _by(frame, name, "f1")))
            f1.append(_f1(name, "weighed over classes", _by(frame, name, "f1 weighted")))
        else:
            f1.append(_f1(name, "micro", _by(frame, name, "f1")))
    note = "Differences in points, over the repetitions that both learners have"
    said = "In brackets what it calls the variance; under ET it is of the size of a deviation"
    return [
        Table("Table 2: accuracy, 20 trees of depth 20, two parties", lines, note),
        Table("Table 2 as the paper has it: accuracy", papers, said),
        Table("Table 2: F1", f1, "The same repetitions"),
    ]


def _line(name: str, by: pd.DataFrame) -> dict[str, Any]:
    line: dict[str, Any] = {"data": name}
    usual = [way for way in by if way in (THEIRS, _FET, _LDP, _RESPONSE)]
    if usual:
        line["repetitions"] = int(by[usual].count().min())
    line |= _means(by)
    if LAPLACE in by:
        line["repetitions of FET-GDP"] = int(by[LAPLACE].count())
    for title, (one, other) in _DIFFERENCES.items():
        if one in by and other in by:
            line[title] = _points(by[one] - by[other])
    paper = PAPER_FOUND[name]
    return line | {"paper's LDP - FET": round(100 * (paper[2] - paper[1]), 2)}


def _means(by: pd.DataFrame) -> dict[str, str]:
    return {label: with_spread(by[way], 4) for way, label in _OURS.items() if way in by}


def _points(difference: pd.Series) -> float:
    return round(100 * float(difference.mean()), 2)


def _f1(name: str, which: str, by: pd.DataFrame) -> dict[str, Any]:
    papers = zip(_THEIRS, PAPER_F1[name], strict=True)
    line = {"data": name, "F1": which} | _means(by)
    return line | {f"paper's {theirs}": value for theirs, value in papers}


def _steps(name: str, by: pd.DataFrame) -> dict[str, Any] | None:
    """Return what the filters come to with both steps, and with the permanent one alone."""
    ways = {_LDP: "both, drawn once", PERMANENT: "permanent alone", _RESPONSE: _RESPONSE}
    both = by[list(ways)].dropna() if set(ways) <= set(by) else by.head(0)
    if both.empty:
        return None
    line: dict[str, Any] = {"data": name, "repetitions": len(both)}
    line |= {title: with_spread(both[way], 4) for way, title in ways.items()}
    line["k-RR - both"] = _points(both[_RESPONSE] - both[_LDP])
    line["k-RR - permanent"] = _points(both[_RESPONSE] - both[PERMANENT])
    return line


def _evened(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return scikit-learn's scores where classes were balanced, beside the paper's."""
    lines = []
    for name in TWO_CLASSES:
        own = frame[(frame["data"] == name) & (frame["way"] == BALANCED)]
        if not own.empty:
            line: dict[str, Any] = {"data": name, "repetitions": len(own)}
            for title, score, papers in (
                ("accuracy", "accuracy", PAPER_FOUND),
                ("F1", "f1", PAPER_F1),
            ):
                line[title] = with_spread(own[score], 4)
                line[f"paper's ET, {title}"] = papers[name][0]
            lines.append(line)
    return lines


def _facts(lines: list[dict[str, Any]]) -> dict[str, Any]:
    ahead = {line["data"]: line["FET - ET"] for line in lines if "FET - ET" in line}
    response = [line["k-RR - LDP"] for line in lines if "k-RR - LDP" in line]
    smaller = [line for line in lines if line.get("LDP - FET", -100) >= line["paper's LDP - FET"]]
    facts: dict[str, Any] = {
        "sets": len(lines),
        "losses_within": len(smaller),
        "repetitions": _listed(lines, "repetitions"),
        "noised_repetitions": _listed(lines, "repetitions of FET-GDP"),
    }
    if ahead:
        facts |= {
            "least_ahead": min(ahead.values()),
            "least_ahead_set": min(ahead, key=lambda name: ahead[name]),
            "within_half": sum(value >= -0.5 for value in ahead.values()),
        }
    if response:
        facts["least_response"] = min(response)
    for line in lines:
        if line["data"] == "credit_card_default" and _OURS[THEIRS] in line:
            facts["card_theirs"] = line[_OURS[THEIRS]].split(" ")[0]
    return facts


def _listed(lines: list[dict[str, Any]], of: str) -> str:
    """Return how many repetitions the sets have: those that agree together, the others by name."""
    counts = {line["data"]: line[of] for line in lines if of in line}
    if not counts:
        return "none"
    usual = max(counts.values(), key=list(counts.values()).count)
    others = [f"{name} {n}" for name, n in counts.items() if n != usual]
    return f"{usual} ({', '.join(others)})" if others else str(usual)


def _facts_of_steps(steps: list[dict[str, Any]]) -> dict[str, Any]:
    behind = {line["data"]: line["k-RR - permanent"] for line in steps}
    behind = {name: points for name, points in behind.items() if points < 0}
    if not steps:
        return {}
    return {
        "step_sets": len(steps),
        "step_repetitions": _listed(steps, "repetitions"),
        "behind_permanent": len(behind),
        "behind_permanent_sets": ", ".join(f"{name} {by:+.2f}" for name, by in behind.items()),
    }


def _ends(swept: pd.DataFrame) -> dict[str, str]:
    """Return the accuracy at both ends of every curve of figure 4."""
    curves = {}
    for (data, axis, way), part in swept.groupby(["data", "axis", "way"]):
        mean = part.groupby("value")["accuracy"].mean()
        curves[f"{data} {axis} {way}"] = f"{mean.iloc[0]:.3f} to {mean.iloc[-1]:.3f}"
    return curves


def _draw(swept: pd.DataFrame, path: Path) -> None:
    names = list(dict.fromkeys(swept["data"]))
    axes_of = list(dict.fromkeys(swept["axis"]))
    shape, size = (len(names), len(axes_of)), (4.6 * len(axes_of), 3.6 * len(names))
    figure, axes = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False)
    for row, name in enumerate(names):
        for column, axis_name in enumerate(axes_of):
            axis = axes[row, column]
            part = swept[(swept["data"] == name) & (swept["axis"] == axis_name)]
            axis.set_visible(not part.empty)
            for way, line in part.groupby("way"):
                mean = line.groupby("value")["accuracy"].mean()
                colour = f"C{list(_OURS).index(way)}"
                axis.plot(mean.index, mean, "o-", color=colour, label=_OURS[way])
            axis.set(title=f"{name}: {axis_name}", xlabel=axis_name, ylabel="accuracy")
            if not part.empty:
                axis.legend(fontsize=7)
    figure.savefig(path, dpi=80)
    plt.close(figure)
