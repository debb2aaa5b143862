"""One table dealt out to simulated parties."""

from itertools import chain

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import SettingError
from spinney.tables.deal import deal_columns, deal_rows


def shares(y, party):
    """Return each party's share of each class."""
    counts = [np.bincount(y[party == one], minlength=y.max() + 1) for one in range(party.max() + 1)]
    return np.array([count / count.sum() for count in counts])


@settings(deadline=None)
@given(
    n_rows=st.integers(1, 200),
    n_parties=st.integers(1, 12),
    skew=st.sampled_from([0.0, 0.1, 1.0, 30.0, 1e6]),
    n_classes=st.integers(1, 5),
    seed=st.integers(0, 2**32),
)
def test_every_party_gets_a_row_and_every_row_a_party(n_rows, n_parties, skew, n_classes, seed):
    n_parties = min(n_parties, n_rows)
    y = np.arange(n_rows) % n_classes
    party = deal_rows(y, n_parties, skew=skew, random_state=seed)
    assert party.shape == y.shape
    assert party.dtype == np.intp
    assert set(party) == set(range(n_parties))


@settings(deadline=None)
@given(n_rows=st.integers(5, 200), seed=st.integers(0, 2**32))
def test_blind_and_stratified_deals_are_of_near_equal_size(n_rows, seed):
    y = np.arange(n_rows) % 3
    for stratified in (False, True):
        sizes = np.bincount(deal_rows(y, 5, stratified=stratified, random_state=seed))
        assert sizes.max() - sizes.min() <= 1


