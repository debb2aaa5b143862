"""Forests over five parties are as good as scikit-learn's on real tables."""

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("shared_data"),
    pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning"),
]
BENCHMARK = "bench_quality"
TABLES = (
    "spambase",
    "waveform",
    "letter",
    "adult",
    "credit_card_default",
    "tb_california",
    "tb_eye_movements",
    "tb_houses",
    "tb_bike_sharing",
    "tb_abalone",
    "superconduct_76",
)


@pytest.mark.parametrize("max_depth", [None, 10])
@pytest.mark.parametrize("table", TABLES)
def test_scores_keep_up_with_scikit_learn(benchmark_module, table, max_depth):
    found = benchmark_module.compared(benchmark_module.Task(table, max_depth))

    assert found["holds"], found
