"""PrivaTree's yardstick, and `auto` off S3's benchmark."""

import numpy as np
import pytest

BENCHMARK = "bench_private"
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("epsilon", "theirs"), [(1.0, 0.697), (10.0, 0.731)])
def test_five_parties_do_as_well_as_privatree_on_one_site(benchmark_module, epsilon, theirs):
    found = [benchmark_module.yardstick("auto", epsilon) for _ in range(5)]
    assert np.mean(found) >= theirs


@pytest.mark.usefixtures("shared_data")
@pytest.mark.parametrize(
    "name",
    ["sparse, 3 of 50", "XOR, 2 of 10", "breast cancer", "waveform", "adult", "telco churn"],
)
def test_auto_is_near_the_best_method(benchmark_module, name):
    def mean(method):
        return np.mean([benchmark_module.off_benchmark(name, method, r) for r in range(12)])

    best = max(map(mean, ("histograms", "save_budget", "propose", "noisy_max", "forest")))
    assert mean("auto") >= best - 0.03
