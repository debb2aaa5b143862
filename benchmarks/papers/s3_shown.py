"""S3's figures as tables and pictures."""

from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib import pyplot as plt

from papers.experiment import Cell, Found, Shown, Table
from papers.s3 import COLUMNS, DEPTHS, EPSILONS, RHOS, honest_factor
from papers.s3_others import EXACT, METHODS, PRIVATREE

LABELS = {
    "histograms": "S3 Algorithm 5",
    "save_budget": "S3 Algorithm 6, corrected",
    "published": "S3 Algorithm 6 as published (claimed epsilon)",
    "propose": "propose",
    "noisy_max": "noisy max",
    "forest": "private forest",
    "central": "central tree, no privacy",
    "local": "local tree, no privacy",
}
_FIGURE = {250: 3, 1000: 4, 100: 5}
_CELL = ["n", "p", "rho", "depth", "epsilon"]
_OVER = "Figures 3 and 4, all cells; least: the least mean of a group of cells"
_FEW = 100  # figure 5's rows stand apart: the paper has them in an appendix
_HONEST = ("forest", "noisy_max", "propose", "save_budget")


def shown(cells: list[tuple[str, Cell, Found]]) -> Shown:
    """Return tables, facts and pictures of S3."""
    frame = as_frame([(cell, found) for name, cell, found in cells if name == "grid"])
    made = Shown([], {}, {})
    if not frame.empty:
        _by_grid(frame, made)
    shares = [(cell, found) for name, cell, found in cells if name == "shares"]
    if shares:
        by_share = _by_share(shares)
        title = "Figure 2: accuracy in % by shares of the budget, epsilon 1"
        least = min(Counter(cell["leaf"] for cell, _ in shares).values())
        made.tables.append(Table(title, by_share, f"Draws of each cell: {least} or more"))
        made.pictures["figure_2"] = partial(_draw_shares, by_share)
    others = [cell | found for name, cell, found in cells if name == "others"]
    if others:
        off = _off_benchmark(others)
        made.tables.append(off)
        made.facts["auto_behind"] = max(line["auto behind the best"] for line in off.rows)
    yardstick = [cell | found for name, cell, found in cells if name == "yardstick"]
    if yardstick:
        measured = _by_epsilon(yardstick)
        made.tables.append(measured)
        made.facts.update(
            {f"yardstick_{line['epsilon']:g}": line["auto"] for line in measured.rows}
        )
    return made


def _by_grid(frame: pd.DataFrame, to: Shown) -> None:
    """Add figures 3 to 5, and what follows from them."""
    sizes = [n for n in _FIGURE if n in set(frame["n"])]
    ahead = points_ahead(frame[frame["n"] != _FEW])
    lines = [_against(ahead, method) for method in _HONEST if method in ahead]
    drawn = _repeated(frame[frame["n"] != _FEW])
    if lines:
        title = "Points above Algorithm 5, at the same honest epsilon"
        to.tables.append(Table(title, lines, f"{_OVER}; compared draw by draw; {drawn}"))
    if claims := _claims(frame):
        title = "Claimed and honest epsilon, and accuracy in % at the claim"
        published = _repeated(frame[frame["method"] == "published"])
        to.tables.append(Table(title, claims, f"All columns over the same draws; {published}"))
    to.tables.extend(_figure(frame, n) for n in sizes)
    if above := _above_local(frame):
        title = "Beats a party's own tree without privacy"
        note = f"In how many cells, on the mean of the draws that both have; {_repeated(frame)}"
        to.tables.append(Table(title, above, note))
    to.facts.update(_facts(ahead))
    to.pictures.update({f"figure_{_FIGURE[n]}": partial(_draw, frame, n) for n in sizes})


def _off_benchmark(found: list[dict[str, Any]]) -> Table:
    """Return every method's accuracy on each of the other tables, and how far `auto` is behind."""
    frame = pd.DataFrame(found)
    means = 100 * frame.groupby("data", sort=False)[[*METHODS, *EXACT]].mean()
    means["auto behind the best"] = means[list(METHODS)].max(axis=1) - means["auto"]
    lines = means.round(2).reset_index().to_dict("records")
    title = "Off S3's benchmark: accuracy in %, epsilon 1"
    return Table(title, lines, f"{frame['repetition'].nunique()} divisions of the rows, depth 5")


