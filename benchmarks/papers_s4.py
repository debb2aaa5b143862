"""S4's experiment: what parties gain by evolved trees, over their own and over Truex's tree.

Of the paper's 28 tables 21 are in ../shared/data; others of that folder (*) stand in for the rest.
As in the paper: 90 % of the rows are dealt at random to N parties, 10 % judge everybody; numbers of
classification tables are cut at quantiles in 5 bins (Appendix A), categories stand by their codes;
Delta = 100 (score of the evolved tree / score of the party's own tree - 1), F1 or MSE. The sizes of
parties are noised with epsilon 1. Truex's tree has depth 6, all parties are honest, and epsilon is
1, or what S4's own account of the noise comes to (`papers_s4_runs.truex`). Every run is written
down as it ends, and what is written down is not run again.

Run: python benchmarks/papers_s4.py [--fast] [--splits 3] [--runs 3] [--minutes 0]
"""

import json
import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from harness import RESULTS, arguments, save, table
from papers_s4_runs import SETS, TRUEX, Run, done
from papers_s4_shown import drawn, summary
from spinney.errors import PrivacyLeakWarning

SETTINGS = ((20, 1.0), (20, 0.1), (20, 0.5), (20, 0.25), (10, 1.0), (30, 1.0), (5, 1.0), (15, 1.0))
_FAST = ("compas", "marketing", "abalone", "soil")


def runs(splits: int, repeats: int, *, fast: bool) -> Iterator[Run]:
    """Give all runs, those first on which most depends."""
    for n_parties, share in SETTINGS[:2] if fast else SETTINGS:
        for learner, (task, sets) in product(("evolved", *TRUEX), SETS.items()):
            if learner in TRUEX and task == "regression":
                continue
            for split, repeat, data in product(range(splits), range(repeats), sets):
                if not fast:
                    yield Run(task, data, n_parties, share, split, repeat, learner=learner)
                elif data in _FAST:
                    yield Run(task, data, n_parties, share, split, repeat, 20, learner)


def written(path: Path) -> dict[str, dict[str, Any]]:
    """Return what has been found, by run."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["key"]: line["found"] for line in lines}


def completed(wanted: list[Run], path: Path, minutes: float = 0.0) -> dict[str, dict[str, Any]]:
    """Do the runs that are not written down yet, for some minutes or to the end."""
    found = written(path)
    begin = time.monotonic()
    for run in wanted:
        if run.key in found:
            continue
        if minutes and time.monotonic() - begin > 60 * minutes:
            break
        start = time.perf_counter()
        found[run.key] = done(run)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": run.key, "found": found[run.key]}) + "\n")
        print(f"{run.key} {time.perf_counter() - start:.1f} s", flush=True)
    return found


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__, splits=3, runs=3, minutes=0)
    RESULTS.mkdir(exist_ok=True)
    splits, repeats = (1, 1) if asked.fast else (asked.splits, asked.runs)
    wanted = list(runs(splits, repeats, fast=asked.fast))
    tables = summary(wanted, completed(wanted, RESULTS / "papers_s4.jsonl", asked.minutes))
    for title, lines in tables.items():
        table(title, lines)
    save("papers_s4", f"means of up to {splits} splits x {repeats} runs", tables)
    drawn(tables)


if __name__ == "__main__":
    main()
