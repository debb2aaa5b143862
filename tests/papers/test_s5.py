"""Table 2 of S5: as good as scikit-learn without privacy; k-RR at 2 as good as the paper's 8.79."""

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_data")]
PAPER = "s5"
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


@pytest.fixture
def mean(measured):
    def of(table, way):
        seeds = range(REPETITIONS.get(table, 6))
        facts = [{"data": table, "way": way, "repetition": seed} for seed in seeds]
        return float(np.mean([found["accuracy"] for _, _, found in measured("overall", facts)]))

    return of


@pytest.mark.parametrize("table", TABLES)
def test_federated_extra_trees_keep_up_with_scikit_learn(mean, table):
    assert mean(table, "spinney") > mean(table, "scikit-learn") - 0.005


@pytest.mark.parametrize("table", TABLES)
def test_randomised_response_at_two_does_as_well_as_the_paper_s_filters(mean, table):
    loss = mean(table, "bloom 8.79") - mean(table, "k-RR 2")

    assert loss < 0.003  # noise of so few repetitions; thirty are in the benchmark