def _by_epsilon(found: list[dict[str, Any]]) -> Table:
    """Return the accuracies on PrivaTree's yardstick, its own beside them."""
    frame = pd.DataFrame(found)
    means = frame.groupby("epsilon")[list(METHODS)].mean().round(4)
    lines = [
        {"epsilon": epsilon, "PrivaTree": PRIVATREE[epsilon], **line}
        for epsilon, line in means.to_dict("index").items()
    ]
    note = f"16,000 rows, depth 4, {frame['repetition'].nunique()} draws; five parties, it one site"
    return Table("PrivaTree's yardstick: accuracy", lines, note)


def _figure(frame: pd.DataFrame, n: int) -> Table:
    title = f"Figure {_FIGURE[n]}: accuracy in %, n = {n}, mean over p and depths"
    return Table(title, _overall(frame, n), _repeated(frame[frame["n"] == n]))


def as_frame(draws: list[tuple[Cell, Found]]) -> pd.DataFrame:
    """Return one line for every draw, method, depth and epsilon, in points."""
    lines: list[dict[str, Any]] = []
    for cell, found in draws:
        facts = {name: cell[name] for name in ("n", "p", "rho", "repetition")}
        for name, accuracy in found.items():
            method, *rest = name.split()
            depths = DEPTHS if method == "forest" else (int(rest[0]),)
            epsilons = EPSILONS if method in ("central", "local") else (float(rest[-1]),)
            lines += [
                {**facts, "method": method, "depth": depth, "epsilon": epsilon, "score": score}
                for depth, epsilon, score in product(depths, epsilons, [100 * accuracy])
            ]
    return pd.DataFrame(lines)


