"""A bank and a shop know different things about the same customers (S2).

The bank knows who defaulted. Neither sees the other's columns; each keeps its own part of the
forest. Joining the parts needs the consent of both. The report says how many labels the shop can
guess from which rows share a leaf: read it before you call this private.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from spinney import VerticalForestClassifier

random = np.random.default_rng(0)
n = 400
customers = pd.DataFrame(
    {
        "income": random.normal(40, 10, n),
        "debt": random.gamma(2.0, 5.0, n),
        "basket": random.gamma(3.0, 10.0, n),
        "returns": random.integers(0, 9, n).astype(float),
    }
)
risk = 0.15 * customers["debt"] - 0.08 * customers["income"] + 0.4 * customers["returns"]
defaulted = np.where(risk + random.normal(0, 0.6, n) > 1.0, "yes", "no")

columns = {"bank": ["income", "debt"], "shop": ["basket", "returns"]}
forest = VerticalForestClassifier(
    10, max_depth=4, column_party=columns, label_party="bank", consent="all", random_state=0
)
forest.fit(customers, defaulted)
print(f"right on its own rows: {forest.score(customers, defaulted):.3f}")
print(forest.report_)
names, shares = forest.model_.schema.names, forest.feature_importances_
plt.barh(names, shares)
plt.xlabel("share in the drop of impurity")
plt.savefig("02_bank_and_shop.png")
