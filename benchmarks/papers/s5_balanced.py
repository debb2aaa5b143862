"""Classes made even before rows are divided: a guess at how S5 came to its scores of two classes.

Rows of the rarer class are drawn between neighbours of that class (SMOTE; Chawla and others 2002),
so that test rows are drawn, too, and near training rows. No way to judge a learner; the paper does
not mention it.
"""

import numpy as np
from sklearn.neighbors import NearestNeighbors

_NEIGHBOURS = 5


def balanced(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the table with drawn rows of the rarer class, as many as are missing."""
    random = np.random.RandomState(seed)
    classes, counts = np.unique(y, return_counts=True)
    rarer, n = classes[counts.argmin()], counts.max() - counts.min()
    own = X[y == rarer]
    near = NearestNeighbors(n_neighbors=_NEIGHBOURS + 1).fit(own).kneighbors(own)[1][:, 1:]
    first = random.randint(len(own), size=n)
    second = near[first, random.randint(_NEIGHBOURS, size=n)]
    drawn = own[first] + random.uniform(size=(n, 1)) * (own[second] - own[first])
    return np.vstack([X, drawn]), np.concatenate([y, np.full(n, rarer)])
