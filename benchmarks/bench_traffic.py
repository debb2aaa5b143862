"""Bytes and rounds of a forest: for each party, and round by round.

100 trees on 200,000 x 30 drawn rows dealt to five parties, without masks.
Run: python benchmarks/bench_traffic.py [--fast]
"""

import warnings
from typing import Any

from data import Split, drawn
from harness import arguments, save, table
from spinney import HorizontalForestClassifier, deal_rows
from spinney.errors import PrivacyLeakWarning
from spinney.report.report import Report

_MB = 1e6


def report_of(split: Split, n_trees: int, n_parties: int, **settings: Any) -> Report:
    """Grow a forest over parties and return its report."""
    forest = HorizontalForestClassifier(n_trees, random_state=0, **settings)
    party = deal_rows(split.y, n_parties, random_state=0)
    return forest.fit(split.X, split.y, party=party).report_


def total(report: Report, **what: Any) -> dict[str, Any]:
    """Return a forest's rounds and the bytes of the party that moved most."""
    up, down = max(report.bytes_up.values()), max(report.bytes_down.values())
    return {
        **what,
        "trees": report.n_trees,
        "depth": report.depth,
        "nodes": report.n_nodes,
        "rounds": report.rounds,
        "rounds - depth": report.rounds - report.depth,
        "MB up": up / _MB,
        "MB down": down / _MB,
        "MB a party": (up + down) / _MB,
        "bits up a node": 8 * up / report.n_nodes,
    }


def by_round(report: Report) -> list[dict[str, Any]]:
    """Return what the first party moved in each round."""
    party = report.parties[0]
    return [
        {
            "round": found.number,
            "question": found.question,
            "MB down": found.bytes_down[party] / _MB,
            "MB up": found.bytes_up[party] / _MB,
            "seconds": found.seconds,
        }
        for found in report.traffic
    ]


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    asked = arguments(__doc__)
    n_rows, n_trees = (20_000, 20) if asked.fast else (200_000, 100)
    hard, plain = drawn(n_rows, n_test=0), drawn(n_rows, n_test=0, plain=True)
    deep = report_of(hard, n_trees, 5, max_depth=10)
    totals = [
        total(deep, table="hard", parties=5, cells=33),
        total(report_of(plain, n_trees, 5, max_depth=10), table="plain", parties=5, cells=33),
    ]
    for n_parties, cells, depth in ((5, 17, 10), (2, 33, 10), (10, 33, 10), (5, 33, 12)):
        found = report_of(hard, n_trees, n_parties, max_depth=depth, max_cells=cells)
        totals.append(total(found, table="hard", parties=n_parties, cells=cells))
    unlimited = report_of(hard, max(1, n_trees // 5), 5)
    totals.append(total(unlimited, table="hard", parties=5, cells=33))
    tables = {"forests": totals, "round by round, first forest": by_round(deep)}
    for title, rows in tables.items():
        table(title, rows)
    save("traffic", "bytes as the codec writes them; the party that moved most", tables)


if __name__ == "__main__":
    main()
