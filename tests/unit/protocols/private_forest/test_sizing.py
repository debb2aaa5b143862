"""A private forest's size follows from public facts, is told, and costs nothing."""

import numpy as np
import pytest

from spinney import PrivateForestClassifier
from spinney.errors import PrivacyLeakWarning, SettingError
from spinney.jobs.file import load_job
from spinney.protocols.private_forest.settings import Settings
from spinney.protocols.private_forest.sizing import choose_size
from spinney.protocols.settings import PrivacySettings
from spinney.tables.schema import Column, Label, Schema
from spinney.transport import codec
from spinney.transport.messages import message

PUBLIC = Schema(
    (Column("a", "number", range=(0, 1)), Column("b", "number", range=(0, 1))),
    Label("y", "class", classes=(0, 1)),
)
JOB = """
[job]
name = "sized"
protocol = "private_forest"
parties = ["north", "south"]

[settings]
epsilon = 1
{settings}

[schema]
label = "ill"
classes = ["no", "yes"]

[schema.columns]
age = {{ kind = "number", range = [0, 100] }}
smokes = {{ kind = "boolean" }}
"""


def size(n_rows=10_000, epsilon=1.0, n_columns=14, n_classes=2, limit=256 << 20, **given):
    return choose_size(
        n_rows=n_rows,
        epsilon=epsilon,
        n_columns=n_columns,
        n_classes=n_classes,
        message_limit=limit,
        **given,
    )


@pytest.fixture
def rows():
    random = np.random.RandomState(0)
    X = random.uniform(size=(2000, 2))
    return X, (X.sum(axis=1) + random.normal(0, 0.2, 2000) > 1.2).astype(int)


def test_rows_and_epsilon_count_by_their_product():
    small, large = size(1000, 0.3), size(100_000, 4.0)
    assert (small.n_estimators, small.max_depth) == (8, 5)
    assert (large.n_estimators, large.max_depth) == (100, 11)
    a, b = size(1000, 4.0), size(4000, 1.0)
    assert (a.n_estimators, a.max_depth) == (b.n_estimators, b.max_depth)


def test_more_classes_need_fewer_trees_and_more_columns_more():
    assert size(n_classes=26).n_estimators < size().n_estimators
    assert size(1000, 0.3, n_columns=57).n_estimators * 5 >= 2 * 57
    assert size(n_classes=3).sharpness == 2
    assert size(n_classes=4).sharpness == 1


def test_what_is_given_is_kept_and_a_reply_stays_within_its_limit():
    kept = size(n_estimators=7)
    assert kept.n_estimators == 7
    assert kept.why.startswith("7 trees of depth")
    assert size(max_depth=3).max_depth == 3
    tight = size(1_000_000, 10.0, limit=1 << 20)
    assert tight.n_estimators * 2**tight.max_depth * 2 * 8 <= 1 << 20


def test_a_forest_says_which_size_was_chosen_and_from_what(rows):
    forest = PrivateForestClassifier(1.0, schema=PUBLIC, n_rows=2000, random_state=0).fit(*rows)
    assert forest.choice_ == (
        "18 trees of depth 7, chosen for about 2,000 rows, epsilon 1, 2 columns and 2 classes"
    )
    assert forest.report_.settings["n_estimators"] == 18
    assert forest.report_.settings["sharpness"] == 2.0
    assert f"size         {forest.choice_}." in str(forest.report_)


def test_the_number_of_rows_is_a_public_fact(rows):
    with pytest.warns(PrivacyLeakWarning, match="number of rows"):
        PrivateForestClassifier(1.0).fit(*rows)
    assuming = PrivateForestClassifier(1.0, schema=PUBLIC).fit(*rows)  # reads nothing
    words = "about 4,000 rows (assumed, because n_rows is not given), epsilon 1"
    assert words in assuming.choice_
    sized = PrivateForestClassifier(1.0, n_estimators=5, max_depth=3, schema=PUBLIC).fit(*rows)
    assert sized.choice_ == "the size was given"
    assert "sharpness" not in sized.report_.settings


def test_sharpening_keeps_the_order_and_moves_scores_away_from_the_share_of_all_rows(rows):
    X, y = rows
    how = {"n_estimators": 20, "max_depth": 5, "schema": PUBLIC, "random_state": 0}
    soft = PrivateForestClassifier(1000.0, **how).fit(X, y).predict_proba(X)[:, 1]
    sharp = PrivateForestClassifier(1000.0, sharpness=2, **how).fit(X, y).predict_proba(X)[:, 1]
    assert np.std(sharp) > 1.2 * np.std(soft)
    assert np.corrcoef(soft, sharp)[0, 1] > 0.97
    assert sharp.min() >= 0
    assert sharp.max() <= 1


def test_a_job_with_a_number_of_rows_is_sized_and_one_without_is_as_it_was(tmp_path):
    def settings_of(settings):
        path = tmp_path / "job.toml"
        path.write_text(JOB.format(settings=settings))
        return load_job(path, deployed=True).protocol_settings(("no", "yes"))

    sized, plain = settings_of("n_rows = 2000"), settings_of("")
    assert (sized.n_estimators, sized.max_depth, sized.sharpness) == (18, 7, 2.0)
    assert (plain.n_estimators, plain.max_depth) == (20, 5)
    assert "sharpness" not in plain.described()
    given = settings_of("n_rows = 2000\nn_estimators = 3\nmax_depth = 2")
    assert (given.n_estimators, given.max_depth) == (3, 2)
    assert "sharpness" not in given.described()
    with pytest.raises(SettingError, match="n_rows must be a whole number at least 1; got 0"):
        settings_of("n_rows = 0")


@message
class Carrying:
    """A message with settings."""

    settings: Settings


def test_settings_without_sharpness_travel_as_before():
    plain = Settings(privacy=PrivacySettings(job="j", epsilon="1"))
    assert b"sharpness" not in codec.encode(Carrying(plain))
    assert "sharpness" not in repr(plain)
    sharp = Settings(privacy=plain.privacy, sharpness=2.0)
    assert codec.decode(codec.encode(Carrying(sharp)), Carrying).settings == sharp


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sharpness": 0}, "sharpness must be above 0 and at most 10; got 0"),
        ({"sharpness": 11}, "sharpness must be above 0 and at most 10; got 11"),
        ({"sharpness": "much"}, "sharpness must be a finite number of at least 0; got 'much'"),
        ({"n_rows": 0}, "n_rows must be a whole number at least 1 or None; got 0"),
        ({"n_estimators": 0}, "n_estimators must be a whole number at least 1; got 0"),
        ({"max_depth": "deep"}, "max_depth must be a whole number at least 1; got 'deep'"),
    ],
)
@pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
def test_bad_parameters_are_refused(rows, given, words):
    with pytest.raises(SettingError, match=words):
        PrivateForestClassifier(1.0, schema=PUBLIC, **given).fit(*rows)
