"""Clinics that promise every patient an epsilon (S3, and better).

Noise hides each patient; each clinic's ledger pays for it before anything leaves. The private
forest spends the whole budget on leaf counts, once. Ranges and classes must be public: here they
are declared.
"""

import numpy as np
from matplotlib import pyplot as plt

from spinney import PrivateForestClassifier, deal_rows
from spinney.tables.schema import Column, Label, Schema

random = np.random.default_rng(0)
n = 3000
X = np.column_stack([random.uniform(18, 90, n), random.uniform(0, 30, n)])
y = np.where(X[:, 0] + 2 * X[:, 1] + random.normal(0, 10, n) > 85, "back", "home")
schema = Schema(
    (Column("x0", "number", (18, 90)), Column("x1", "number", (0, 30))),
    Label("y", "class", ("back", "home")),
)
clinic = deal_rows(y, n_parties=3, random_state=0)
for epsilon in (0.5, 2.0, 8.0):
    forest = PrivateForestClassifier(epsilon, schema=schema, n_rows=n, random_state=0)
    forest.fit(X, y, party=clinic)
    print(f"epsilon {epsilon}: {forest.score(X, y):.3f}")
print(forest.report_)
forest.report_.plot_budget()
plt.savefig("03_private_clinics.png")
