"""Figures 6 and 7 of S1, on Telco churn: the shape of the paper's, and the true total beside it."""

from itertools import product

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("telco_package")]
BENCHMARK = "papers.s1_shown"
PAPER = "s1"
EPSILONS = (0.001, 0.01, 0.1, 1.0, 5.0, 100.0)
N_TREES, DEPTH, N_COLUMNS = 20, 6, 19


@pytest.fixture(scope="module")
def exact(benchmark_module, measured):
    cells = measured("without_noise", [{"repetition": seed} for seed in range(3)])
    return benchmark_module.means(cells, "without_noise", []).iloc[0]


@pytest.fixture(scope="module")
def lines(benchmark_module, measured):
    facts = product(
        ("noisy_histograms", "perturbed_input"), ("epsilon_per_count", "epsilon"), EPSILONS
    )
    cells = [
        {"mechanism": mechanism, "given": given, "epsilon": epsilon, "repetition": seed}
        for mechanism, given, epsilon in facts
        for seed in range(3)
    ]
    by = ["mechanism", "given", "epsilon"]
    found = benchmark_module.means(measured("private", cells), "private", by)
    return found.set_index(by).to_dict("index")


def aucs(lines, mechanism, given):
    return {epsilon: lines[mechanism, given, epsilon]["auc"] for epsilon in EPSILONS}


def test_noise_on_histograms_keeps_the_model_stable_and_fails_at_a_hundredth(lines, exact):
    """Figure 7: stable down to a tenth, and a clear drop below."""
    found = aucs(lines, "noisy_histograms", "epsilon_per_count")
    assert found[100.0] == pytest.approx(exact["auc"], abs=0.015)
    assert found[1.0] > exact["auc"] - 0.02
    assert found[0.1] > exact["auc"] - 0.06
    assert found[0.001] < found[0.1] - 0.1


def test_the_paper_s_epsilon_of_a_count_is_a_forest_s_epsilon_of_thousands(lines):
    most = N_TREES * DEPTH * N_COLUMNS
    for epsilon in EPSILONS:
        total = lines["noisy_histograms", "epsilon_per_count", epsilon]["total"]
        assert total <= epsilon * most * (1 + 1e-9)
        if epsilon >= 0.1:
            assert total == pytest.approx(epsilon * most)  # T d m e0


def test_noise_on_rows_drops_significantly(lines, exact):
    """Figure 6: far below the noise on histograms, but for the largest epsilon."""
    found = aucs(lines, "perturbed_input", "epsilon_per_count")
    assert found[100.0] == pytest.approx(exact["auc"], abs=0.02)
    assert found[1.0] < exact["auc"] - 0.03
    assert found[0.1] < 0.7
    assert found[0.001] < 0.65
    totals = {e: lines["perturbed_input", "epsilon_per_count", e]["total"] for e in EPSILONS}
    assert all(total == pytest.approx(20 * epsilon) for epsilon, total in totals.items())


@pytest.mark.parametrize("mechanism", ["noisy_histograms", "perturbed_input"])
def test_a_budget_for_the_whole_forest_is_kept(lines, mechanism):
    for epsilon in EPSILONS:
        assert lines[mechanism, "epsilon", epsilon]["total"] == pytest.approx(epsilon, rel=1e-12)


def test_at_one_for_the_whole_forest_histograms_are_useful_and_rows_are_not(lines, exact):
    histograms = aucs(lines, "noisy_histograms", "epsilon")
    rows = aucs(lines, "perturbed_input", "epsilon")
    assert histograms[1.0] > 0.74
    assert histograms[100.0] > exact["auc"] - 0.03
    assert rows[1.0] < histograms[1.0] - 0.08
