"""Cuts drawn at random from public ranges: nothing is read from the data to place them (S5).

Extra-trees ask for counts beside cuts that the coordinator drew in the public box. With
`label_privacy` the labels themselves are randomised once, at home.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_iris

from spinney import ExtraTreesClassifier, deal_rows
from spinney.tables.schema import Column, Label, Schema

X, y = load_iris(return_X_y=True)
names = ("setosa", "versicolor", "virginica")
schema = Schema(
    tuple(Column(f"x{i}", "number", (0, 10)) for i in range(4)), Label("y", "class", names)
)
species = np.array(names)[y]
herbarium = deal_rows(species, n_parties=3, random_state=0)
forest = ExtraTreesClassifier(30, max_depth=5, schema=schema, random_state=0)
forest.fit(X, species, party=herbarium)
print(f"right on its own rows: {forest.score(X, species):.3f}")
print(forest.report_)
forest.report_.plot_tree(0)
plt.savefig("05_random_cuts.png")
