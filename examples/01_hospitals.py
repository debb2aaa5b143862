"""Hospitals with the same columns and different patients grow one forest (S1).

Five hospitals each hold a fifth of the patients. Alone, each has few of them. Together they answer
a few questions with counts, and get the forest that all rows in one place would have given.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from spinney import HorizontalForestClassifier, deal_rows

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, X_new, y, y_new = train_test_split(X, y, random_state=0, stratify=y)
hospital = deal_rows(y, n_parties=5, random_state=0)

together = HorizontalForestClassifier(30, max_depth=6, random_state=0)
together.fit(X, y, party=hospital)
pooled = HorizontalForestClassifier(30, max_depth=6, random_state=0).fit(X, y)
alone = [
    HorizontalForestClassifier(30, max_depth=6, random_state=0)
    .fit(X[hospital == h], y[hospital == h])
    .score(X_new, y_new)
    for h in range(5)
]
print(f"alone     {sum(alone) / 5:.3f} on average")
print(f"together  {together.score(X_new, y_new):.3f}")
print(f"the pooled forest, bit for bit: {together.model_.to_bytes() == pooled.model_.to_bytes()}")
print(together.report_)
together.report_.plot_importances()
plt.savefig("01_hospitals.png")
together.report_.to_html("01_hospitals.html", together.model_)
