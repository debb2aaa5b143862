"""S1's figures as tables and pictures."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt
from scipy.stats import ttest_1samp

from papers.experiment import Cell, Found, Shown, Table

_DRAWS = 20_000  # of the randomisation test
_FIGURE = {("telco", 10): "Figure 1", ("telco", 5): "Figure 2", ("telco", 2): "Figure 3"}
_TEXT = (
    "p by rows: randomisation test on the F1 of all repetitions' test rows together, the two "
    "models' answers swapped row by row (rows that several repetitions test count as often); "
    "p by repetitions: paired t test on their mean F1"
)


def shown(cells: list[tuple[str, Cell, Found]]) -> Shown:
    """Return tables, facts and pictures of S1, of what there is."""
    found = Shown([], {}, {})
    for part in (_joined, _noisy, _by_bins):
        part(cells, found)
    return found


def _joined(cells: list[tuple[str, Cell, Found]], to: Shown) -> None:
    """Add figures 1 to 4."""
    joined = [(cell, found) for name, cell, found in cells if name == "joined"]
    if not joined:
        return
    tables, setups = [], []
    for key, title in _setups(joined).items():
        found = [one["parties"] for cell, one in joined if _key(cell) == key]
        rows = by_party(found)
        tables.append(Table(title, rows, f"Mean of {len(found)} repetitions; {_TEXT}"))
        setup = {"table": key[0], "parties": key[1], "settings": key[2]} | _setup(rows)
        setups.append(setup | {"p by repetitions": _p_of_repetitions(found)})
    gains = [one["federated f1"] - one["local f1"] for one in setups]
    to.tables.extend([Table("Figures 1 to 4, all set-ups", setups, _TEXT), *tables])
    to.facts.update(
        setups=len(setups),
        setups_above=sum(gain > 0 for gain in gains),
        least_gain=min(gains),
        most_gain=max(gains),
        setups_significant=sum(one["p by rows"] < 0.05 for one in setups),
        setups_by_repetitions=sum((one["p by repetitions"] or 1) < 0.05 for one in setups),
    )
    to.pictures["figures_1_to_4"] = partial(_draw_joined, tables)


def _noisy(cells: list[tuple[str, Cell, Found]], to: Shown) -> None:
    """Add figures 6 and 7."""
    noisy = means(cells, "private", ["mechanism", "given", "epsilon"])
    exact = means(cells, "without_noise", [])
    if noisy.empty or exact.empty:
        return
    words = {
        "epsilon_per_count": "epsilon is of one count or column, as the paper has it",
        "epsilon": "epsilon is of the whole forest",
    }
    for given, word in words.items():
        for figure, mechanism in ((6, "perturbed_input"), (7, "noisy_histograms")):
            part = noisy[(noisy["mechanism"] == mechanism) & (noisy["given"] == given)]
            title = f"Figure {figure}: {mechanism}, {given}, two parties, rows of C1"
            note = f"{word}; total: what the ledger says of the whole forest"
            rows = part.drop(columns=["mechanism", "given"]).to_dict("records")
            to.tables.extend([Table(title, rows, note)] if rows else [])
    to.tables.append(Table("Figures 6 and 7, without noise", exact.to_dict("records")))
    at_one = noisy[(noisy["given"] == "epsilon_per_count") & (noisy["epsilon"] == 1.0)]
    names = {"noisy_histograms": "total_histograms", "perturbed_input": "total_input"}
    to.facts.update(
        {names[one]: total for one, total in zip(at_one["mechanism"], at_one["total"], strict=True)}
    )
    to.pictures["figures_6_and_7"] = partial(_draw_noise, noisy, exact)


def _by_bins(cells: list[tuple[str, Cell, Found]], to: Shown) -> None:
    """Add figure 8."""
    bins = means(cells, "by_bins", ["bins"])
    if bins.empty:
        return
    title = "Figure 8: adaptive histograms by bins, two parties"
    to.tables.append(Table(title, bins.to_dict("records")))
    auc = bins.set_index("bins")["auc"]
    to.facts.update({f"auc_{n}_bins": auc[n] for n in (2, 8) if n in auc})
    to.facts["auc_most_bins"] = auc[auc.index.max()]
    to.pictures["figure_8"] = partial(_draw_bins, bins)


def _key(cell: Cell) -> tuple[str, int, str]:
    return cell["data"], cell["n_parties"], cell["settings"]


def _setups(joined: list[tuple[Cell, Found]]) -> dict[tuple[str, int, str], str]:
    """Return the set-ups with their titles, the paper's settings (tuned) after equal ones."""
    keys = sorted(
        {_key(cell) for cell, _ in joined}, key=lambda key: (key[2], key[0] != "telco", key[1])
    )
    words = {"alike": "same settings for all", "tuned": "each with settings of its own"}
    return {
        key: f"{_FIGURE.get(key[:2], 'In place of Figure 4')}: {key[0]}, {key[1]} parties, "
        + words[key[2]]
        for key in keys
    }


