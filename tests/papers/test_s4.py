"""S4's experiment: what parties gain by evolved trees. Hours on two cores, less if resumed."""

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("shared_data"),
    pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning"),
]
BENCHMARK = "papers_s4"
SPLITS = RUNS = 3


@pytest.fixture(scope="module")
def tables(benchmark_module):
    """The tables at N = 20, for all parties and a tenth of them; what is written is not rerun."""
    benchmark_module.RESULTS.mkdir(exist_ok=True)
    wanted = [
        run
        for run in benchmark_module.runs(SPLITS, RUNS, fast=False)
        if run.n_parties == 20 and run.participation in {1.0, 0.1}
    ]
    found = benchmark_module.completed(wanted, benchmark_module.RESULTS / "papers_s4.jsonl")
    return benchmark_module.summary(wanted, found)


def test_parties_gain_f1_and_more_than_by_truex(tables):
    mean = tables["classification, N = 20, c = 100 %"][-1]
    assert mean["Delta"] >= 5
    assert mean["gain %"] > 70
    for truex in ("Truex", "Truex, S4's noise"):
        assert mean["Delta"] >= mean[f"{truex} Delta"] + 6


def test_errors_fall_on_most_regression_tables(tables):
    lines = tables["regression, N = 20, c = 100 %"][:-1]
    assert len(lines) >= 12
    assert sum(line["Delta"] < 0 for line in lines) >= 0.7 * len(lines)


def test_a_tenth_of_the_parties_is_nearly_as_good(tables):
    few, all_ = (tables[f"classification, N = 20, c = {c} %"][-1]["Delta"] for c in (10, 100))
    assert few == pytest.approx(all_, abs=1.5)
