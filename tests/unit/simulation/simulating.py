"""Run a simulation, and fit the estimator it should equal; for tests."""

import json

import numpy as np
import pandas as pd

from spinney import HorizontalForestClassifier
from spinney.protocols.release_terms import Hardening
from spinney.report.door import release
from spinney.tables.schema import Column, Label, Schema

SCHEMA = Schema(
    (
        Column("age", "number", (0, 110)),
        Column("ward", "category", categories=("eye", "ear")),
    ),
    Label("ill", "class", ("no", "yes")),
)


def simulated(place, *arguments):
    told = place.run("simulate", "job.toml", "--json", *arguments)
    assert told.exit_code == 0, told.stderr
    return json.loads(told.stdout)


def fitted(path, **settings):
    """Return the bytes of the estimator's model over all rows of a CSV file, as it leaves."""
    frame = pd.read_csv(path)
    y = frame.pop("ill")
    forest = HorizontalForestClassifier(
        4, max_depth=3, schema=SCHEMA, random_state=0, n_jobs=1, min_samples_leaf=5, **settings
    )
    forest_model = forest.fit(frame, y, party=np.arange(len(y)) % 3).model_
    return release(forest_model, Hardening())[0].to_bytes()
