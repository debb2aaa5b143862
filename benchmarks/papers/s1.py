"""S1 (Kalloori and Klingler): what a party gains by joining, by noise, and by bins.

Rows are dealt in equal class shares to 2, 5 or 10 parties, 80 % of each for training, five
repetitions. Joint and local forests are compared twice: with the same settings ("alike"), and each
with settings of its own, chosen on a fifth of its training rows as in the paper, and with the share
from which a customer counts as leaving, as the score is F1 ("tuned"). KKbox (figure 4)
is too large for ../shared/data: S5's bank table, also customers, stands in. The publishers' data
(figure 5) are not public.

The paper's epsilon is that of one count (figure 7) or of one column (figure 6); beside it stands
the total of the parties' ledgers. The same modes are then run with epsilon for the whole forest.
"""

from itertools import product
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_curve

from papers.experiment import Experiment, Found, Paper
from papers.s1_rows import Deal
from spinney.privacy.budget import Unit

EPSILONS = (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 1.0, 3.0, 5.0, 100.0)
BINS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
MODES = ("perturbed_input", "noisy_histograms")  # figures 6 and 7
GIVEN = ("epsilon_per_count", "epsilon")
N_TREES, DEPTH, CELLS = 20, 6, 8  # of private forests
_WEIGHTS = {0: 1.0, 1: 3.0}  # public: about a quarter of customers leave
_ALIKE = {"n_estimators": 100, "class_weight": "balanced", "max_depth": 12}
_CHOICES = tuple(product((6, 8, 10, 12), (1, 5)))  # max_depth, min_samples_leaf
_BY_BINS = {"n_estimators": 100, "class_weight": "balanced", "max_depth": 8}
_PAPER = {  # all features in every node, as in the paper; all rows in every tree
    "n_estimators": N_TREES,
    "max_depth": DEPTH,
    "max_cells": CELLS,
    "max_features": None,
}
_PRIVATE: dict[tuple[str, str], dict[str, Any]] = {
    ("noisy_histograms", "epsilon_per_count"): {**_PAPER, "tree_rows": "all"},
    ("perturbed_input", "epsilon_per_count"): {"n_estimators": N_TREES, "max_depth": DEPTH},
    ("noisy_histograms", "epsilon"): {
        "n_estimators": 10,
        "max_depth": 4,
        "max_features": 2,
        "max_cells": CELLS,
    },
    ("perturbed_input", "epsilon"): {"n_estimators": N_TREES, "max_depth": DEPTH},
}
_UNIT = {
    "noisy_histograms": Unit.RECORD_ADD_REMOVE,
    "perturbed_input": Unit.RECORD_REPLACE,
}


def joined(*, data: str, settings: str, n_parties: int, repetition: int) -> Found:
    """Return each party's scores with the joint forest and with its own, on its test rows."""
    how = {"alike": _alike, "tuned": _tuned}[settings]
    deal = Deal.of(data, n_parties, repetition)
    joint, joint_least = how(deal, joint=True, seed=repetition)
    parties = []
    for party in deal.parties:
        own = deal.of_party(party)
        local, least = how(own, joint=False, seed=repetition)
        found = [own.shares(joint, own.test) >= joint_least, own.shares(local, own.test) >= least]
        kinds = 4 * own.truth(own.test) + 2 * found[0] + found[1]
        parties.append(
            {
                "federated": own.scores(joint, joint_least),
                "local": own.scores(local, least),
                "kinds": np.bincount(kinds, minlength=8).tolist(),  # truth, federated, local
            }
        )
    return {"parties": parties}


def _alike(deal: Deal, *, joint: bool, seed: int) -> tuple[Any, float]:
    return deal.grown(deal.train, joint=joint, seed=seed, **_ALIKE), 0.5


