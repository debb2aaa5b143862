"""Extra-trees over five parties against scikit-learn's, in one interleaved run.

200,000 x 30, 100 trees, depth 10. Also with randomised labels (k-ary, epsilon 2), which may take at
most 3 times as long. On a busy machine `--one-thread 1` compares CPU time on one thread.
Run: python benchmarks/bench_extra_trees.py [--fast] [--one-thread 1]
"""

import warnings
from typing import Any

from sklearn.ensemble import ExtraTreesClassifier as Theirs

from data import drawn
from harness import arguments, foreign, interleaved, median, ratio, save, table, timed, timed_by_cpu
from spinney import ExtraTreesClassifier, deal_rows
from spinney.errors import PrivacyLeakWarning

DEPTH, N_TREES, N_PARTIES = 10, 100, 5
FLOOR, MOST_LOCAL = 5.0, 3.0


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, one_thread=0, repeats=5)
    split = drawn(20_000 if asked.fast else 200_000, n_test=20_000)
    site = deal_rows(split.y, N_PARTIES, random_state=0)
    jobs = 1 if asked.one_thread else None

    def ours(**how: Any) -> Any:
        forest = ExtraTreesClassifier(N_TREES, max_depth=DEPTH, random_state=0, n_jobs=jobs, **how)
        return forest.fit(split.X, split.y, party=site)

    def theirs() -> Any:
        forest = Theirs(N_TREES, max_depth=DEPTH, random_state=0, n_jobs=jobs or -1)
        return forest.fit(split.X, split.y)

    cases = {
        "spinney": ours,
        "spinney, local": lambda: ours(label_privacy="local"),
        "scikit-learn": theirs,
    }
    for case in cases.values():
        case()  # kernels are compiled, threads begun
    clock = timed_by_cpu if asked.one_thread else timed
    samples, models = interleaved(cases, 2 if asked.fast else asked.repeats, clock=clock)
    rows = [
        {
            "model": name,
            "seconds": median(samples[name]),
            "times spinney": ratio(samples[name], samples["spinney"]),
            "foreign CPU": foreign(samples[name]),
            "accuracy": models[name].score(split.X_test, split.y_test),
        }
        for name in cases
    ]
    unit = "CPU seconds on one thread" if asked.one_thread else "seconds"
    title = f"{len(split.X):,} x 30, {N_TREES} trees, depth {DEPTH}, 5 parties, {unit}"
    table(title, rows)
    faster, slower = rows[2]["times spinney"], rows[1]["times spinney"]
    print(f"\n{faster:.1f} times faster than scikit-learn (at least {FLOOR:g}); randomised labels")
    print(f"take {slower:.2f} times as long (at most {MOST_LOCAL:g})")
    save("bench_extra_trees", "median, ratios by turn", {title: rows}, samples=samples)
    assert asked.fast or (faster >= FLOOR and slower <= MOST_LOCAL)


if __name__ == "__main__":
    main()
