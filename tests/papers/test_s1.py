"""Figures 1 to 3 and 8 of S1, on Telco churn."""

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("telco_package")]
BENCHMARK = "papers.s1_shown"
PAPER = "s1"
REPETITIONS = range(5)


@pytest.mark.parametrize("n_parties", [2, 5, 10])
def test_the_joint_forest_beats_the_mean_local_one(benchmark_module, measured, n_parties):
    setup = {"data": "telco", "settings": "alike", "n_parties": n_parties}
    cells = measured("joined", [setup | {"repetition": seed} for seed in REPETITIONS])
    *_, mean = benchmark_module.by_party([found["parties"] for _, _, found in cells])

    assert mean["party"] == "all"
    assert mean["federated f1"] > mean["local f1"]
    assert mean["federated auc"] > mean["local auc"]
    assert mean["p"] < 0.05


@pytest.fixture(scope="module")
def by_bins(benchmark_module, measured):
    bins = (2, 4, 8, 16, 32, 64)
    cells = measured("by_bins", [{"bins": b, "repetition": r} for b in bins for r in REPETITIONS])
    return benchmark_module.means(cells, "by_bins", ["bins"]).set_index("bins")


def test_two_bins_are_too_few(by_bins):
    enough = by_bins.loc[8:]

    assert by_bins.loc[2, "auc"] < enough["auc"].min() - 0.003
    assert by_bins.loc[2, "f1"] < enough["f1"].mean()


def test_more_than_eight_bins_bring_little(by_bins):
    for bins in (16, 32, 64):
        assert by_bins.loc[bins, "auc"] == pytest.approx(by_bins.loc[8, "auc"], abs=0.003)
        assert by_bins.loc[bins, "f1"] == pytest.approx(by_bins.loc[8, "f1"], abs=0.01)
