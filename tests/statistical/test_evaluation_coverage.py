"""The 95 % intervals of an evaluation with noise hold the truth in 95 % of runs."""

from dataclasses import replace

import pytest

import bench_evaluation  # type: ignore[import-not-found]

pytestmark = pytest.mark.usefixtures("seeded")
FEW, MANY = 200, 1000


@pytest.fixture(scope="module", params=bench_evaluation.CASES, ids=lambda make: make.__name__)
def case(request):
    return request.param()


def assert_covered(found, n_runs):
    """Check every measure that most runs told."""
    assert not missed(found, n_runs)
    assert any(one["told"] > 0.5 for one in found.values())


def missed(found, n_runs):
    """Return the told measures whose coverage is low by four standard deviations of chance.

    Over thousands of runs the lowest coverage of these cases is 94 %.
    """
    least = 0.94 - 4 * (0.94 * 0.06 / n_runs) ** 0.5
    return {
        name: one["coverage"]
        for name, one in found.items()
        if one["told"] > 0.5 and one["coverage"] < least
    }


def test_intervals_cover_the_truth(case):
    assert_covered(bench_evaluation.covered(case, 2000, "1", FEW), FEW)


@pytest.mark.slow
@pytest.mark.parametrize(("n_rows", "epsilon"), [(500, "1"), (2000, "1/2"), (10_000, "1")])
def test_intervals_cover_the_truth_over_a_thousand_runs(case, n_rows, epsilon):
    assert_covered(bench_evaluation.covered(case, n_rows, epsilon, MANY), MANY)


@pytest.mark.slow
@pytest.mark.parametrize("make", bench_evaluation.UNSEEN, ids=lambda make: make.__name__)
def test_intervals_cover_the_truth_on_cases_that_they_were_not_designed_on(make):
    assert_covered(bench_evaluation.covered(make(), 2000, "1/2", MANY), MANY)


def test_intervals_that_forget_the_noise_are_noticed(monkeypatch):
    """A planted fault: the same counts, with intervals for the sample alone."""
    from spinney.protocols.private_evaluation import estimates  # noqa: PLC0415

    case = bench_evaluation.two_classes()
    honest, is_enough, known = estimates.Noisy.of, estimates.Noisy.is_enough, {}

    def forgetful(what, counts, noise, n_noises):
        noisy = honest(what, counts, noise, n_noises)
        known[what] = noisy.variance
        return replace(noisy, variance=0.0, cumulant=0.0)

    def still_enough(noisy, *given):  # what is told stays the same
        return is_enough(replace(noisy, variance=known[noisy.what]), *given)

    monkeypatch.setattr(estimates.Noisy, "of", forgetful)
    monkeypatch.setattr(estimates.Noisy, "is_enough", still_enough)
    found = bench_evaluation.covered(case, 2000, "1/2", FEW)
    with pytest.raises(AssertionError):
        assert_covered(found, FEW)
    assert missed(found, FEW).keys() >= {"accuracy", "auc", "log_loss", "brier"}
