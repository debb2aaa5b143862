"""The 95 % intervals of an evaluation with noise hold the truth in 95 % of runs."""

import pytest

import bench_evaluation  # type: ignore[import-not-found]

pytestmark = pytest.mark.usefixtures("seeded")
FEW, MANY = 200, 1000


@pytest.fixture(scope="module", params=bench_evaluation.CASES, ids=lambda make: make.__name__)
def case(request):
    return request.param()


def assert_covered(found, n_runs):
    """Check every measure that most runs told, within four standard deviations of chance."""
    least = 0.95 - 4 * (0.95 * 0.05 / n_runs) ** 0.5
    missed = {
        name: one["coverage"]
        for name, one in found.items()
        if one["told"] > 0.5 and one["coverage"] < least
    }
    assert not missed
    assert any(one["told"] > 0.5 for one in found.values())


def test_intervals_cover_the_truth(case):
    assert_covered(bench_evaluation.covered(case, 2000, "1", FEW), FEW)


@pytest.mark.slow
@pytest.mark.parametrize(("n_rows", "epsilon"), [(500, "1"), (2000, "1/2"), (10_000, "1")])
def test_intervals_cover_the_truth_over_a_thousand_runs(case, n_rows, epsilon):
    assert_covered(bench_evaluation.covered(case, n_rows, epsilon, MANY), MANY)


def test_intervals_that_forget_the_noise_are_noticed(monkeypatch):
    """A planted fault: the same counts, with intervals for the sample alone."""
    from spinney.protocols.private_evaluation import estimates  # noqa: PLC0415

    case = bench_evaluation.two_classes()
    along = estimates.Error.along

    def forgetful(slopes, noisy):
        return estimates.Error(along(slopes, noisy).sampling, 0.0, 0.0)

    monkeypatch.setattr(estimates.Error, "along", forgetful)
    with pytest.raises(AssertionError):
        assert_covered(bench_evaluation.covered(case, 500, "1/2", FEW), FEW)
