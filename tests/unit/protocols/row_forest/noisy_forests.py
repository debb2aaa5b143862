"""Tables, jobs and parties of forests with noise on their histograms, for tests."""

from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spinney.privacy import entropy
from spinney.privacy.budget import Unit
from spinney.privacy.ledger import Ledger
from spinney.protocols import horizontal_forest
from spinney.protocols.horizontal_forest.party import Party
from spinney.protocols.secure_sums.simulated import secure_parties
from spinney.protocols.settings import ForestSettings, PrivacySettings
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable
from spinney.transport.in_process import InProcess

RECORD = Unit.RECORD_ADD_REMOVE
N = 900
COLUMNS = (
    Column("age", "number", (0, 100)),
    Column("income", "number", (-3, 3)),
    Column("ward", "category", categories=("eye", "heart", "lung")),
    Column("smokes", "boolean"),
)
LABELS = {
    2: Label("ill", "class", ("no", "yes")),
    3: Label("ill", "class", ("no", "maybe", "yes")),
    0: Label("days", "number", range=(0.0, 50.0)),
}


def table(n_classes=2, n=N, seed=0):
    """Return rows of every kind of column, all with gaps, and labels that follow from them."""
    random = np.random.RandomState(seed)
    age = random.uniform(0, 100, n)
    income = random.standard_normal(n).clip(-3, 3)
    ward, smokes = random.randint(0, 3, n), random.randint(0, 2, n)
    score = age / 50 + (ward == 1) + smokes + 0.2 * random.standard_normal(n)
    target: Any = np.digitize(
        score, np.quantile(score, [1 / n_classes, 0.66][: n_classes - 1] if n_classes else [])
    )
    if n_classes == 0:
        target = (score * 10).clip(0, 50)
    vectors = [column.astype(np.float32) for column in (age, income, ward, smokes)]
    for vector in vectors:
        vector[random.random_sample(n) < 0.05] = np.nan
    target = target.astype(np.int32 if n_classes else np.float64)
    return MemoryTable(Schema(COLUMNS, LABELS[n_classes]), VectorColumns(tuple(vectors)), target)


def job(n_classes=2, changes: Any = None, **privacy: Any) -> horizontal_forest.Settings:
    facts: dict[str, Any] = {
        "task": "classification" if n_classes else "regression",
        "criterion": "gini" if n_classes else "squared_error",
        "n_estimators": 3,
        "max_depth": 3,
        "max_features": 2,
        "max_bins": 16,
        "binning": "ranges",
        "bootstrap": False,
        "seed": 1,
    }
    if "epsilon_per_count" not in privacy:
        privacy = {"epsilon": "1"} | privacy
    return horizontal_forest.Settings(
        **facts | (changes or {}), privacy=PrivacySettings(job="q", **privacy)
    )


def dealt(whole, n_parties=2):
    return {str(k): whole.select(np.arange(k, N, n_parties)) for k in range(n_parties)}


def parties_of(whole, n_parties=2, ledgers=None):
    ledgers = ledgers or {name: Ledger.in_memory(name) for name in dealt(whole, n_parties)}
    made: dict[str, Any] = {
        name: Party(part, ledger=ledgers[name]) for name, part in dealt(whole, n_parties).items()
    }
    return made, ledgers


def trained(settings, whole, n_parties=2, **channel):
    made, ledgers = parties_of(whole, n_parties)
    return horizontal_forest.train(InProcess(made, **channel), settings), ledgers


def exact_model(settings, whole):
    """Return the forest that one table without noise would grow if its nodes did not draw on.

    With noise they do not: nobody knows where rows are alike.
    """
    channel = InProcess({"all": Party(whole)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ForestSettings, "goes_on", False)
        return horizontal_forest.train(channel, replace(settings, privacy=None)).model


def masked(made):
    """Return a channel that shows sums only, and only over all parties."""
    return secure_parties(
        made, InProcess, horizontal_forest.SUMMED, job="q", min_survivors=len(made)
    )


class Noting:
    """A party that notes what it is asked and what it answers."""

    def __init__(self, party, asked=None):
        self.party, self.asked = party, [] if asked is None else asked

    def answer(self, ask):
        reply = self.party.answer(ask)
        self.asked.append((ask, reply))
        return reply


def asked_of_one(settings, whole=None):
    """Train with one party; return what it was asked, with its ledger and its table."""
    whole = whole or table()
    ledger = Ledger.in_memory("one")
    party = Noting(Party(whole, ledger=ledger))
    horizontal_forest.train(InProcess({"one": party}), settings)
    return party.asked, ledger, whole


@contextmanager
def no_randomness(monkeypatch):
    """Fail if any randomness is drawn within."""
    with monkeypatch.context() as patch:
        for name in ("words", "secret_bytes"):
            patch.setattr(entropy, name, lambda _: pytest.fail("randomness was drawn"))
        yield


def renamed(settings, name):
    return replace(settings, privacy=replace(settings.privacy, job=name))