def by_party(found: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return a line for each party and one for all, means over repetitions."""
    lines = []
    for party in range(len(found[0])):
        own = [one[party] for one in found]
        line: dict[str, Any] = {"party": f"C{party + 1}"}
        for score in ("f1", "auc"):
            for model in ("federated", "local"):
                line[f"{model} {score}"] = float(np.mean([one[model][score] for one in own]))
        line["p by rows"] = _p_value(np.sum([one["kinds"] for one in own], axis=0))
        lines.append(line)
    mean = {
        name: float(np.mean([line[name] for line in lines])) for name in lines[0] if " " in name
    }
    kinds = np.sum([one["kinds"] for repetition in found for one in repetition], axis=0)
    return [*lines, {"party": "all", **mean, "p by rows": _p_value(kinds)}]


def _p_value(kinds: np.ndarray) -> float:
    """Return how often chance alone parts the two F1 as far; kinds: truth, federated, local."""
    left = np.random.default_rng(0)
    by = kinds.reshape(2, 2, 2)
    positives = by[1].sum()
    swapped = [left.binomial(by[y, 1, 0] + by[y, 0, 1], 0.5, _DRAWS) for y in (0, 1)]
    true = np.append(swapped[1], by[1, 1, 0])  # only the federated model finds these
    false = np.append(swapped[0], by[0, 1, 0])
    true_other = by[1, 1, 0] + by[1, 0, 1] - true
    false_other = by[0, 1, 0] + by[0, 0, 1] - false
    apart = _f1(by, true, false, positives) - _f1(by, true_other, false_other, positives)
    return float((1 + np.sum(np.abs(apart[:-1]) >= abs(apart[-1]) - 1e-12)) / (1 + _DRAWS))


def _p_of_repetitions(found: list[list[dict[str, Any]]]) -> float | None:
    """Return how likely chance alone parts the repetitions' mean F1 as far; None for one only."""
    gains = [np.mean([p["federated"]["f1"] - p["local"]["f1"] for p in one]) for one in found]
    return float(ttest_1samp(gains, 0.0).pvalue) if len(gains) > 1 else None


def _f1(by: np.ndarray, true: Any, false: Any, positives: int) -> Any:
    hits = by[1, 1, 1] + true
    return 2 * hits / (hits + by[0, 1, 1] + false + positives)


def _setup(rows: list[dict[str, Any]]) -> dict[str, Any]:
    *parties, mean = rows
    return {
        **{name: value for name, value in mean.items() if name != "party"},
        "parties that gain F1": sum(r["federated f1"] > r["local f1"] for r in parties),
        "with p < 0.05": sum(
            r["federated f1"] > r["local f1"] and r["p by rows"] < 0.05 for r in parties
        ),
    }


def means(cells: list[tuple[str, Cell, Found]], name: str, by: list[str]) -> pd.DataFrame:
    """Return means over repetitions of an experiment; nothing if it was not run."""
    frame = pd.DataFrame([cell | found for one, cell, found in cells if one == name])
    if frame.empty:
        return frame
    frame = frame.drop(columns="repetition")
    return frame.groupby(by, sort=False).mean().reset_index() if by else frame.mean().to_frame().T


def _draw_joined(tables: list[Table], path: Path) -> None:
    figure, axes = plt.subplots(
        -(-len(tables) // 2),
        2,
        figsize=(12, 1.9 * len(tables)),
        layout="constrained",
        squeeze=False,
    )
    for axis, one in zip(axes.flat, tables, strict=False):
        at = np.arange(len(one.rows))
        for shift, model in ((-0.2, "local"), (0.2, "federated")):
            axis.bar(at + shift, [line[f"{model} f1"] for line in one.rows], 0.4, label=model)
        axis.set_xticks(at, [line["party"] for line in one.rows])
        heights = [line[f"{m} f1"] for line in one.rows for m in ("local", "federated")]
        axis.set(ylabel="F1", ylim=(min(heights) - 0.05, max(heights) + 0.05))
        axis.set_title(one.title, fontsize=9)
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _draw_noise(noisy: pd.DataFrame, exact: pd.DataFrame, path: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(12, 8), layout="constrained", sharex=True)
    titles = {
        "epsilon_per_count": "epsilon of one count or column, as in the paper (at points: total)",
        "epsilon": "epsilon of the whole forest",
    }
    for column, (given, title) in enumerate(titles.items()):
        for row, score in enumerate(("auc", "f1")):
            axis = axes[row, column]
            for mechanism, part in noisy[noisy["given"] == given].groupby("mechanism"):
                axis.semilogx(part["epsilon"], part[score], "o-", label=mechanism)
                if given == "epsilon_per_count":
                    _note_totals(axis, part, score, above=mechanism == "noisy_histograms")
            axis.axhline(exact[score].item(), color="grey", linestyle=":", label="no noise")
            axis.set(ylabel=score.upper(), title=title if row == 0 else "")
            axis.set_xlabel("epsilon" if row else "")
            axis.legend()
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _note_totals(axis: Any, part: pd.DataFrame, score: str, *, above: bool) -> None:
    """Write beside some points what the whole forest cost."""
    some = part[part["epsilon"].isin([0.001, 0.01, 0.1, 1.0, 5.0, 100.0])]
    for epsilon, height, total in some[["epsilon", score, "total"]].itertuples(index=False):
        text = f"{total / 1000:.3g}k" if total >= 1000 else f"{total:.3g}"
        place = {"xytext": (0, 7 if above else -14), "textcoords": "offset points", "ha": "center"}
        axis.annotate(text, (epsilon, height), fontsize=8, **place)


def _draw_bins(bins: pd.DataFrame, path: Path) -> None:
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    for score in ("f1", "auc"):
        axis.plot(bins["bins"], bins[score] - bins[score].iloc[0], "o-", label=score)
    axis.set_xscale("log", base=2)
    axis.set(title="Figure 8: adaptive histograms, two parties", xlabel="bins")
    axis.set_ylabel("gain over 2 bins")
    axis.legend()
    figure.savefig(path, dpi=90)
    plt.close(figure)
