"""Rows that carry noise before anything is counted: S1's input perturbation, for whole records.

Kalloori and Klingler (2022), section 5.0.2, perturb each client's data and then train as usual. The
paper states neither ranges nor how epsilon is divided, and does not perturb the label. Here the
budget covers the whole record: epsilon / (columns + 1) for every column and for the label. So
replacing a record by any other is hidden (local differential privacy, unit "record, replace").

| column | noise |
|---|---|
| number | clipped to its declared range and put on a grid of 4,095 steps; then discrete Laplace |
| | noise of sensitivity 4,095, clipped again. A missing value is the middle of the range |
| category, boolean | k-ary randomised response; a missing value is one more category |
| class label | k-ary randomised response |
| number as label | as a number |

A party perturbs its table once per job, pays once, and keeps the result with its ledger. Everything
that follows (edges, bootstraps, trees and scores) uses that table and costs nothing more.

**Who learns what.** The same as in the protocol that runs, but about perturbed rows. The number of
a party's rows stays visible, so adding or removing a record is *not* protected; the ledger says so.
**Who never learns what.** Nobody but its party sees a true cell or label, or a count of them.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from spinney.errors import SettingError
from spinney.privacy.accounting import JobTerms
from spinney.privacy.budget import Unit
from spinney.privacy.mechanisms import DiscreteLaplace, RandomisedResponse
from spinney.privacy.release import Charge, Exact
from spinney.privacy.scopes import PARTY_TOTALS, Budget, Disclosure, Protection, Spend
from spinney.protocols.accounts.account import PartyAccount
from spinney.protocols.settings import PrivacySettings, Terms
from spinney.tables.columns import VectorColumns
from spinney.tables.schema import Column, Label, Schema
from spinney.tables.table import MemoryTable, Table
from spinney.typing import Integers

_STEPS: Final = 2**12 - 1  # grid of a number: finer than any bins, coarse enough for any epsilon


_ROW_COUNT: Final = Disclosure(
    "the number of rows",
    Protection.UNPROTECTED,
    "every row is reported, perturbed",
    (Unit.RECORD_ADD_REMOVE, PARTY_TOTALS),
)


Noise = DiscreteLaplace | RandomisedResponse


@dataclass(frozen=True)
class InputPlan:
    """What each column of a perturbed table costs."""

    called: ClassVar[str] = "<class 'spinney.protocols.perturbed_input.InputPlan'>"

    schema: Schema
    privacy: PrivacySettings
    n_parties: int

    def __post_init__(self) -> None:
        _ = self.noises  # raises if a range is missing or the noise would not fit

    @property
    def share(self) -> Fraction:
        """What each column, and the label, may spend."""
        if self.privacy.epsilon is None:
            return self.privacy.amount
        return self.privacy.amount / (len(self.schema.columns) + 1)

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        """The noise of every column, followed by that of the label."""
        places: list[Column | Label] = [*self.schema.columns, self.schema.label]
        return tuple(self._noise(place) for place in places)

    def _noise(self, place: Column | Label) -> Noise:
        unit = Unit.RECORD_REPLACE
        if place.kind == "number":
            _range(place)
            return DiscreteLaplace(self.share, Fraction(_STEPS), unit)
        return RandomisedResponse(self.share, _n_categories(place), unit)

    def planned(self) -> list[Spend]:
        """Return everything the job may spend."""
        names = [*(f"column {name!r}" for name in self.schema.names), "the label"]
        return [
            Spend(f"{name}, perturbed", noise)
            for name, noise in zip(names, self.noises, strict=True)
        ]

    def terms(self, data: str) -> JobTerms:
        """Return the terms on which a party's ledger opens the job for a data set."""
        budget = Budget.pure(self.privacy.amount, Unit.RECORD_REPLACE)
        budgets = (budget,) if self.privacy.epsilon else ()
        return JobTerms(self.privacy.job, data, self.n_parties, 1, budgets)


def perturb_table(table: Table, plan: InputPlan, account: PartyAccount) -> MemoryTable:
    """Return the table with noise, which is drawn and paid for once per job."""
    question = Terms(plan.privacy, plan.n_parties)

    def draw(charges: tuple[Charge, ...]) -> bytes:
        return b"".join(
            _clipped(noise, noise.release(Exact(codes), charge).values).tobytes()
            for noise, codes, charge in zip(plan.noises, _codes(table), charges, strict=True)
        )

    data = account.pay(plan, 0, question, plan.planned(), draw, disclosures=[_ROW_COUNT])
    codes = np.frombuffer(data, np.int32).reshape(len(plan.noises), -1)
    return _table(table.schema, codes)


def _codes(table: Table) -> list[Integers]:
    """Return every column, followed by the label, as whole numbers."""
    schema = table.schema
    out = np.empty((len(schema.columns) + 1, table.n_rows), np.int64)
    row = 0
    for batch in table.batches():
        rows = slice(row, row + batch.keys.size)
        for column, values, to in zip(schema.columns, batch.values, out, strict=False):
            to[rows] = _column_codes(column, values)
        is_number = schema.label.kind == "number"
        target = _steps(schema.label, batch.target) if is_number else batch.target
        out[-1, rows] = target
        row = rows.stop
    return list(out)


def _column_codes(column: Column, values: NDArray[np.float32]) -> Integers:
    if column.kind == "number":
        return _steps(column, values)
    gap = _n_categories(column) - 1
    codes: Integers = np.where(np.isnan(values), gap, values).astype(np.int64)
    return codes


def _steps(place: Column | Label, values: NDArray[Any]) -> Integers:
    """Return numbers as steps on the grid of their range."""
    low, high = _range(place)
    middle = low / 2 + high / 2
    numbers = np.where(np.isnan(values), middle, values.astype(np.float64)).clip(low, high)
    span = high - low or 1.0
    return np.rint((numbers - low) / span * _STEPS).astype(np.int64)


def _clipped(noise: Noise, codes: Integers) -> NDArray[np.int32]:
    top = _STEPS if isinstance(noise, DiscreteLaplace) else noise.n_categories - 1
    return codes.clip(0, top).astype(np.int32)


def _table(schema: Schema, codes: NDArray[np.int32]) -> MemoryTable:
    """Return the table that the codes represent."""
    columns = tuple(
        _cells(column, line) for column, line in zip(schema.columns, codes, strict=False)
    )
    label = schema.label
    target = codes[-1] if label.kind == "class" else _numbers(label, codes[-1])
    return MemoryTable(schema, VectorColumns(columns), target)


def _cells(column: Column, codes: NDArray[np.int32]) -> NDArray[np.float32]:
    if column.kind == "number":
        return _numbers(column, codes).astype(np.float32)
    gap = _n_categories(column) - 1
    return np.where(codes == gap, np.nan, codes).astype(np.float32)


def _numbers(place: Column | Label, codes: NDArray[np.int32]) -> NDArray[np.float64]:
    low, high = _range(place)
    return (low + (high - low) * (codes / _STEPS)).clip(low, high)


def _range(place: Column | Label) -> tuple[float, float]:
    if place.range is None or not np.isfinite(place.range[1] - place.range[0]):
        raise SettingError(
            f"{place.name!r} has no declared range for noise to cover. Declare a finite range "
            "in the schema."
        )
    return place.range


def _n_categories(place: Column | Label) -> int:
    """Return how many values a category has: one more for missing, except for a label."""
    if isinstance(place, Label):
        return len(place.classes or ())
    if place.kind == "boolean":
        return 3
    if place.categories is None:
        raise SettingError(
            f"Column {place.name!r} has no declared categories. Declare them in the schema."
        )
    return len(place.categories) + 1