def _tuned(deal: Deal, *, joint: bool, seed: int) -> tuple[Any, float]:
    """Choose settings and the least share by F1 on the validation rows; grow on all rows."""
    tried = []
    for depth, leaf in _CHOICES:
        settings = {**_ALIKE, "max_depth": depth, "min_samples_leaf": leaf}
        forest = deal.grown(deal.fit, joint=joint, seed=seed, **settings)
        found = deal.shares(forest, deal.validation)
        tried.append((*_best_share(deal.truth(deal.validation), found), settings))
    _, least, settings = max(tried, key=lambda one: one[0])
    return deal.grown(deal.train, joint=joint, seed=seed, **settings), least


def _best_share(truth: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """Return the best F1 that any least share gives, and that share."""
    precision, recall, least = precision_recall_curve(truth, found)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-9)
    best = int(np.argmax(f1[:-1]))
    return float(f1[best]), float(least[best])


def by_bins(*, bins: int, repetition: int) -> Found:
    """Return the mean scores of two parties by the bins of the paper's own histograms."""
    deal = Deal.of("telco", 2, repetition)
    settings = {"binning": "adaptive", "max_bins": bins, **_BY_BINS}
    forest = deal.grown(deal.train, joint=True, seed=repetition, **settings)
    found = [deal.of_party(party).scores(forest) for party in deal.parties]
    return {score: float(np.mean([one[score] for one in found])) for score in ("f1", "auc")}


def private(*, mechanism: str, given: str, epsilon: float, repetition: int) -> Found:
    """Return the scores on the rows of C1, and what the forest cost a record in all."""
    deal = Deal.of("telco", 2, repetition)
    settings = {"mechanism": mechanism, given: epsilon, **_PRIVATE[mechanism, given]}
    forest = deal.grown(deal.train, joint=True, seed=repetition, class_weight=_WEIGHTS, **settings)
    ledger = next(iter(forest.ledger_.values()))
    total = ledger.spent(forest.report_.settings["privacy"]["job"], _UNIT[mechanism])
    return deal.of_party(0).scores(forest) | {"total": float(total)}


def without_noise(*, repetition: int) -> Found:
    """Return the scores that are to be had without noise, over the same public bins."""
    deal = Deal.of("telco", 2, repetition)
    settings = {"binning": "ranges", "class_weight": _WEIGHTS, **_PAPER}
    forest = deal.grown(deal.train, joint=True, seed=repetition, **settings)
    return deal.of_party(0).scores(forest)


_TELCO = {"data": ["telco"]}
PAPER = Paper(
    name="s1",
    title="Cross-Silo Federated Learning based Decision Trees",
    experiments=(
        Experiment(
            "joined",
            "Figures 1 to 4",
            joined,
            full=(
                {
                    "repetition": range(5),
                    **_TELCO,
                    "settings": ["alike", "tuned"],
                    "n_parties": [2, 5, 10],
                },
                {
                    "repetition": range(5),
                    "data": ["bank_additional_full"],
                    "settings": ["alike", "tuned"],
                    "n_parties": [2],
                },
            ),
            fast=(
                {
                    "repetition": range(2),
                    **_TELCO,
                    "settings": ["alike"],
                    "n_parties": [2, 5, 10],
                },
            ),
        ),
        Experiment(
            "private",
            "Figures 6 and 7",
            private,
            full=(
                {
                    "repetition": range(5),
                    "mechanism": MODES,
                    "given": GIVEN,
                    "epsilon": EPSILONS,
                },
            ),
            fast=(
                {
                    "repetition": range(1),
                    "mechanism": MODES,
                    "given": GIVEN,
                    "epsilon": [0.01, 0.1, 1.0, 100.0],
                },
            ),
            needs=lambda _: "telco",
        ),
        Experiment(
            "without_noise",
            "Figures 6 and 7",
            without_noise,
            full=({"repetition": range(5)},),
            fast=({"repetition": range(1)},),
            needs=lambda _: "telco",
        ),
        Experiment(
            "by_bins",
            "Figure 8",
            by_bins,
            full=({"repetition": range(5), "bins": BINS},),
            fast=({"repetition": range(1), "bins": [2, 8, 32]},),
            needs=lambda _: "telco",
        ),
    ),
)
