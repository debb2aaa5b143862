"""What parties contribute to predictions: Shapley values by hand, from the joined trees."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from spinney import VerticalBoostingClassifier, VerticalBoostingRegressor
from spinney.tables.frames import columns_of

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
TREES = {"max_iter": 4, "batch_trees": 2, "max_depth": 3, "min_samples_leaf": 3, "random_state": 1}


def fitted(kind, table, y, **more):
    names = list(table.columns)
    third = len(names) // 3
    parties = {"bank": names[:third], "shop": names[third : 2 * third], "post": names[2 * third :]}
    model = kind(column_party=parties, label_party="shop", **(TREES | more))
    owner = [place for place, own in enumerate(parties.values()) for _ in own]
    return model.fit(table, y), owner


def worth(model, owner, rows, coalition):
    """Return the trees' sum for each row if only some parties' cuts are followed."""
    forest, total = model.forest, 0.0
    for root in forest.tree_start[:-1]:
        total = total + walked(forest, owner, rows, coalition, int(root))
    return total


def walked(forest, owner, rows, coalition, node):
    left = int(forest.left[node])
    if left == node:
        return np.tile(forest.value[node], (len(rows), 1))
    sides = [walked(forest, owner, rows, coalition, child) for child in (left, left + 1)]
    if owner[forest.feature[node]] in coalition:
        goes = goes_left(forest, node, rows[:, forest.feature[node]])[:, None]
        return np.where(goes, *sides)
    n = forest.moments[[left, left + 1], 0]
    return (n[0] * sides[0] + n[1] * sides[1]) / n.sum()


def goes_left(forest, node, values):
    if forest.subset[node] >= 0:
        bins = np.where(np.isnan(values), 255, values).astype(np.uint64)
        words = forest.bin_sets[forest.subset[node]][(bins >> np.uint64(6)).astype(int)]
        return (words >> (bins & np.uint64(63))) & np.uint64(1) == 1
    below = values <= forest.threshold[node]
    return np.where(np.isnan(values), forest.missing_left[node], below)


@pytest.mark.parametrize(
    ("label", "more"),
    [("two classes", {"labels": "encrypted"}), ("three classes", {}), ("amount", {})],
)
def test_contributions_are_shapley_values_of_parties(label, more, ward_table, ward_labels):
    kind = VerticalBoostingRegressor if label == "amount" else VerticalBoostingClassifier
    fit, owner = fitted(kind, ward_table, ward_labels[label], **more)
    model, table = fit.model_, ward_table.iloc[:60]
    rows = model.rows(columns_of(table, model.schema).values(slice(None)))
    found = fit.contributions(table)
    assert list(found) == ["bank", "shop", "post"]
    value = {
        chosen: worth(model, owner, rows, chosen)
        for size in range(4)
        for chosen in combinations(range(3), size)
    }
    for player, name in enumerate(found):
        others = [one for one in range(3) if one != player]
        expected = 0.0
        for size in range(3):
            for chosen in combinations(others, size):
                joined = tuple(sorted((*chosen, player)))
                expected = expected + (value[joined] - value[chosen]) / (3 * comb(2, size))
        np.testing.assert_allclose(found[name], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(sum(found.values()), value[0, 1, 2] - value[()], atol=1e-9)


@pytest.mark.parametrize("labels", ["shared", "encrypted"])
def test_own_importances_are_those_of_the_joined_model(labels, ward_table, ward_labels):
    y = ward_labels["two classes"]
    fit, _ = fitted(VerticalBoostingClassifier, ward_table, y, labels=labels)
    found = np.concatenate(list(fit.own_importances_.values()))
    np.testing.assert_allclose(found, fit.feature_importances_, rtol=1e-12)
    assert found.sum() == pytest.approx(1.0)
