"""Spinney: forests over parties, and private trees and forests with public ranges."""

import numpy as np

import spinney
from spinney.tables.schema import Column, Label, Schema

_RANGE = (-6.0, 6.0)  # clusters lie at corners of a cube of side 2


def trained(rows, *, seed, learner, **settings):
    """Return how the joint model predicts, and the bytes of all parties both ways."""
    if "epsilon" in settings:
        columns = tuple(Column(f"x{j}", "number", _RANGE) for j in range(rows["X"].shape[1]))
        settings["schema"] = Schema(columns, Label("class", "class", (0, 1)))
    if learner != "PrivateTreeClassifier":  # it draws nothing but noise
        settings["random_state"] = seed
    model = getattr(spinney, learner)(**settings)
    model.fit(rows["X"].astype(np.float32), rows["y"], party=rows["party"])

    def facts():
        report = model.report_
        moved = sum(report.bytes_up.values()) + sum(report.bytes_down.values())
        return {"bytes": moved, "rounds": report.rounds, "version": spinney.__version__}

    return model.predict, facts
