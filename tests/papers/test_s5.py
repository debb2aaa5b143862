"""Table 2 of S5: as good as scikit-learn without privacy; k-RR at 2 as good as the paper's 8.79."""

import numpy as np
import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("shared_data"),
    pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning"),
]
BENCHMARK = "papers_s5"
REPETITIONS = {"kddcup99_10pct": 1, "letter": 3}
TABLES = (
    "spambase",
    "audit_2018_trial",
    "waveform",
    "credit_card_default",
    "bank_additional_full",
    "letter",
    "kddcup99_10pct",
)


def mean(module, table, way):
    n = REPETITIONS.get(table, 6)
    tasks = ({"set": table, "way": way, "repetition": i} for i in range(n))
    return float(np.mean([module.measured(task) for task in tasks]))


@pytest.mark.parametrize("table", TABLES)
def test_federated_extra_trees_keep_up_with_scikit_learn(benchmark_module, table):
    ours, theirs = (mean(benchmark_module, table, way) for way in ("spinney", "scikit-learn"))

    assert ours > theirs - 0.005


@pytest.mark.parametrize("table", TABLES)
def test_randomised_response_at_two_does_as_well_as_the_paper_s_filters(benchmark_module, table):
    ours, paper = (mean(benchmark_module, table, way) for way in ("k-RR 2", "bloom 8.79"))

    assert ours > paper - 0.003  # noise of so few repetitions; thirty are in the benchmark
