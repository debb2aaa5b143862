"""Rows that cannot be predicted are refused in words."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from spinney.errors import SchemaError, TableError
from unit.estimators.refusing import (  # type: ignore[import-not-found]
    BOTH,
    X,
    Y,
    each,
    wards,
)


@pytest.fixture(params=BOTH, ids=[kind.__name__ for kind in BOTH])
def forest(request):
    return request.param(5, random_state=0).fit(wards(), Y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_an_unknown_category_is_refused_by_name_of_the_column(forest, frame):
    table = frame({"age": [1.0, 2.0], "ward": ["eye", "heart"]})
    words = (
        "column 'ward' holds a category that the schema does not name. "
        "It names: eye, knee, skin. Add the category to the schema, or leave those rows out."
    )
    with pytest.raises(SchemaError, match=words) as caught:
        forest.predict(table)
    assert "heart" not in caught.value.public
    assert "heart" in str(caught.value)


def test_an_unknown_category_can_be_taken_as_missing(forest):
    forest.set_params(unknown_categories="as_missing")
    unknown = pd.DataFrame({"age": [1.0, 30.0], "ward": ["heart", "heart"]})
    missing = pd.DataFrame({"age": [1.0, 30.0], "ward": pd.Categorical([None, None])})
    assert np.array_equal(forest.predict(unknown), forest.predict(missing))


def test_a_category_that_is_a_number_is_refused(forest):
    with pytest.raises(SchemaError, match="'ward' holds numbers, but its categories are text"):
        forest.predict(pd.DataFrame({"age": [1.0], "ward": [3.0]}))


def test_text_for_a_number_is_refused(forest):
    with pytest.raises(SchemaError, match="'age' is a number in the schema, but holds text"):
        forest.predict(pd.DataFrame({"age": ["old"], "ward": ["eye"]}))


def test_a_missing_column_is_named(forest):
    with pytest.raises(ValueError, match="ward"):
        forest.predict(wards()[["age"]])


def test_an_extra_column_is_named(forest):
    with pytest.raises(ValueError, match="bed"):
        forest.predict(wards().assign(bed=1.0))


def test_columns_in_another_order_are_matched_by_name_or_refused(forest):
    """As in scikit-learn, whose contract refuses; never silently by position."""
    turned = wards()[["ward", "age"]]
    try:
        found = forest.predict(turned)
    except ValueError as error:
        assert "order" in str(error)  # noqa: PT017  either outcome is sound
    else:
        assert np.array_equal(found, forest.predict(wards()))


@each
def test_an_array_of_another_width(kind):
    forest = kind(3).fit(X, Y)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
        forest.predict(X[:, :2])


@each
def test_infinite_numbers_are_refused_at_prediction(kind):
    forest = kind(3).fit(X, Y)
    with pytest.raises(ValueError, match="infinity"):
        forest.predict(np.full((1, 3), np.inf))
    frame = kind(3).fit(pd.DataFrame(X, columns=list("abc")), Y)
    with pytest.raises(TableError, match="column 'a' holds a number that is infinite"):
        frame.predict(pd.DataFrame(np.full((1, 3), np.inf), columns=list("abc")))


@each
def test_no_rows_to_predict(kind):
    with pytest.raises(ValueError, match="0 sample"):
        kind(3).fit(X, Y).predict(X[:0])


@each
def test_gaps_at_prediction_are_fine_where_none_were_seen(kind):
    forest = kind(5, random_state=0).fit(X, Y)
    assert forest.predict(np.full((2, 3), np.nan)).shape == (2,)
