"""Exact and Noised do not mix; a charge comes from the ledger and is spent once."""

import copy
import dataclasses
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spinney
from spinney.errors import InternalError, SettingError
from spinney.privacy import release
from spinney.privacy.budget import Cost, Measure, Unit
from spinney.privacy.release import (
    Charge,
    Exact,
    LedgerToken,
    Noised,
    Shares,
)

SOURCES = Path(spinney.__file__).parent


def cost(epsilon, unit=Unit.RECORD_ADD_REMOVE):
    return Cost(Measure.PURE, Fraction(epsilon), unit)


def charged(epsilon):
    return Charge._issued_by(
        release._LEDGER_TOKEN, cost=cost(epsilon), entry="17", reason="level 4"
    )


@pytest.mark.parametrize("kind", [Exact, Noised])
def test_values_are_64_bit_integers_whatever_integers_came(kind):
    for dtype in (np.int8, np.uint8, np.int32, np.int64, np.uint64):
        held = kind(np.array([[1, 2], [3, 4]], dtype=dtype))
        assert held.values.dtype == np.int64
        assert held.values.tolist() == [[1, 2], [3, 4]]
        assert held.shape == (2, 2)


@pytest.mark.parametrize("kind", [Exact, Noised])
@pytest.mark.parametrize("values", [np.array([0.5]), np.array([1.0]), np.array([True]), "text"])
def test_values_that_are_not_integers_are_refused_not_rounded(kind, values):
    with pytest.raises(InternalError, match=f"{kind.__name__} holds integers only; got "):
        kind(values)


def test_values_beyond_64_bits_are_refused():
    with pytest.raises(InternalError, match="a value is too large"):
        Exact(np.array([2**63], dtype=np.uint64))


def test_an_empty_array_is_fine():
    assert Exact(np.empty((0, 3), dtype=np.uint64)).shape == (0, 3)


@pytest.mark.parametrize("held", [Exact(np.arange(3)), Noised(np.arange(3))])
def test_held_values_cannot_change_nor_pass_for_an_array_nor_be_printed(held):
    with pytest.raises(ValueError, match="read-only"):
        held.values[0] = 9
    with pytest.raises(dataclasses.FrozenInstanceError):
        held.values = np.zeros(3)
    with pytest.raises(InternalError, match=f"{type(held).__name__} is not an array"):
        np.asarray(held)
    with pytest.raises(TypeError):
        held + held
    assert repr(held) == str(held) == f"{type(held).__name__}(shape=(3,))"


def test_the_owner_keeps_a_writeable_array():
    counts = np.arange(3)
    Exact(counts)
    counts[0] = 5


def test_the_two_kinds_are_not_each_other():
    assert not isinstance(Exact(np.arange(3)), Noised)
    assert not isinstance(Noised(np.arange(3)), Exact)


@pytest.mark.parametrize("make", [Charge, lambda: dataclasses.replace(charged(1), entry="18")])
def test_a_charge_cannot_be_made_by_hand(make):
    with pytest.raises((InternalError, TypeError, ValueError), match=r"Charge|init=False"):
        make()


def test_a_charge_cannot_be_issued_without_the_ledgers_token():
    tokens: list[Any] = [None, object(), object.__new__(LedgerToken)]
    for token in tokens:
        with pytest.raises(InternalError, match="Only a ledger makes a Charge"):
            Charge._issued_by(token, cost=cost(1), entry="1", reason="level 1")


def test_the_token_cannot_be_made_again():
    with pytest.raises(InternalError, match="token cannot be made a second time"):
        LedgerToken()


def test_a_charge_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        charged(1).cost = cost(9)


def test_only_the_ledger_issues_charges():
    guilty = [
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if any(word in path.read_text() for word in ("_LEDGER_TOKEN", "Charge._issued_by"))
    ]
    assert set(guilty) <= {"privacy/release.py", "privacy/ledger.py"}


def test_only_tests_seed_the_noise():
    guilty = [path.name for path in SOURCES.rglob("*.py") if "seeded_for_tests" in path.read_text()]
    assert guilty == ["entropy.py"]


def test_a_charge_pays_once():
    charge = charged(1)
    charge.spend(cost(1))
    with pytest.raises(
        InternalError, match=r"level 4 has already paid for a release.*stored reply"
    ):
        charge.spend(cost("1/10"))
    with pytest.raises(InternalError, match="already"):
        copy.copy(charge).spend(cost(1))


def test_a_charge_that_falls_short_is_not_spent():
    charge = charged(1)
    short = r"does not cover the release: it paid pure 1 \(delta 0\) per record, add or remove, the"
    with pytest.raises(InternalError, match=short):
        charge.spend(cost(2))
    with pytest.raises(InternalError, match=r"the release costs pure 1 .* per label"):
        charge.spend(cost(1, Unit.LABEL))
    charge.spend(cost(1))


def test_of_many_threads_one_spends():
    def paid(charge):
        try:
            charge.spend(cost(1))
        except InternalError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            assert sum(pool.map(paid, [charged(1)] * 8)) == 1  # one charge, eight threads


@pytest.mark.parametrize(
    ("parties", "honest"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (10, 5), (11, 6)]
)
def test_half_of_the_parties_rounded_up_are_honest_unless_said(parties, honest):
    assert Shares(parties) == Shares(parties, honest)


@pytest.mark.parametrize(("parties", "honest"), [(5, 0), (5, 6), (5, -1), (0, None), (0, 0)])
def test_honest_parties_are_between_one_and_all(parties, honest):
    with pytest.raises(SettingError, match="honest must be between 1 and the number of parties"):
        Shares(parties, honest)


def test_two_parties_promise_one_honest_or_are_told_why():
    assert Shares(2).honest == 1
    with pytest.raises(
        SettingError, match=r"honest must be 1: each knows its own share.*Set honest=1"
    ):
        Shares(2, 2)


@pytest.mark.parametrize(("parties", "honest"), [(2.0, 1), (True, 1), ("5", 3), (5, 2.5)])
def test_numbers_of_parties_are_whole(parties, honest):
    with pytest.raises(SettingError, match=r"(parties|honest) must be a whole number; got"):
        Shares(parties, honest)
