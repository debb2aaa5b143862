"""The privacy budget that a job spent at each party, charge by charge, read from its ledger."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

import msgspec

from spinney.privacy.budget import Measure
from spinney.privacy.claims import Entry
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_store import Charged, Disclosed


class ChargeLine(msgspec.Struct, frozen=True):
    """A release and its cost, or its protection if it cost nothing; equal releases share a line."""

    what: str
    times: int
    cost: str  # of one release
    noise: str  # the mechanism and its scale, as recorded in the ledger


class PartyBudget(msgspec.Struct, frozen=True):
    """One party's account of one job in one unit; amounts are exact fractions."""

    party: str
    unit: str
    measure: str  # "pure": epsilon; "zcdp": rho
    before: str | None  # None: no limit
    spent: str
    left: str | None
    charges: tuple[ChargeLine, ...]


def budgets_of(ledgers: Mapping[str, Ledger]) -> tuple[PartyBudget, ...]:
    """Return every party's account of the jobs in its ledger."""
    found = []
    for party, ledger in ledgers.items():
        entries = ledger.entries()
        jobs = dict.fromkeys(e.body.question.job for e in entries if isinstance(e.body, Charged))
        for job in jobs:
            of_job = [e for e in entries if e.is_release_of(job)]
            units = dict.fromkeys(e.body.cost.unit for e in of_job if isinstance(e.body, Charged))
            for unit in units:
                spent, left = ledger.spent(job, unit), ledger.left(job, unit)
                found.append(
                    PartyBudget(
                        party,
                        unit.value,
                        ledger.job(job).measure.value,
                        None if left is None else str(spent + left),
                        str(spent),
                        None if left is None else str(left),
                        _lines(of_job),
                    )
                )
    return tuple(found)


def amount(text: str | None) -> str:
    """Return an exact fraction as a readable number."""
    return "no limit" if text is None else f"{float(Fraction(text)):.6g}"


def word_of_measure(measure: str) -> str:
    """Return the name of an amount in a measure: epsilon or rho."""
    return "epsilon" if measure == Measure.PURE else "rho"


def _lines(entries: Iterable[Entry]) -> tuple[ChargeLine, ...]:
    times: dict[tuple[str, str, str], int] = {}
    for entry in entries:
        body = entry.body
        if isinstance(body, Charged):
            cost = f"{word_of_measure(body.cost.measure)} {float(body.cost.amount):.6g}"
            noise = ", ".join(f"{name} {value}" for name, value in body.parameters.items())
            line, n = (body.what, cost, noise), body.n_releases
        else:
            assert isinstance(body, Disclosed)
            line, n = (body.disclosure.what, "none", str(body.disclosure.protection)), 1
        times[line] = times.get(line, 0) + n
    return tuple(ChargeLine(what, n, cost, noise) for (what, cost, noise), n in times.items())
