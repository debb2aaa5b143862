"""The curves of private boosting, and the noise in them."""

import numpy as np
import pandas as pd
import pytest

from spinney import PrivateBoostingClassifier, PrivateBoostingRegressor
from spinney.report.page.page import page_of
from spinney.report.shapes import shapes_of
from spinney.tables.schema import Column, Label, Schema

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")


@pytest.fixture(scope="module")
def rows():
    random = np.random.RandomState(0)
    X = pd.DataFrame(
        {"age": random.uniform(0, 100, 500), "ward": random.choice(["ear", "eye"], 500)}
    )
    X["ward"] = X["ward"].astype("category")
    return X, np.where(X["age"] > 50, "yes", "no")


@pytest.fixture(scope="module")
def model(rows):
    return PrivateBoostingClassifier(50.0, n_passes=3, random_state=0).fit(*rows)


def test_curves_add_up_to_the_score(model, rows):
    age, ward = shapes_of(model.model_)
    assert (age.column, ward.column) == ("age", "ward")
    assert ward.at == ("ear", "eye")
    oldest = int(rows[0]["age"].argmax())  # where the curve is flat
    share = model.predict_proba(rows[0].iloc[[oldest]])[0, 1]
    base = float(model.model_.boosted.base[0])
    near = np.abs(np.array(age.at) - rows[0]["age"][oldest]).argmin()
    adds = age.value[0, near] + ward.value[0, ward.at.index(rows[0]["ward"][oldest])]
    assert 1 / (1 + np.exp(-base - adds)) == pytest.approx(share, abs=0.1)
    is_old = np.array(age.at) > 50  # noise may move a single place of the curve
    assert age.value[0, is_old].mean() > 0.5 > -0.5 > age.value[0, ~is_old].mean()
    assert np.all(age.reach > 0)


def test_curves_fitted_to_numbers_are_in_their_column_s_shape_with_their_noise(rows):
    X, _ = rows
    cost = X["age"].to_numpy() / 10 + 3 * (X["ward"] == "eye").to_numpy()
    schema = Schema(
        (
            Column("age", "number", (0.0, 100.0)),
            Column("ward", "category", categories=("ear", "eye")),
        ),
        Label("cost", "number", range=(0.0, 20.0)),
    )
    number = PrivateBoostingRegressor(
        50.0, method="cyclic", n_rows=20_000, schema=schema, random_state=0
    ).fit(X, cost)
    assert "a curve of degree 3 for each column" in number.choice_
    shapes = {shape.column: shape for shape in shapes_of(number.model_)}
    assert np.all(shapes["age"].reach > 0)
    assert np.all(shapes["ward"].reach > 0)
    ward = shapes["ward"].value[0]
    assert ward[1] - ward[0] == pytest.approx(3, abs=1)
    at = np.array(shapes["age"].at)
    slope = np.polyfit(at, shapes["age"].value[0], 1)[0]
    assert slope == pytest.approx(0.1, abs=0.03)
    assert page_of(number.report_, number.model_).count("<polygon") == 1


def test_the_page_draws_every_curve_with_its_band(model):
    page = page_of(model.report_, model.model_)
    assert "What each column adds" in page
    assert page.count("<polygon") == 1
    assert "A curve that stays within its band may be noise." in page
    assert "value ±" not in page.split("<script>")[0]


def test_trees_of_two_columns_have_no_curves(rows):
    pairs = PrivateBoostingClassifier(5.0, n_passes=1, method="pairs", random_state=0).fit(*rows)
    assert shapes_of(pairs.model_) == ()
    assert "What each column adds" not in page_of(pairs.report_, pairs.model_)


def test_a_leaf_says_how_large_its_noise_is_and_no_number_of_rows(model):
    text = model.export_text(0)
    assert "to yes's score, noise of about" in text
    assert "rows" not in text
