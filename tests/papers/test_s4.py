"""S4's experiment: what parties gain by evolved trees. Hours on two cores, less if resumed."""

from dataclasses import replace
from importlib import import_module

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_data")]
BENCHMARK = "papers.s4"


@pytest.fixture(scope="module")
def tables(benchmark_module):
    """The tables at N = 20, for all parties and a tenth of them; what is stored is not rerun."""
    experiments = tuple(
        replace(
            one,
            full=tuple(
                grid
                for grid in one.full
                if (*grid["n_parties"], *grid["participation"]) in {(20, 1.0), (20, 0.1)}
            ),
        )
        for one in benchmark_module.PAPER.experiments
    )
    declared = replace(benchmark_module.PAPER, experiments=experiments)
    folder = import_module("harness").RESULTS / "papers"
    whole = import_module("papers.store").Store(folder, benchmark_module.PAPER)
    whole.paper = declared
    assert not import_module("papers.running").run(whole, fast=False, workers=2, minutes=0)
    shown = import_module("papers.experiment").shown("s4", whole.found(declared.wanted(fast=False)))
    return {table.title: table.rows for table in shown.tables}


def test_parties_gain_f1_and_more_than_by_truex(tables):
    mean = tables["Figures 3 and 4: classification, N = 20, c = 100%"][-1]
    assert mean["Delta"] >= 5
    assert mean["gain %"] > 70
    for truex in ("Truex", "Truex, S4's noise"):
        assert mean["Delta"] >= mean[f"{truex} Delta"] + 6


def test_errors_fall_on_most_regression_tables(tables):
    lines = tables["Figures 8 and 9: regression, N = 20, c = 100%"][:-1]
    assert len(lines) >= 12
    assert sum(line["Delta"] < 0 for line in lines) >= 0.7 * len(lines)


def test_a_tenth_of_the_parties_is_nearly_as_good(tables):
    all_ = tables["Figures 3 and 4: classification, N = 20, c = 100%"][-1]["Delta"]
    few = tables["classification, N = 20, c = 10%"][-1]["Delta"]
    assert few == pytest.approx(all_, abs=1.5)
