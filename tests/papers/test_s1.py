"""Figures 1 to 3 and 8 of S1, on Telco churn."""

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("telco_package"),
    pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning"),
]
BENCHMARK = "papers_s1"


@pytest.mark.parametrize("n_parties", [2, 5, 10])
def test_the_joint_forest_beats_the_mean_local_one(benchmark_module, n_parties):
    *_, mean = benchmark_module.joined_or_alone(n_parties, benchmark_module.REPETITIONS)

    assert mean["party"] == "mean"
    assert mean["federated f1"] > mean["local f1"]
    assert mean["federated auc"] > mean["local auc"]


@pytest.fixture(scope="module")
def by_bins(benchmark_module):
    lines = benchmark_module.bins_tried((2, 4, 8, 16, 32, 64), benchmark_module.REPETITIONS)
    return {line["bins"]: line for line in lines}


def test_two_bins_are_too_few(by_bins):
    enough = [by_bins[bins] for bins in (8, 16, 32, 64)]

    assert by_bins[2]["auc"] < min(line["auc"] for line in enough) - 0.003
    assert by_bins[2]["f1"] < sum(line["f1"] for line in enough) / len(enough)


def test_more_than_eight_bins_bring_little(by_bins):
    knee = by_bins[8]

    for bins in (16, 32, 64):
        assert by_bins[bins]["auc"] == pytest.approx(knee["auc"], abs=0.003)
        assert by_bins[bins]["f1"] == pytest.approx(knee["f1"], abs=0.01)