def _paired(frame: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """Return the scores of two methods on the draws that both have; empty where there are none."""
    wide = frame.pivot_table("score", [*_CELL, "repetition"], "method")
    return wide.reindex(columns=[first, second]).dropna()


def points_ahead(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return by method and cell how far it is above Algorithm 5, draw by draw, and the error."""
    found = {}
    for method in sorted(set(frame["method"]) - {"histograms", "central", "local"}):
        pairs = _paired(frame, method, "histograms")
        points = (pairs[method] - pairs["histograms"]).groupby(_CELL)
        if len(pairs):  # one draw has no error
            found[method] = pd.DataFrame({"points": points.mean(), "error": points.sem()})
    return found


def _against(ahead: dict[str, pd.DataFrame], method: str) -> dict[str, Any]:
    points, error = ahead[method]["points"], ahead[method]["error"]
    line = {
        "method": LABELS[method],
        "mean": round(float(points.mean()), 2),
        "cells better by 2 s.e.": int((points > 2 * error).sum()),
        "worse": int((points < -2 * error).sum()),
        "of": len(points),
    }
    for name in _CELL:
        line[f"least by {name}"] = round(float(points.groupby(name).mean().min()), 2)
    return line


def _overall(frame: pd.DataFrame, n: int) -> list[dict[str, Any]]:
    """Return every method's mean accuracy by rho and epsilon, over columns and depths."""
    part = frame[frame["n"] == n]
    means = part.groupby(["method", "rho", "epsilon"])["score"].mean()
    return [
        {"method": LABELS[method]}
        | {
            f"rho={rho} e={e:g}": round(means[method, rho, e], 1)
            for rho, e in product(RHOS, EPSILONS)
            if (method, rho, e) in means.index
        }
        for method in LABELS
        if method in means.index
    ]


def _repeated(part: pd.DataFrame) -> str:
    """Say how many draws the cells of a part have."""
    if part.empty:
        return "no draws"
    draws = part.groupby(["method", *_CELL])["repetition"].nunique()
    least, most = int(draws.min()), int(draws.max())
    return (
        f"draws of each cell: {least}"
        if least == most
        else f"draws of each cell: {least} to {most}"
    )


def _claims(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what Algorithm 6 claims and what it spends, with accuracies at the claim."""
    methods = ["published", "save_budget", "histograms", "noisy_max", "forest"]
    wide = frame.pivot_table("score", [*_CELL, "repetition"], "method")
    means = wide.reindex(columns=methods).dropna().groupby(["p", "epsilon"]).mean()
    return [
        {
            "p": p,
            "Algorithm 6 claims": epsilon,
            "and spends": float(honest_factor(p)) * epsilon,
            **{LABELS[method]: round(means[method][p, epsilon], 1) for method in methods},
        }
        for p, epsilon in means.index
    ]


def _above_local(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return in how many of the cells of an epsilon a method beats a party's own tree."""
    lines = []
    for method in ("forest", "noisy_max", "propose", "histograms", "save_budget", "published"):
        means = _paired(frame, method, "local").groupby(_CELL).mean()
        if means.empty:
            continue
        by_epsilon = (means[method] > means["local"]).groupby("epsilon")
        counts = {f"e={e:g}": f"{part.sum()} of {len(part)}" for e, part in by_epsilon}
        lines.append({"method": LABELS[method], **counts})
    return lines


def _by_share(draws: list[tuple[Cell, Found]]) -> list[dict[str, Any]]:
    """Return figure 2: a line for each share of the leaves, a column for each of the bounds."""
    frame = pd.DataFrame([{"leaf share": cell["leaf"], **found} for cell, found in draws])
    means = 100 * frame.groupby("leaf share", sort=False).mean()
    means.columns = [
        "Algorithm 5" if name == "histograms" else f"Algorithm 6, bounds {name.split()[1]}"
        for name in means.columns
    ]
    return means.round(1).reset_index().to_dict("records")


def _facts(ahead: dict[str, pd.DataFrame]) -> dict[str, Any]:
    facts: dict[str, Any] = {f"factor_{p}": float(honest_factor(p)) for p in COLUMNS}
    for method, found in ahead.items():
        facts["cells"] = len(found)
        facts[f"{method}_above"] = round(float(found["points"].mean()), 2)
        groups = [found["points"].groupby(name).mean().min() for name in _CELL]
        facts[f"{method}_least_group"] = round(float(min(groups)), 2)
    return facts


def _draw(frame: pd.DataFrame, n: int, path: Path) -> None:
    """Draw accuracy by epsilon: columns and depths across, rho down."""
    figure, axes = plt.subplots(
        2, 6, figsize=(24, 8), layout="constrained", sharex=True, sharey="row"
    )
    part = frame[frame["n"] == n]
    for (row, rho), (column, (depth, p)) in product(
        enumerate(reversed(RHOS)), enumerate(product(DEPTHS, COLUMNS))
    ):
        axis = axes[row, column]
        here = part[(part["rho"] == rho) & (part["depth"] == depth) & (part["p"] == p)]
        for method, label in LABELS.items():
            means = here[here["method"] == method].groupby("epsilon")["score"].mean()
            if means.empty:
                continue
            style = {"central": ":", "local": ":", "published": "x--"}.get(method, "o-")
            axis.semilogx(means.index, means, style, label=label)
        axis.set(title=f"p={p}, depth {depth}, rho={rho}", xlabel="epsilon" if row else "")
    lines, words = axes[0, 0].get_legend_handles_labels()
    figure.legend(lines, words, loc="outside lower center", ncols=4)
    figure.supylabel("test accuracy, %")
    figure.savefig(path, dpi=60)
    plt.close(figure)


def _draw_shares(lines: list[dict[str, Any]], path: Path) -> None:
    """Draw figure 2: a curve of Algorithm 5, a heat map of Algorithm 6."""
    frame = pd.DataFrame(lines).set_index("leaf share")
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    left.plot(frame.index, frame.pop("Algorithm 5"), "o-")
    left.set(xlabel="leaf share", ylabel="test accuracy, %", title="Algorithm 5")
    image = right.imshow(frame.to_numpy(), aspect="auto", origin="lower")
    right.set_xticks(range(frame.shape[1]), [name.split()[-1] for name in frame.columns])
    right.set_yticks(range(len(frame)), frame.index)
    right.set(xlabel="bounds share", ylabel="leaf share", title="Algorithm 6, corrected")
    figure.colorbar(image)
    figure.savefig(path, dpi=80)
    plt.close(figure)
