"""How well a forest does on a party's own rows, as counts."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, r2_score

from spinney import HorizontalForestClassifier, HorizontalForestRegressor
from spinney.protocols.rows.quality import quality_of, with_majorities


def test_scores_of_two_classes_are_scikit_learn_s():
    random = np.random.RandomState(0)
    truth, guess = random.randint(0, 2, 200), random.randint(0, 2, 200)
    found = quality_of(confusion_matrix(truth, guess), bootstrap=True, step=1.0)
    assert found.rows == "out-of-bag"
    assert found.n_rows == 200
    assert found.scores["accuracy"] == pytest.approx(accuracy_score(truth, guess))
    assert found.scores["f1"] == pytest.approx(f1_score(truth, guess))


def test_scores_of_more_classes_are_means_over_those_that_occur():
    truth = np.array([0, 0, 1, 1, 2, 2])
    guess = np.array([0, 1, 1, 1, 2, 0])
    counts = confusion_matrix(truth, guess, labels=[0, 1, 2, 3])
    found = quality_of(counts, bootstrap=False, step=1.0)
    assert found.rows == "training"
    assert found.scores["f1"] == pytest.approx(f1_score(truth, guess, average="macro"))


def test_scores_of_amounts():
    """Three rows at 0, 1 and 2 steps, guessed as 0, 1 and 1: error 1, spread 2."""
    found = quality_of(np.array([3, 1, 3, 5]), bootstrap=True, step=10.0)
    assert found.n_rows == 3
    assert found.scores["r2"] == pytest.approx(r2_score([0, 1, 2], [0, 1, 1]))
    assert found.scores["rmse"] == pytest.approx(10 * np.sqrt(1 / 3))


@pytest.mark.parametrize("counts", [np.zeros((2, 2), int), np.zeros(4, int)])
def test_a_party_with_no_row_to_judge_by_has_no_score(counts):
    found = quality_of(counts, bootstrap=True, step=1.0)
    assert found.n_rows == 0
    assert found.scores == {}


def test_each_party_is_told_how_common_its_most_common_class_is_here_and_everywhere():
    counts = {"a": np.array([[8, 1], [1, 0]]), "b": np.array([[1, 1], [4, 24]])}
    quality = {name: quality_of(held, bootstrap=True, step=1.0) for name, held in counts.items()}
    found = with_majorities(quality, counts)
    assert (found["a"].scores["majority"], found["a"].scores["joint_majority"]) == (0.9, 11 / 40)
    assert (found["b"].scores["majority"], found["b"].scores["joint_majority"]) == (
        28 / 30,
        29 / 40,
    )
    none = {"a": np.zeros((2, 2), int), "b": counts["b"]}
    nobody = {name: quality_of(held, bootstrap=True, step=1.0) for name, held in none.items()}
    assert with_majorities(nobody, none)["a"].scores == {}


def test_on_training_rows_the_counts_are_the_model_s_own_predictions(ward_table, ward_labels):
    y = ward_labels["three classes"]
    forest = HorizontalForestClassifier(5, bootstrap=False, max_depth=3, random_state=0)
    forest.fit(ward_table, y)
    (found,) = forest.report_.quality
    guess = forest.predict(ward_table)
    assert found.scores["accuracy"] == pytest.approx(accuracy_score(y, guess))
    assert found.scores["f1"] == pytest.approx(f1_score(y, guess, average="macro"))


def test_on_training_rows_the_error_of_amounts_is_the_model_s_own(ward_table, ward_labels):
    y = ward_labels["amount"]
    forest = HorizontalForestRegressor(5, bootstrap=False, max_depth=4, random_state=0)
    forest.fit(ward_table, y)
    (found,) = forest.report_.quality
    guess = forest.predict(ward_table)
    assert found.scores["r2"] == pytest.approx(r2_score(y, guess), abs=1e-3)
    assert found.scores["rmse"] == pytest.approx(np.sqrt(((y - guess) ** 2).mean()), rel=1e-3)


def test_the_error_of_amounts_is_right_beside_an_outlier():
    """Errors are summed in steps of the label's range, which one row may have stretched."""
    random = np.random.RandomState(0)
    X = random.standard_normal((400, 2))
    y = X[:, 0] + 0.1 * random.standard_normal(400)
    y[0] = 1e5
    forest = HorizontalForestRegressor(3, bootstrap=False, max_depth=6, random_state=0).fit(X, y)
    (found,) = forest.report_.quality
    rmse = np.sqrt(((y - forest.predict(X)) ** 2).mean())
    assert rmse < 1.0
    assert found.scores["rmse"] == pytest.approx(rmse, rel=0.05)


def test_out_of_bag_is_more_modest_than_training(ward_table, ward_labels):
    random = np.random.RandomState(0)
    noise = random.randint(0, 2, len(ward_table))
    forest = HorizontalForestClassifier(50, oob_score=True, random_state=0)
    forest.fit(ward_table.drop_duplicates(), noise[ward_table.drop_duplicates().index])
    assert forest.oob_score_ < 0.65
    assert forest.report_.quality[0].scores["accuracy"] == pytest.approx(forest.oob_score_)


def test_a_perfect_column_is_judged_perfect():
    X = np.arange(200.0)[:, None]
    y = (X[:, 0] > 99).astype(int)
    forest = HorizontalForestClassifier(30, oob_score=True, random_state=0).fit(X, y)
    assert forest.oob_score_ > 0.98
