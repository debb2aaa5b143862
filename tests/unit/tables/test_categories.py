"""Categories find their number, as text or as numbers."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.tables.categories import MISSING, UNKNOWN, CategoryIndex, values_of
from spinney.tables.schema import in_order, plain


def test_text_never_equals_a_number():
    index = CategoryIndex(("1", 1, "a"))
    assert index.codes_of(["1", 1, 1.0, True, "a", "b", None]).tolist() == [
        0,
        1,
        1,
        1,
        2,
        UNKNOWN,
        MISSING,
    ]
    assert index.codes_of_numbers(np.array([1.0, 2.0, np.nan])).tolist() == [1, UNKNOWN, MISSING]


def test_numbers_are_never_found_among_texts():
    index = CategoryIndex(("a", "b"))
    assert index.has_text
    assert not index.has_numbers
    assert index.codes_of_numbers(np.array([0.0, np.nan])).tolist() == [UNKNOWN, MISSING]


def test_whole_numbers_too_long_for_a_float_are_told_apart():
    index = CategoryIndex((2**60, 2**60 + 1))
    assert index.codes_of_numbers(np.array([2**60 + 1, 2**60, 2**60 + 2])).tolist() == [
        1,
        0,
        UNKNOWN,
    ]


def test_missing_and_unknown_become_nan():
    values = values_of(np.array([0, MISSING, UNKNOWN, 3], dtype=np.int32))
    assert values.dtype == np.float32
    assert np.array_equal(values, [0, np.nan, np.nan, 3], equal_nan=True)


numbers = st.one_of(
    st.integers(-(2**40), 2**40), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)


@settings(deadline=None)
@given(st.lists(numbers, min_size=1, max_size=10), st.lists(numbers, max_size=10))
def test_both_ways_of_looking_numbers_up_agree(known, asked):
    index = CategoryIndex(in_order(map(plain, known)))
    everything = [float(value) for value in (*known, *asked)]
    by_number = index.codes_of_numbers(np.array(everything))
    assert by_number.tolist() == index.codes_of(everything).tolist()
