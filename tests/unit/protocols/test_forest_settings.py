"""The settings that all forest protocols share: legal values are data, one wording."""

from dataclasses import FrozenInstanceError, asdict, replace
from typing import Any

import msgspec
import numpy as np
import pytest

from spinney.errors import SettingError
from spinney.protocols.settings import ForestSettings

GOOD = ForestSettings(task="classification")


@pytest.mark.parametrize(
    ("max_features", "n_columns", "n_slots"),
    [
        ("sqrt", 30, 5),
        ("sqrt", 1, 1),
        ("log2", 30, 4),
        ("log2", 1, 1),
        (None, 30, 30),
        (7, 30, 7),
        (70, 30, 30),
        (0.5, 30, 15),
        (0.001, 30, 1),
        (1.0, 30, 30),
        (1, 30, 1),
        (np.int64(7), 30, 7),
        (np.float32(0.5), 30, 15),
    ],
)
def test_how_many_features_a_node_is_asked_about(max_features, n_columns, n_slots):
    assert replace(GOOD, max_features=max_features).n_slots(n_columns) == n_slots


def test_a_number_of_rows_may_be_a_fraction():
    assert GOOD.least_rows(5, 100) == 5
    assert GOOD.least_rows(0.051, 100) == 6
    assert GOOD.least_rows(np.float64(0.5), 3) == 2


def test_settings_are_frozen():
    with pytest.raises(FrozenInstanceError):
        GOOD.max_depth = 3  # type: ignore[misc]


def test_numpy_s_numbers_become_python_s():
    """Messages, reports and files carry Python's own types."""
    given: dict[str, Any] = {
        "n_estimators": np.int64(3),
        "max_depth": np.uint8(4),
        "min_impurity_decrease": np.float64(0.25),
        "bootstrap": np.bool_(False),
        "criterion": np.str_("entropy"),
    }
    settings = replace(GOOD, **given)
    assert {type(value) for value in asdict(settings).values()} <= {
        int,
        float,
        str,
        bool,
        type(None),
    }
    assert msgspec.json.encode(asdict(settings))
    assert settings == replace(
        GOOD,
        n_estimators=3,
        max_depth=4,
        min_impurity_decrease=0.25,
        bootstrap=False,
        criterion="entropy",
    )


@pytest.mark.parametrize("message_limit", [0, 65535, "big"])
def test_a_message_limit_too_small_for_a_node_is_refused(message_limit):
    with pytest.raises(SettingError, match="message_limit must be a whole number between 65536"):
        replace(GOOD, message_limit=message_limit)


def test_a_criterion_belongs_to_its_task():
    with pytest.raises(SettingError, match="criterion must be 'squared_error'; got 'gini'"):
        ForestSettings(task="regression")
    assert ForestSettings(task="regression", criterion="squared_error").task == "regression"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("n_estimators", 100_001, "n_estimators must be a whole number between 1 and 100000"),
        ("n_estimators", 10**30, "n_estimators must be a whole number between 1 and 100000"),
        ("message_limit", 2**31 + 1, "message_limit must be a whole number between 65536 and"),
        ("seed", 2**64, "seed must be a whole number between 0 and"),
        ("max_bins", 256, "max_bins must be a whole number between 2 and 255"),
    ],
)
def test_sizes_beyond_all_reason_are_refused(name, value, words):
    """They come in messages too, and a party must not try."""
    given: dict[str, Any] = {name: value}
    with pytest.raises(SettingError, match=words):
        replace(GOOD, **given)


def test_more_rows_than_anybody_has_are_as_good_as_all():
    huge = replace(GOOD, min_samples_leaf=10**30)
    assert huge.least_rows(huge.min_samples_leaf, 100) < 2**62
