"""`spinney ledger`: read, check, copy and restore the budget that a party has spent."""

from pathlib import Path

import msgspec

from spinney.errors import LedgerError
from spinney.privacy.claims import Entry, claims
from spinney.privacy.ledger_copies import back_up, opened, restore
from spinney.privacy.ledger_store import Charged, Disclosed, JobOpened, LifeBudgets
from spinney.report.words import some


class LedgerLine(msgspec.Struct, frozen=True):
    """One line of the ledger: a release, and its cost or why it cost nothing."""

    entry: int
    at: str
    what: str
    cost: str


class JobAccount(msgspec.Struct, frozen=True):
    """A job: its guarantees, and every release."""

    name: str
    claims: tuple[str, ...]
    releases: tuple[LedgerLine, ...]


class LedgerDescription(msgspec.Struct, frozen=True):
    """A party's ledger as a privacy officer reads it."""

    party: str
    n_entries: int
    budgets: dict[str, tuple[str, ...]]  # lifetime budgets of each data set
    jobs: tuple[JobAccount, ...]

    def to_json(self) -> str:
        """Return the description as JSON."""
        return msgspec.json.format(msgspec.json.encode(self)).decode()

    def __str__(self) -> str:
        lines = [f"ledger of {self.party!r}: {some(self.n_entries, 'entry', 'entries')}"]
        for data, budgets in self.budgets.items():
            lines += [f"  {data} may cost in all: {budget}" for budget in budgets]
        for job in self.jobs:
            lines += ["", f"job {job.name!r}", *(f"  {claim}" for claim in job.claims)]
            lines += ["  releases:"] if job.releases else ["  nothing was released"]
            lines += [f"    {r.entry:>4}  {r.at}  {r.what}: {r.cost}" for r in job.releases]
        return "\n".join(lines)


def describe_ledger(path: Path, job: str | None) -> LedgerDescription:
    """Read a ledger, whole or one job, and return its releases and their costs."""
    with opened(path) as ledger:
        entries = ledger.entries()
        names = [e.body.job.name for e in entries if isinstance(e.body, JobOpened)]
        if job is not None and job not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise LedgerError(f"The ledger has no job {job!r}. It has: {known}.")
        wanted = names if job is None else [job]
        budgets = {
            e.body.data: tuple(str(budget) for budget in e.body.budgets)
            for e in entries
            if isinstance(e.body, LifeBudgets)
        }
        jobs = tuple(
            JobAccount(
                name,
                tuple(claim.text for claim in claims(ledger, name)),
                tuple(_release(e) for e in entries if e.is_release_of(name)),
            )
            for name in wanted
        )
        return LedgerDescription(ledger.party, len(entries), budgets, jobs)


def verify_ledger(path: Path) -> str:
    """Check a ledger's chain, signatures, replies and budgets; return its last entry."""
    with opened(path) as ledger:
        anchor = ledger.verify()
        return (
            f"The ledger of {ledger.party!r} is intact: "
            f"{some(anchor.seq, 'entry', 'entries')}, none changed or missing. Keep this line "
            f"elsewhere to prove it later: {anchor.seq} {anchor.hash.hex()}"
        )


def backup_ledger(path: Path, copy: Path) -> str:
    """Copy a ledger, also while its party runs; return the copy's last entry."""
    last = back_up(path, copy)
    return (
        f"The copy {str(copy)!r} is intact: {last.seq} entries. Keep this line elsewhere to prove "
        f"it later: {last.seq} {last.hash.hex()}"
    )


def restore_ledger(copy: Path, path: Path, forget: int | None) -> str:
    """Put a copy in a ledger's place; return what it holds."""
    done = restore(copy, path, forget)
    lines = [f"Restored {done.last.seq} entries; the last: {done.last.seq} {done.last.hash.hex()}"]
    if done.kept is not None:
        lines.append(f"The replaced ledger is kept as {str(done.kept)!r}.")
    if done.forgotten:
        lines.append(
            f"Forgotten: {done.forgotten} entries. The budget that is left counts without them: "
            "lower epsilon_total by what they cost ('spinney ledger show' of the replaced ledger)."
        )
    return "\n".join(lines)


def _release(entry: Entry) -> LedgerLine:
    match entry.body:
        case Charged() as charge:
            times = f" x {charge.n_releases}" if charge.n_releases > 1 else ""
            cost = f"{charge.cost.measure} {float(charge.cost.amount):.6g}{times}"
            return LedgerLine(entry.seq, entry.at, charge.what, f"{cost}, {charge.cost.unit}")
        case Disclosed() as told:
            disclosure = told.disclosure
            why = f"{disclosure.protection} ({disclosure.why})"
            return LedgerLine(entry.seq, entry.at, disclosure.what, why)
    raise LedgerError("This entry is not a release.")
