"""PrivaTree's yardstick, and `auto` off S3's benchmark."""

import pandas as pd
import pytest

PAPER = "s3"
pytestmark = pytest.mark.slow
METHODS = ["histograms", "save_budget", "propose", "noisy_max", "forest"]


def means(measured, experiment, n_draws, **facts):
    cells = [{**facts, "repetition": repetition} for repetition in range(n_draws)]
    return pd.DataFrame([found for *_, found in measured(experiment, cells)]).mean()


@pytest.mark.parametrize(("epsilon", "theirs"), [(1.0, 0.697), (10.0, 0.731)])
def test_five_parties_do_as_well_as_privatree_on_one_site(measured, epsilon, theirs):
    assert means(measured, "yardstick", 5, epsilon=epsilon)["auto"] >= theirs


@pytest.mark.usefixtures("shared_data")
@pytest.mark.parametrize(
    "name",
    ["sparse, 3 of 50", "XOR, 2 of 10", "breast cancer", "waveform", "adult", "telco churn"],
)
def test_auto_is_near_the_best_method(measured, name):
    found = means(measured, "others", 12, data=name)
    assert found["auto"] >= found[METHODS].max() - 0.03
