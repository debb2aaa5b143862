"""Rows are dealt out by a column's values."""

import numpy as np
import pytest

from spinney import deal_rows
from spinney.errors import SettingError


def test_rows_with_the_same_value_go_to_the_same_party():
    region = np.array(["n"] * 50 + ["s"] * 30 + ["w"] * 25 + ["e"] * 5, object)
    party = deal_rows(np.zeros(110), 3, by=region)
    assert {len(set(party[region == one])) for one in "nswe"} == {1}
    assert sorted(np.bincount(party)) == [30, 30, 50]


def test_amounts_are_dealt_in_order():
    day = np.random.default_rng(0).normal(size=900)
    party = deal_rows(np.zeros(900), 3, by=day)
    assert np.bincount(party).tolist() == [300, 300, 300]
    assert day[party == 0].max() < day[party == 1].min() < day[party == 2].min()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"by": np.zeros(10)}, "by has 1 different values, fewer than the 2 parties"),
        ({"by": np.arange(9)}, "by must have one value for each of the 10 rows"),
        ({"by": np.arange(10), "skew": 1.0}, "by cannot be used together with skew"),
    ],
)
def test_what_cannot_be_dealt_by_is_refused(given, words):
    with pytest.raises(SettingError, match=words):
        deal_rows(np.zeros(10), 2, **given)
