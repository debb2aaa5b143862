"""How the files in `data/0.2.0` were made; run once, at Spinney 0.2.0.

Not a test: files of a released version are never written again.
"""

import json
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd

from spinney import (
    HorizontalBoostingClassifier,
    HorizontalForestClassifier,
    PrivateTreeClassifier,
    load_model,
)
from spinney.privacy.accounting import JobTerms
from spinney.privacy.intersection import PsiClient
from spinney.privacy.ledger import Ledger
from spinney.privacy.schemes import new_key
from spinney.tables.schema import Column, Label, Schema

DATA = Path(__file__).parent / "data" / "0.2.0"
IDS = ["ann", "bob", "cem"]
NUMBERS = [0, 1, 2**40]


def rows():
    """Return a small table and its labels."""
    random = np.random.RandomState(2)
    X = pd.DataFrame(np.round(random.random_sample((60, 3)) * 10, 2), columns=["a", "b", "c"])
    return X, np.where(X["a"] + X["b"] > 10, "yes", "no")


def main():
    """Write the files."""
    DATA.mkdir()
    X, y = rows()
    columns = tuple(Column(name, "number", range=(0, 10)) for name in ("a", "b", "c"))
    schema = Schema(columns, Label("left", "class", ("no", "yes")))
    party = np.array(["north", "south", "east"])[np.arange(60) % 3]
    how = {"max_depth": 3, "schema": schema}
    seed = {"random_state": 1}
    models = {
        "forest": HorizontalForestClassifier(3, **how, **seed).fit(X, y, party=party),
        "boosting": HorizontalBoostingClassifier(max_iter=3, **how, **seed).fit(X, y, party=party),
        "private": PrivateTreeClassifier(epsilon=2.0, **how).fit(X, y, party=party),
    }
    expected = {}
    for name, model in models.items():
        model.save(DATA / f"{name}.spinney")
        model.report_.save(DATA / f"{name}.json")
        saved = load_model(DATA / f"{name}.spinney")  # hardened: what leaves is not what was grown
        expected[name] = saved.predict_proba(X).tolist()
    keys = {}
    for scheme in ("okamoto-uchiyama", "paillier"):
        key = new_key(scheme, 2048)
        keys[scheme] = {
            "public": key.public_key.hex(),
            "secret": key.secret_key.hex(),
            "sent": key.dump(key.encrypt(NUMBERS)).hex(),
        }
    client = PsiClient(IDS)
    asked = {"key": client.key.hex(), "request": sha256(client.request()).hexdigest()}
    told = {"predictions": expected, "keys": keys, "request": asked}
    (DATA / "expected.json").write_text(json.dumps(told), encoding="utf-8")
    with closing(Ledger.open(DATA / "ledger.db", "north")) as ledger:
        ledger.open_job(JobTerms("run 1", "table", 3, 1))


if __name__ == "__main__":
    main()