@settings(deadline=None)
@given(
    n_rows=st.integers(30, 300),
    sizes=st.lists(st.floats(0.2, 5), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
)
def test_a_stratified_deal_gives_every_party_its_share_of_every_class(n_rows, sizes, seed):
    y = np.random.RandomState(1).randint(0, 3, n_rows)
    party = deal_rows(y, len(sizes), sizes=sizes, stratified=True, random_state=seed)
    for label in range(3):
        expected = (y == label).sum() * np.bincount(party, minlength=len(sizes)) / n_rows
        got = np.bincount(party[y == label], minlength=len(sizes))
        assert np.abs(got - expected).max() <= 1 + len(sizes) / 2


def test_sizes_are_relative():
    party = deal_rows(np.zeros(100), 3, sizes=[6, 3, 1], random_state=0)
    assert np.bincount(party).tolist() == [60, 30, 10]


def test_a_tiny_share_still_gets_a_row():
    party = deal_rows(np.zeros(10), 3, sizes=[1e9, 1, 1], random_state=0)
    assert np.bincount(party).tolist() == [8, 1, 1]


def test_a_seed_fixes_the_deal():
    y = np.arange(50) % 2
    for facts in ({}, {"skew": 1.0}, {"stratified": True}):
        first = deal_rows(y, random_state=7, **facts)
        assert np.array_equal(first, deal_rows(y, random_state=7, **facts))
        assert not np.array_equal(first, deal_rows(y, random_state=8, **facts))


def test_more_skew_makes_parties_differ_more():
    y = np.random.RandomState(0).randint(0, 3, 3000)

    def spread(skew):
        deals = [deal_rows(y, 5, skew=skew, random_state=seed) for seed in range(10)]
        return np.mean([shares(y, party).std(axis=0).mean() for party in deals])

    assert spread(0.0) < 0.03 < spread(0.3) < spread(1.0) < spread(10.0)


def test_amounts_are_skewed_by_quantiles():
    y = np.random.RandomState(0).normal(size=2000)
    for amounts in (y, (y * 1000).astype(int)):
        party = deal_rows(amounts, 4, skew=5.0, random_state=0)
        means = [amounts[party == one].mean() for one in range(4)]
        assert np.ptp(means) > 0.3 * amounts.std()
        alike = deal_rows(amounts, 4, stratified=True, random_state=0)
        means = [amounts[alike == one].mean() for one in range(4)]
        assert np.ptp(means) < 0.1 * amounts.std()


@pytest.mark.parametrize(
    "y",
    [
        ["no", "yes"] * 10,
        np.array(["no", None] * 10, dtype=object),
        pd.Series(["a", "b"] * 10),
        pl.Series([True, False] * 10),
        np.array([1.0, np.nan] * 10),
    ],
)
def test_labels_of_any_kind_can_be_dealt(y):
    assert set(deal_rows(y, 3, skew=1.0, random_state=0)) == {0, 1, 2}
    assert set(deal_rows(y, 3, stratified=True, random_state=0)) == {0, 1, 2}


@pytest.mark.parametrize(
    ("facts", "wording"),
    [
        ({"n_parties": 0}, "n_parties must be a whole number between 1 and the number of rows, 10"),
        ({"n_parties": 11}, "got 11"),
        ({"n_parties": 2.5}, r"got 2\.5"),
        ({"skew": -1.0}, r"skew must be 0 or a finite positive number; got -1\.0"),
        ({"skew": np.nan}, "skew must be"),
        ({"skew": np.inf}, "skew must be"),
        ({"skew": 1.0, "stratified": True}, "skew and stratified cannot be used together"),
        ({"skew": 1.0, "sizes": [1] * 5}, "skew and sizes cannot be used together"),
        ({"sizes": [1, 2]}, "sizes must have 5 entries, one per party; got 2"),
        ({"sizes": [1, 2, 3, 4, 0]}, r"sizes must be a list of finite positive .* 0\]"),
        ({"skew": "a"}, "skew must be 0 or a finite positive number; got 'a'"),
        ({"skew": None}, "skew must be 0 or a finite positive number; got None"),
        ({"sizes": 5}, "sizes must be a list of finite positive numbers; got 5"),
        ({"sizes": ["a"] * 5}, "sizes must be a list of finite positive numbers"),
        ({"n_parties": "3"}, "n_parties must be a whole number .* got '3'"),
    ],
)
def test_a_deal_that_cannot_be_is_refused(facts, wording):
    with pytest.raises(SettingError, match=wording):
        deal_rows(np.arange(10), **facts)


def test_labels_must_have_one_dimension():
    with pytest.raises(SettingError, match="one dimension; got 2"):
        deal_rows(np.zeros((4, 2)))


def test_columns_are_dealt_by_name_in_near_equal_parts():
    dealt = deal_columns(["a", "b", "c", "d", "e"], names=["bank", "shop"], random_state=0)
    assert list(dealt) == ["bank", "shop"]
    assert sorted(map(len, dealt.values())) == [2, 3]
    assert sorted(chain(*dealt.values())) == ["a", "b", "c", "d", "e"]
    assert all(columns == sorted(columns) for columns in dealt.values())


def test_columns_of_a_table_are_dealt_by_its_names_or_positions():
    data = {"a": [1], "b": [2], "c": [3]}
    by_name = deal_columns(data, 3, random_state=0)
    assert deal_columns(pd.DataFrame(data), 3, random_state=0) == by_name
    assert deal_columns(pl.DataFrame(data), 3, random_state=0) == by_name
    by_place = deal_columns(np.zeros((2, 3)), 3, random_state=0)
    assert sorted(chain(*by_place.values())) == [0, 1, 2]
    assert list(by_place) == ["party_0", "party_1", "party_2"]
    assert deal_columns(pd.DataFrame(np.zeros((2, 3))), 3, random_state=0) == by_place


@pytest.mark.parametrize(
    ("columns", "facts", "wording"),
    [
        (["a"], {}, "number of columns, 1; got 2"),
        (["a", "a"], {}, "more than once"),
        ("ab", {}, "list of names or a table"),
        (["a", "b"], {"names": ["x", "x"]}, "names must differ"),
        (["a", "b"], {"names": []}, "got 0"),
        (["a", "b"], {"names": 5}, "names must be a list of the parties' names, as text; got 5"),
        (["a", "b"], {"names": [["x"], ["y"]]}, "names must be a list of the parties' names"),
        (["a", "b"], {"n_parties": "two"}, "n_parties must be a whole number .* got 'two'"),
        ([["a"], ["b"]], {}, "columns must be a list of names or a table; got a list of lists"),
    ],
)
def test_a_deal_of_columns_that_cannot_be_is_refused(columns, facts, wording):
    with pytest.raises(SettingError, match=wording):
        deal_columns(columns, **facts)
