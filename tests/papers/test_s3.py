"""S3's simulation: the learners that beat it, at the same composed epsilon; a part of the grid."""

import pytest

BENCHMARK = "papers.s3_shown"
PAPER = "s3"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def points_ahead(benchmark_module, measured):
    """Return how far each method is above Algorithm 5, over a part of the grid, eight draws."""
    facts = ((250, 25, 0.3), (1000, 10, 0.9), (1000, 50, 0.3), (250, 10, 0.9))
    cells = [
        {"part": "sums", "n": n, "p": p, "rho": rho, "repetition": repetition}
        for n, p, rho in facts
        for repetition in range(8)
    ]
    draws = [(cell, found) for _, cell, found in measured("grid", cells)]
    ahead = benchmark_module.points_ahead(benchmark_module.as_frame(draws))
    return {method: found["points"] for method, found in ahead.items()}


def test_a_forest_is_ten_points_above_algorithm_5(points_ahead):
    assert points_ahead["forest"].mean() >= 10


def test_one_noisy_maximum_is_four_points_above_algorithm_5(points_ahead):
    assert points_ahead["noisy_max"].mean() >= 4


@pytest.mark.parametrize("method", ["forest", "noisy_max"])
@pytest.mark.parametrize("group", ["n", "p", "rho", "depth", "epsilon"])
def test_neither_is_worse_by_a_point_in_any_group_of_cells(points_ahead, method, group):
    assert points_ahead[method].groupby(group).mean().min() >= -1
