"""Evolved trees: the time of a job, and that it grows with rows, population and generations.

The job of issue 7: 20 parties with 20,000 rows together, depth 8, 20 structures, 100 generations.
Growth is measured in CPU time on one thread, which others hardly disturb.
Run: python benchmarks/bench_evolved.py [--fast]
"""

import warnings
from typing import Any

import numpy as np

from data import drawn
from harness import arguments, interleaved, save, table, timed, timed_by_cpu
from spinney import GeneticTreeClassifier, deal_rows
from spinney.errors import PrivacyLeakWarning

_DEPTH = 8


def fitted(n_rows: int, size: int, generations: int, **how: Any) -> GeneticTreeClassifier:
    """Evolve trees of depth 8 over 20 parties."""
    rows = drawn(n_rows, 20, n_test=0)
    site = deal_rows(rows.y, 20, random_state=0)
    model = GeneticTreeClassifier(
        size, n_generations=generations, min_depth=_DEPTH, max_depth=_DEPTH, random_state=0, **how
    )
    return model.fit(rows.X, rows.y, party=site)


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__)
    n_rows, generations = (2_000, 5) if asked.fast else (20_000, 100)
    fitted(1000, 4, 2)  # kernels are compiled
    whole = []
    for secure in (False, True):
        sample, _ = timed(lambda secure=secure: fitted(n_rows, 20, generations, secure_sum=secure))
        whole.append(
            {
                "masked": secure,
                "rows": n_rows,
                "generations": generations,
                "seconds": sample.seconds,
                "CPU seconds": sample.cpu,
                "others' share": sample.foreign,
            }
        )
    table("20 parties, depth 8, 20 structures", whole)
    base = (n_rows // 2, 10, max(2, generations // 5))
    cases = {
        "base": base,
        "rows x 2": (2 * base[0], base[1], base[2]),
        "structures x 2": (base[0], 2 * base[1], base[2]),
        "generations x 2": (base[0], base[1], 2 * base[2]),
    }
    samples, _ = interleaved(
        {name: lambda size=size: fitted(*size, n_jobs=1) for name, size in cases.items()},
        1 if asked.fast else 3,
        clock=timed_by_cpu,
    )
    medians = {name: float(np.median([s.cpu for s in found])) for name, found in samples.items()}
    growth = [
        {"case": name, "CPU seconds": cpu, "of base": cpu / medians["base"]}
        for name, cpu in medians.items()
    ]
    table("growth", growth)
    save("bench_evolved", "one job; medians of CPU time", {"job": whole, "growth": growth})


if __name__ == "__main__":
    main()
