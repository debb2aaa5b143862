"""Labels in noisy bits: known costs, correct distributions, and unbiased estimates."""

from fractions import Fraction
from math import exp, log
from typing import Any

import numpy as np
import pytest

from spinney.errors import InternalError, SettingError
from spinney.privacy import entropy
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.labels import BloomResponse, UnaryResponse, bloom_filters, unpack_bits
from spinney.privacy.ledger import Ledger
from spinney.privacy.mechanisms import RandomisedResponse
from spinney.privacy.release import Exact
from spinney.privacy.scopes import Question, Spend
from spinney.protocols.extra_trees.estimates import Estimates


def released(response, labels):
    ledger = Ledger.in_memory("north")
    ledger.open_job(JobTerms.agreed("q", "data", 2))
    charges = ledger.reserve(Question.of("q", 0, b""), [Spend("labels", response)])
    assert charges is not None
    return response.release(Exact(labels), charges[0]).values


def test_the_paper_s_scheme_has_its_known_prices():
    bloom = BloomResponse(2)
    assert float(bloom.cost().amount) == pytest.approx(8.788898, abs=1e-6)
    assert float(bloom.cost().amount) >= 8 * log(3)  # rounded up, never down
    assert bloom.one_probability == pytest.approx(0.65)
    assert bloom.other_probability == pytest.approx(0.35)
    assert bloom.cost().unit is Unit.LABEL


def test_unary_encoding_costs_its_epsilon():
    unary = UnaryResponse(Fraction(2), 40)
    assert unary.cost().amount == 2
    assert (unary.n_words, unary.n_bits) == (2, 40)
    assert unary.other_probability == pytest.approx(1 / (exp(2) + 1))


@pytest.mark.parametrize("n_classes", [33, 100])
def test_more_classes_than_the_filters_tell_apart_are_refused(n_classes):
    with pytest.raises(SettingError, match="Use label_scheme='unary', which has a bit for each"):
        BloomResponse(n_classes)


@pytest.mark.parametrize("n_classes", [2, 3, 23, 26, 32])
def test_filters_tell_all_classes_apart(n_classes):
    filters = bloom_filters(n_classes)
    assert filters.shape == (n_classes, 32)
    assert np.linalg.matrix_rank(filters) == n_classes
    assert (filters.sum(axis=1) <= 4).all()


@pytest.mark.parametrize(
    ("response", "own", "other"),
    [(BloomResponse(5), 0.65, 0.35), (UnaryResponse(Fraction(1), 40), 0.5, 1 / (exp(1) + 1))],
)
def test_bits_are_reported_by_their_law(response, own, other):
    n = 20_000
    with entropy.seeded_for_tests(1):
        words = released(response, np.full(n, 3)).astype(np.uint32)
    bits = unpack_bits(words, response.n_bits)
    expected = np.full(response.n_bits, other)
    is_own: Any = np.arange(40) == 3
    if isinstance(response, BloomResponse):
        is_own = np.asarray(bloom_filters(5))[3] == 1.0
    expected[is_own] = own
    assert np.abs(bits.mean(axis=0) - expected).max() < 5 * np.sqrt(0.25 / n)
    correlation = np.asarray(np.corrcoef(bits.T))[np.triu_indices(response.n_bits, 1)]
    assert np.abs(correlation).max() < 6 / np.sqrt(n)  # bits know nothing of each other


@pytest.mark.parametrize(
    "response",
    [
        RandomisedResponse(Fraction(2), 5),
        UnaryResponse(Fraction(2), 5),
        BloomResponse(5),
        RandomisedResponse(Fraction(2), 2),
        BloomResponse(26),
    ],
    ids=["k-RR 5", "unary 5", "bloom 5", "k-RR 2", "bloom 26"],
)
def test_estimates_have_no_bias(response):
    """With large counts, far from zero, projection and least squares change nothing."""
    n_classes = getattr(response, "n_categories", None) or response.n_classes
    true = np.arange(1, n_classes + 1) * (20_000 // n_classes)
    labels = np.repeat(np.arange(n_classes), true)
    found = []
    with entropy.seeded_for_tests(2):
        for _ in range(6):
            reported = released(response, labels)
            if isinstance(response, RandomisedResponse):
                counters = np.bincount(reported, minlength=n_classes)[None]
            else:
                bits = unpack_bits(reported.astype(np.uint32), response.n_bits).sum(axis=0)
                counters = np.r_[labels.size, bits].astype(np.int64)[None]
            found.append(Estimates(response).counts(counters)[0])
    spread = np.std(found, axis=0) / np.sqrt(len(found)) + 1e-9
    assert np.abs(np.mean(found, axis=0) - true).max() < 5 * spread.max()
    assert np.allclose(np.sum(found, axis=1), labels.size)


def test_estimates_are_never_negative_and_add_up():
    random = np.random.RandomState(0)
    for response in (RandomisedResponse(Fraction(1), 4), UnaryResponse(Fraction(1), 4)):
        width = 4 if isinstance(response, RandomisedResponse) else 5
        counters = random.randint(0, 4, (50, width))
        counters[:, 0] += 4
        estimates = Estimates(response)
        counts = estimates.counts(counters)
        assert (counts >= 0).all()
        assert np.allclose(counts.sum(axis=1), estimates.rows(counters))


@pytest.mark.parametrize("response", [BloomResponse(3), UnaryResponse(Fraction(1), 3)])
def test_labels_that_are_none_are_a_bug(response):
    with pytest.raises(InternalError, match="Labels must be one line of numbers from 0 to 2"):
        released(response, np.array([0, 3]))
    with pytest.raises(SettingError, match="n_classes must be a whole number of at least 2"):
        type(response)(*([Fraction(1)] if isinstance(response, UnaryResponse) else []), 1)
