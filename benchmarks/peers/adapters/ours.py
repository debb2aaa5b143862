"""Spinney: forests over parties, and private trees and forests with public ranges."""

import numpy as np

import spinney
from spinney.tables.schema import Column, Label, Schema

_RANGE = (-6.0, 6.0)  # clusters lie at corners of a cube of side 2


def trained(rows, *, learner, **settings):
    """Return how the joint model predicts, and the bytes of all parties both ways."""
    if "epsilon" in settings:
        columns = tuple(Column(f"x{j}", "number", _RANGE) for j in range(rows["X"].shape[1]))
        settings["schema"] = Schema(columns, Label("class", "class", (0, 1)))
    model = getattr(spinney, learner)(**settings)
    model.fit(rows["X"].astype(np.float32), rows["y"], party=rows["party"])
    report = model.report_
    moved = sum(report.bytes_up.values()) + sum(report.bytes_down.values())
    return model.predict, {"bytes": moved, "version": spinney.__version__}
