"""After `fit(party=...)` every party's own model can be asked for; what `fit` refuses it names."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import spinney
from spinney import Schema, deal_rows
from spinney.errors import SettingError

N = 300
RANDOM = np.random.default_rng(0)
X = pd.DataFrame({"age": RANDOM.normal(50, 15, N), "dose": RANDOM.normal(size=N)})
ILL = np.where(X["age"] + RANDOM.normal(0, 5, N) > 50, "yes", "no")
SITE = deal_rows(ILL, 3, random_state=0)
KINDS = {
    "HorizontalForestClassifier": {"n_estimators": 5, "random_state": 0},
    "HorizontalForestRegressor": {"n_estimators": 5, "random_state": 0},
    "HorizontalBoostingClassifier": {"max_iter": 10, "random_state": 0},
    "HorizontalBoostingRegressor": {"max_iter": 10, "random_state": 0},
    "ExtraTreesClassifier": {"n_estimators": 5, "random_state": 0},
    "ExtraTreesRegressor": {"n_estimators": 5, "random_state": 0},
    "PrivateTreeClassifier": {"epsilon": 50},
    "PrivateForestClassifier": {"epsilon": 50},
    "PrivateBoostingClassifier": {"epsilon": 50},
}


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.parametrize("name", KINDS)
def test_every_party_has_a_model_of_its_own_to_compare_with(name):
    y = ILL if name.endswith("Classifier") else 2 * X["age"].to_numpy()
    model = getattr(spinney, name)(**KINDS[name], baselines=True).fit(X, y, party=SITE)
    found = model.compare(X, y)
    assert set(found["local"]) == {"0", "1", "2"}
    scores = [found["federated"], found["pooled"], *found["local"].values()]
    assert all(0.5 < score <= 1 for score in scores)
    if not name.startswith("Private"):
        assert found["federated"] == found["pooled"]  # bit for bit the same model
        alone = getattr(spinney, name)(**KINDS[name]).fit(X[SITE == 1], y[SITE == 1])
        assert found["local"]["1"] == pytest.approx(alone.score(X, y), abs=1e-4)


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_evolved_trees_compare_with_those_grown_at_home(kind):
    y = ILL if kind == "Classifier" else 2 * X["age"].to_numpy()
    model = getattr(spinney, f"GeneticTree{kind}")(4, n_generations=2, baselines=True)
    found = model.set_params(random_state=0).fit(X, y, party=SITE).compare(X, y)
    alone = getattr(spinney, f"GeneticTree{kind}")(4, n_generations=2, random_state=0).fit(X, y)
    home = alone.home_model_.of_owner("all")
    assert model.baselines_["pooled"].to_bytes() == home.to_bytes()
    assert set(found["local"]) == {"0", "1", "2"}
    scores = [found["federated"], found["pooled"], *found["local"].values()]
    assert all(0.5 < score <= 1 for score in scores)


VERTICAL: dict[str, dict[str, Any]] = {
    "VerticalForestClassifier": {"n_estimators": 5},
    "VerticalForestRegressor": {"n_estimators": 5},
    "VerticalBoostingClassifier": {"max_iter": 5, "monotonic_cst": {"dose": 1}},
    "VerticalBoostingRegressor": {"max_iter": 5, "monotonic_cst": {"dose": 1}},
}


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
@pytest.mark.parametrize("name", VERTICAL)
def test_over_columns_only_the_label_party_has_a_model_of_its_own(name):
    y = ILL if name.endswith("Classifier") else X["age"].to_numpy() + 5 * X["dose"].to_numpy()
    sides = {"column_party": {"clinic": ["age"], "lab": ["dose"]}, "label_party": "clinic"}
    model = getattr(spinney, name)(**VERTICAL[name], **sides, baselines=True, random_state=0)
    found = model.fit(X, y).compare(X, y)
    assert found["federated"] == found["pooled"]  # bit for bit the same model
    assert found["local"]["lab"] is None  # it holds no labels
    assert 0.5 < found["local"]["clinic"] <= 1
    assert model.baselines_["local"]["clinic"].schema.names == ("age",)


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
def test_a_label_party_without_columns_has_no_model_of_its_own():
    sides = {"column_party": {"clinic": [], "lab": ["age", "dose"]}, "label_party": "clinic"}
    model = spinney.VerticalForestClassifier(3, **sides, baselines=True, random_state=0)
    assert model.fit(X, ILL).compare(X, ILL)["local"] == {"clinic": None, "lab": None}


def test_a_party_with_one_class_has_no_model_of_its_own():
    site = np.where(ILL == "yes", "only yes", "only no")
    model = spinney.HorizontalForestClassifier(3, baselines=True, random_state=0)
    with pytest.warns(spinney.errors.PrivacyLeakWarning):
        model.fit(X, ILL, party=site)
    assert model.compare(X, ILL)["local"] == {"only no": None, "only yes": None}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("PrivateTreeClassifier", {"epsilon": 1}),
        ("PrivateForestClassifier", {"epsilon": 1}),
        ("PrivateBoostingClassifier", {"epsilon": 1}),
        ("GeneticTreeClassifier", {}),
        ("VerticalForestClassifier", {}),
        ("VerticalBoostingClassifier", {}),
    ],
)
def test_weights_are_refused_by_the_estimator_s_own_name(name, given):
    with pytest.raises(SettingError, match=f"{name} takes no sample_weight: it counts every row"):
        getattr(spinney, name)(**given).fit(X, ILL, sample_weight=np.ones(N))


def test_a_schema_of_a_frame_needs_no_label():
    schema = Schema.from_frame(X, ranges={"age": (0, 120), "dose": (-5, 5), "y": ("no", "yes")})
    assert schema.label.classes == ("no", "yes")
    tree = spinney.PrivateTreeClassifier(epsilon=5, schema=schema, n_rows=N).fit(X, ILL)
    assert tree.model_.schema.columns[0].range == (0, 120)


def test_a_declared_list_of_categories_may_be_long_whatever_else_is_declared():
    codes = [f"c{number:03d}" for number in range(300)]
    table = X.assign(code=[codes[row % 300] for row in range(N)])
    model = spinney.HorizontalForestClassifier(3, random_state=0, schema={"code": codes})
    assert model.fit(table, ILL).model_.schema.columns[2].categories == tuple(codes)


@pytest.mark.parametrize("schema", [None, {"age": (-50, 200), "dose": (-9, 9)}])
def test_a_label_made_from_a_column_has_another_name(schema):
    y = 2 * X["age"]  # pandas calls it "age" too
    model = spinney.HorizontalForestRegressor(3, random_state=0, schema=schema).fit(X, y)
    assert model.model_.schema.names == ("age", "dose")
    assert model.model_.schema.label.name == "age_"
    assert model.score(X, y) > 0.9


@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
def test_a_model_without_baselines_says_what_is_missing_and_an_unfitted_one_that_it_is():
    model = spinney.HorizontalForestClassifier(3, random_state=0)
    with pytest.raises(NotFittedError):
        model.compare(X, ILL)
    model.fit(X, ILL, party=SITE)
    with pytest.raises(SettingError, match="it was fitted, but without the pooled model") as told:
        model.compare(X, ILL)
    assert "fit it again with baselines=True" in str(told.value)
