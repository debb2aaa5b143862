"""Small parties of vertical jobs, honest and lying, for the tests beside."""

import numpy as np
import pandas as pd

from spinney import VerticalForestClassifier
from spinney.protocols import vertical_forest
from spinney.protocols.settings import ForestSettings
from spinney.tables.columns import VectorColumns
from spinney.tables.holding import Holding
from spinney.tables.schema import Column, Label
from spinney.transport.in_process import InProcess

N = 60
NAMES = ["age", "income", "visits"]


def frame():
    random = np.random.RandomState(0)
    X = pd.DataFrame(random.standard_normal((N, 3)), columns=NAMES)
    return X, (X["age"] + X["visits"] > 0).astype(int).to_numpy()


PARTIES = {"bank": ["age", "income"], "shop": ["visits"]}


def fitted(**changes):
    X, y = frame()
    given = {"column_party": PARTIES, "label_party": "bank", "random_state": 0, "max_depth": 3}
    return VerticalForestClassifier(3, **(given | changes)).fit(X, y)


def holding(names, *, label=False, n=N, classes=("no", "yes")):
    X, y = frame()
    columns = tuple(Column(name, "number") for name in names)
    cells = tuple(X[name].to_numpy(np.float32)[:n] for name in names)
    values = VectorColumns(cells) if names else None
    facts = Label("y", "class", classes) if label else None
    return Holding(n, columns, values, facts, y[:n].astype(np.int32) if label else None)


def job(**changes):
    forest = ForestSettings(task="classification", n_estimators=2, max_depth=3)
    return vertical_forest.Settings(**({"forest": forest} | changes))


def trained(sides, **changes):
    how = {name: changes.pop(name) for name in ("owners",) if name in changes}
    return vertical_forest.train(InProcess(sides), job(**changes), **how)


def side(*names, label=False, n=N, **how):
    return vertical_forest.Party(holding(list(names), label=label, n=n), **how)


class Lying:
    """A party that changes one kind of reply."""

    def __init__(self, honest, kind, change):
        self.honest, self.kind, self.change = honest, kind, change

    def answer(self, ask):
        reply = self.honest.answer(ask)
        return self.change(reply) if isinstance(ask, self.kind) else reply


def lied(kind, change, **changes):
    sides = {"bank": side("age", label=True), "shop": Lying(side("visits"), kind, change)}
    return trained(sides, **changes)
