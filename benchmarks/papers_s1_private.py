"""S1's figures 6 and 7 on Telco churn: scores by epsilon, with what it really adds up to.

The paper's set-up: two parties, 80 % of each for training, five repetitions, scores on the rows of
party C1, epsilon from 0.001 to 100. The paper's epsilon is that of one count (figure 7) or of one
column (figure 6); beside it stands the composed total, which the parties' ledgers show. The same
two modes are then run with epsilon as the budget of the whole forest. Writes a picture and JSON.
Run: python benchmarks/papers_s1_private.py [--fast]
"""

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from harness import RESULTS, arguments, save, table
from papers_s1 import Deal, scores, telco
from spinney import HorizontalForestClassifier
from spinney.errors import PrivacyLeakWarning
from spinney.privacy.budget import Unit

EPSILONS = (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 1.0, 3.0, 5.0, 100.0)
REPETITIONS = 5
N_TREES, DEPTH, BINS = 20, 6, 8
_UNIT = {
    "noisy_histograms": Unit.RECORD_ADD_REMOVE,
    "perturbed_input": Unit.RECORD_REPLACE,
}
_PAPER = {  # all features in every node, as in the paper; all rows in every tree
    "n_estimators": N_TREES,
    "max_depth": DEPTH,
    "max_cells": BINS,
    "max_features": None,
    "tree_rows": "all",
}
_OURS = {"n_estimators": 10, "max_depth": 4, "max_features": 2, "max_cells": BINS}
_WEIGHTS = {0: 1.0, 1: 3.0}  # public: about a quarter of customers leave


def grown(deal: Deal, seed: int, **settings: Any) -> Any:
    """Grow a forest over two parties."""
    X, y = telco()
    forest = HorizontalForestClassifier(random_state=seed, class_weight=_WEIGHTS, **settings)
    return forest.fit(X.iloc[deal.train], y[deal.train], party=deal.party[deal.train])


def judged(repetitions: int, **settings: Any) -> dict[str, float]:
    """Return the mean scores on the rows of C1, and what the forest cost the worst record."""
    found = []
    for seed in range(repetitions):
        deal = Deal.of(2, seed)
        forest = grown(deal, seed, **settings)
        found.append(scores(forest, deal.of_party(0).test) | total(forest))
    return pd.DataFrame(found).mean().to_dict()


def total(forest: Any) -> dict[str, float]:
    """Return the composed epsilon of a forest, as the ledger of the first party shows it."""
    if not forest.ledger_:
        return {}
    privacy = forest.report_.settings["privacy"]
    ledger = next(iter(forest.ledger_.values()))
    return {"total": float(ledger.spent(privacy["job"], _UNIT[privacy["mechanism"]]))}


def swept(epsilons: Sequence[float], repetitions: int) -> list[dict[str, Any]]:
    """Return a line for every mode and epsilon."""
    ways = {
        ("noisy_histograms", "epsilon_per_count"): _PAPER,
        ("perturbed_input", "epsilon_per_count"): {"n_estimators": N_TREES, "max_depth": DEPTH},
        ("noisy_histograms", "epsilon"): _OURS,
        ("perturbed_input", "epsilon"): {"n_estimators": N_TREES, "max_depth": DEPTH},
    }
    return [
        {"mechanism": mechanism, "given as": name, "epsilon": epsilon}
        | judged(repetitions, mechanism=mechanism, **{name: epsilon}, **settings)
        for (mechanism, name), settings in ways.items()
        for epsilon in epsilons
    ]


def without_noise(repetitions: int) -> dict[str, float]:
    """Return the scores that are to be had without noise, over the same public bins."""
    settings = {key: value for key, value in _PAPER.items() if key != "tree_rows"}
    return judged(repetitions, binning="ranges", **settings)


def draw(lines: list[dict[str, Any]], exact: dict[str, float]) -> None:
    """Write the picture."""
    pyplot = import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(2, 2, figsize=(12, 9), layout="constrained", sharex=True)
    frame = pd.DataFrame(lines)
    titles = {
        "epsilon_per_count": "epsilon of one count or column, as in the paper (at points: total)",
        "epsilon": "epsilon of the whole forest",
    }
    for column, (given, title) in enumerate(titles.items()):
        for row, score in enumerate(("auc", "f1")):
            axis = axes[row, column]
            for mechanism, part in frame[frame["given as"] == given].groupby("mechanism"):
                axis.semilogx(part["epsilon"], part[score], "o-", label=mechanism)
                if given == "epsilon_per_count":
                    _note_totals(axis, part, score, above=mechanism == "noisy_histograms")
            axis.axhline(exact[score], color="grey", linestyle=":", label="no noise")
            axis.set(ylabel=score.upper(), title=title if row == 0 else "")
            axis.set_xlabel("epsilon" if row else "")
            axis.legend()
    figure.savefig(RESULTS / "papers_s1_private.png", dpi=120)
    pyplot.close(figure)


def _note_totals(axis: Any, part: pd.DataFrame, score: str, *, above: bool) -> None:
    """Write beside some points what the whole forest cost."""
    shown = part[part["epsilon"].isin([0.001, 0.01, 0.1, 1.0, 5.0, 100.0])]
    for epsilon, height, total in shown[["epsilon", score, "total"]].itertuples(index=False):
        text = f"{total / 1000:.3g}k" if total >= 1000 else f"{total:.3g}"
        place = {"xytext": (0, 7 if above else -14), "textcoords": "offset points", "ha": "center"}
        axis.annotate(text, (epsilon, height), fontsize=8, **place)


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__)
    repetitions = 1 if asked.fast else REPETITIONS
    lines, exact = swept(EPSILONS, repetitions), without_noise(repetitions)
    tables = {
        f"Telco churn, 2 parties, {mechanism}, {given} (figure {figure})": [
            {key: value for key, value in line.items() if key not in {"mechanism", "given as"}}
            for line in lines
            if (line["mechanism"], line["given as"]) == (mechanism, given)
        ]
        for given in ("epsilon_per_count", "epsilon")
        for mechanism, figure in (("perturbed_input", 6), ("noisy_histograms", 7))
    }
    tables["without noise"] = [exact]
    for title, rows in tables.items():
        table(title, rows)
    save("papers_s1_private", f"mean of {repetitions} repetitions", tables)
    draw(lines, exact)
    assert np.isfinite([line["auc"] for line in lines]).all()


if __name__ == "__main__":
    main()
