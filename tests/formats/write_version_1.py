"""How the files of format version 1 in `data/` were made; run once, at Spinney 0.1.0.

Not a test: files of a released version are never written again. A new version gets a script and
files of its own, and the old ones stay and must load.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.tables.schema import Column, Label, Schema

DATA = Path(__file__).parent / "data"


def patients(n=80):
    """Return a table with a number, a number with gaps, a boolean and a category."""
    random = np.random.RandomState(1)
    age = random.randint(0, 99, n).astype(float)
    stay = np.round(random.standard_exponential(n) * 4, 2)
    stay[random.random_sample(n) < 0.25] = np.nan
    smokes = random.random_sample(n) < 0.4
    ward = random.choice(["eye", "heart", "knee", "skin"], n)
    risk = age / 50 + smokes + (ward == "heart") + 0.3 * random.standard_normal(n)
    X = pd.DataFrame({"age": age, "stay": stay, "smokes": smokes, "ward": ward})
    return X, np.digitize(risk, [0.9, 1.8]), np.round(risk, 3)


def main():
    """Write the files."""
    X, classes, risk = patients()
    columns = (
        Column("age", "number", range=(0, 100)),
        Column("stay", "number", range=(0, 30)),
        Column("smokes", "boolean"),
        Column("ward", "category", categories=("eye", "heart", "knee", "skin")),
    )
    party = np.array(["north", "south"])[np.arange(80) % 2]
    names = np.array(["low", "middle", "high"])
    label = Label("risk", "class", ("low", "middle", "high"))
    classifier = HorizontalForestClassifier(4, max_depth=4, random_state=1)
    classifier.set_params(schema=Schema(columns, label)).fit(X, names[classes], party=party)
    label = Label("risk", "number", range=(-1, 5))
    regressor = HorizontalForestRegressor(3, max_depth=4, random_state=1)
    regressor.set_params(schema=Schema(columns, label)).fit(X, risk, party=party)
    classifier.save(DATA / "classifier-1.spinney")
    regressor.save(DATA / "regressor-1.spinney")
    classifier.report_.save(DATA / "report-1.json")
    rows = X.astype(object).where(X.notna(), None).to_dict("list")
    expected = {
        "rows": rows,
        "classes": classifier.predict(X).tolist(),
        "shares": classifier.predict_proba(X).tolist(),
        "risks": regressor.predict(X).tolist(),
    }
    (DATA / "predictions-1.json").write_text(json.dumps(expected), encoding="utf-8")


if __name__ == "__main__":
    main()
