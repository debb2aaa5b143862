"""What an epsilon costs: a private forest on adult, split among five parties.

Measured: accuracy and AUC on rows that nobody trained on, mean and spread over repeats, beside the
same number of rows without noise. `docs/choosing-epsilon.md` has the table.
Run: python benchmarks/bench_choosing_epsilon.py [--fast]
"""

import warnings

import numpy as np
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

from data import shared
from harness import arguments, save, table
from spinney import HorizontalForestClassifier, PrivateForestClassifier, deal_rows

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
ROWS = (2_000, 10_000, 30_000)
N_PARTIES, REPEATS = 5, 5


def scored(forest, seed, n_rows):
    """Return accuracy and AUC of a forest on a quarter of the table."""
    X, y = shared("adult")
    train, test, labels, expected = train_test_split(X, y, test_size=0.25, random_state=seed)
    train, labels = train[:n_rows], labels[:n_rows]
    forest.fit(train, labels, party=deal_rows(labels, N_PARTIES, random_state=seed))
    shares = forest.predict_proba(test)
    best = forest.classes_.take(shares.argmax(axis=1))
    return accuracy_score(expected, best), roc_auc_score(expected, shares[:, 1])


def main():
    options = arguments(__doc__)
    repeats = 1 if options.fast else REPEATS
    warnings.simplefilter("ignore")  # ranges are read from the table, which is public
    found = []
    for n_rows in ROWS:
        for epsilon in (*EPSILONS, None):
            results = []
            for seed in range(repeats):
                if epsilon is None:
                    forest = HorizontalForestClassifier(
                        100, max_depth=10, min_samples_leaf=5, random_state=seed
                    )
                else:
                    forest = PrivateForestClassifier(
                        epsilon=epsilon, n_estimators=50, max_depth=8, random_state=seed
                    )
                results.append(scored(forest, seed, n_rows))
            mean, spread = np.mean(results, axis=0), np.std(results, axis=0)
            found.append(
                {
                    "rows": n_rows,
                    "epsilon": "no noise" if epsilon is None else epsilon,
                    "accuracy": round(float(mean[0]), 3),
                    "AUC": round(float(mean[1]), 3),
                    "spread of AUC": round(float(spread[1]), 3),
                }
            )
    table("Private forests on adult", found)
    save("choosing_epsilon", "mean over repeats", {"epsilons": found})


if __name__ == "__main__":
    main()
