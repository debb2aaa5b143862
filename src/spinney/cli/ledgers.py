"""`spinney ledger`: read, check, copy and restore the budget that a party has spent."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from spinney.errors import LedgerError
from spinney.privacy.budget import Measure
from spinney.privacy.claims import Books, Claim, Entry, Verdict, claims
from spinney.privacy.ledger_copies import back_up, opened, restore
from spinney.privacy.ledger_store import Charged, Disclosed, JobOpened, LifeBudgets, Restarted
from spinney.privacy.signatures import fingerprint_of_key, own_key_of
from spinney.report.privacy import fold_claims, join_units
from spinney.report.words import some


class LedgerLine(msgspec.Struct, frozen=True):
    """One line of the ledger: a release, and its cost or why it cost nothing."""

    entry: int
    at: str
    what: str
    cost: str


class JobAccount(msgspec.Struct, frozen=True):
    """A job: its totals, its guarantees, and every release."""

    name: str
    claims: tuple[str, ...]
    releases: tuple[LedgerLine, ...]
    totals: dict[str, str] = {}  # the weakest guarantee for each unit

    @property
    def lines(self) -> list[str]:
        """The account as text; equal guarantees and equal releases are folded into one line."""
        folded: dict[tuple[str, str], list[LedgerLine]] = {}
        for release in self.releases:  # the same numbers, told of the records and of the party
            about = release.what.removeprefix("own ")
            folded.setdefault((about, release.cost), []).append(release)
        units: dict[str, list[str]] = {}
        for unit, words in self.totals.items():
            units.setdefault(words, []).append(unit)
        return [
            "",
            f"job {self.name!r}: {some(len(self.releases), 'release', 'releases')}",
            *(f"  total: {words} for {join_units(of)}" for words, of in units.items()),
            *(["  guarantees:"] if self.claims else []),
            *(f"    {claim}" for claim in fold_claims(self.claims)),
            *(["  releases, equal ones in one line:"] if folded else []),
            *(
                f"    {_place(equal)}  {equal[0].what}: {cost}"
                for (_, cost), equal in folded.items()
            ),
        ]


class LedgerDescription(msgspec.Struct, frozen=True):
    """A party's ledger as a privacy officer reads it."""

    party: str
    n_entries: int
    budgets: dict[str, tuple[str, ...]]  # lifetime budgets of each data set
    jobs: tuple[JobAccount, ...]

    def __str__(self) -> str:
        n_releases = some(sum(len(job.releases) for job in self.jobs), "release", "releases")
        released = f"{n_releases} in {some(len(self.jobs), 'job', 'jobs')}"
        entries = some(self.n_entries, "entry", "entries")
        lines = [f"ledger of {self.party!r}: {entries}; {released}"]
        for data, budgets in self.budgets.items():
            lines += [f"  {data} may cost in all: {budget}" for budget in budgets]
        return "\n".join([*lines, *(line for job in self.jobs for line in job.lines)])


def describe_ledger(path: Path, job: str | None) -> LedgerDescription:
    """Read a ledger, whole or one job, and return its releases and their costs."""
    with opened(path) as ledger:
        entries = ledger.entries()
        names = [e.body.job.name for e in entries if isinstance(e.body, JobOpened)]
        wanted = names if job is None else [name for name in names if _is_called(name, job)]
        if job is not None and not wanted:
            known = ", ".join(map(repr, names)) or "none"
            raise LedgerError(f"The ledger has no job {job!r}. It has: {known}.")
        budgets = {
            e.body.data: tuple(str(budget) for budget in e.body.budgets)
            for e in entries
            if isinstance(e.body, LifeBudgets)
        }
        promised = {name: claims(ledger, name) for name in wanted}
        jobs = tuple(
            JobAccount(
                name,
                tuple(claim.text for claim in promised[name]),
                tuple(_release(e) for e in entries if e.is_release_of(name)),
                _totals(promised[name]),
            )
            for name in wanted
        )
        return LedgerDescription(ledger.party, len(entries), budgets, jobs)


def _is_called(name: str, given: str) -> bool:
    """Return whether a job is meant: by its whole name, its name, or the beginning of its run's id.

    The ledger names a deployed job "<name> <run's id>".
    """
    called, _, run = name.partition(" ")
    return given in (name, called) or (bool(given) and run.startswith(given))


_WEAKEST_FIRST = (Verdict.UNPROTECTED, Verdict.EPSILON, Verdict.HIDDEN, Verdict.NOTHING)


def _totals(promised: Sequence[Claim]) -> dict[str, str]:
    """Return the weakest guarantee for each unit, over all who might look."""
    found: dict[str, str] = {}
    for unit in dict.fromkeys(claim.unit for claim in promised):
        of_unit = [claim for claim in promised if claim.unit == unit]
        weakest = min(of_unit, key=lambda claim: _WEAKEST_FIRST.index(claim.verdict))
        epsilons = [claim.epsilon for claim in of_unit if claim.epsilon is not None]
        words = weakest.verdict.value
        if weakest.verdict is Verdict.EPSILON:
            words = f"epsilon {float(max(epsilons)):.6g}" if epsilons else "zCDP, see below"
        subject = weakest.text.partition(", against ")[0]
        found[f"{subject[:1].lower()}{subject[1:]}"] = words
    return found


def _place(equal: Sequence[LedgerLine]) -> str:
    """Return where equal releases stand in the ledger, and when they left."""
    first, last = equal[0], equal[-1]
    day, _, began = first.at[:19].partition("T")  # to the second
    last_day, _, ended = last.at[:19].partition("T")
    if last_day != day:
        ended = f"{last_day} {ended}"
    time = f"{day} {began} UTC" if ended == began else f"{day} {began} to {ended} UTC"
    if len(equal) == 1:
        return f"entry {first.entry}, {time}"
    return f"{len(equal)} entries, {first.entry} to {last.entry}, {time}"


def verify_ledger(path: Path) -> str:
    """Check a ledger's chain, signatures, replies, budgets and heads; return its last entry.

    With a party's file, also that the party's own keys signed it, and that it goes on from where
    the party remembers that it ended.
    """
    if path.suffix == ".toml":
        return _verify_own(path)
    said = _verified(path, [], own_key_of(path))
    return (
        f"{said}\nNot compared: the party's certificate, and where the party remembers that the "
        "ledger ended. Give the party's file for that: spinney ledger verify party.toml"
    )


def _verify_own(path: Path) -> str:
    from spinney.deployment.party.config import load_party  # noqa: PLC0415  loads the transport
    from spinney.deployment.party.heads import OwnMark, own_key, require_whole, signer_of  # noqa: PLC0415

    party = load_party(path)
    known = OwnMark(party.records).known()
    if known is None and not party.ledger_file.exists():
        raise LedgerError("This party has no ledger yet: it begins with the first job.")
    require_whole(party)
    said = _verified(party.ledger_file, [signer_of(party).public_key], own_key(party).public_key)
    if known is None:
        return f"{said}\nThe party's records do not say where the ledger ended: it met nobody yet."
    entries = some(known.seq, "entry", "entries")
    return f"{said}\nIt goes on from where the party remembers that it ended: {entries}."


def _verified(path: Path, trusted: list[str], own: str) -> str:
    """Check a ledger, and return what is certain."""
    with opened(path) as ledger:
        anchor = ledger.verify()
        ledger.check_keys(trusted, own=own)
        intact = (
            f"The ledger of {ledger.party!r} is intact: "
            f"{some(anchor.seq, 'entry', 'entries')}, none changed or missing. Keep this line "
            f"elsewhere to prove it later: {anchor.seq} {anchor.hash.hex()}"
        )
        return "\n".join([intact, *_safeguards(ledger.books)])


def _safeguards(books: Books) -> list[str]:
    """Return who signed a ledger, who keeps its heads, and what people should know."""
    keys = [fingerprint_of_key(key) for key in books.keys]
    lines = [f"Signed with {some(len(keys), 'key', 'keys')}: {', '.join(keys)}"]
    if not keys:
        lines = ["Not signed: this is a ledger of an earlier version, or of a simulation."]
    if books.countersigned:
        last = max(books.countersigned, key=lambda kept: kept.entry)
        names = [one.name for kept in books.countersigned if kept.entry == last.entry
                 for one in kept.by]  # fmt: skip
        lines.append(f"Others keep its head up to entry {last.entry}: {', '.join(names)}.")
    if books.restarts:
        last_restart = books.restarts[-1].body
        assert isinstance(last_restart, Restarted)
        times = "once" if len(books.restarts) == 1 else f"{len(books.restarts)} times"
        lines.append(f"Restarted {times}, the last time: {last_restart.reason}")
    if books.set_back:
        shown = ", ".join(map(str, books.set_back[:3])) + ("..." if books.set_back[3:] else "")
        lines.append(
            f"This machine's clock went back before entry {shown}. The order of the entries is "
            "certain all the same; only their times are not."
        )
    return lines


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
            "lower epsilon_total by what they cost ('spinney ledger show' of the replaced ledger). "
            "The other parties notice, so say why: spinney ledger restart party.toml --reason ..."
        )
    return "\n".join(lines)


def _release(entry: Entry) -> LedgerLine:
    match entry.body:
        case Charged() as charge:
            times = f" x {charge.n_releases}" if charge.n_releases > 1 else ""
            measure = "epsilon" if charge.cost.measure is Measure.PURE else "rho"
            cost = f"{measure} {float(charge.cost.amount):.6g}{times}"
            words = f"{cost} for {charge.cost.unit.in_words}"
            return LedgerLine(entry.seq, entry.at, charge.what, words)
        case Disclosed() as told:
            disclosure = told.disclosure
            why = f"{disclosure.protection} ({disclosure.why})"
            return LedgerLine(entry.seq, entry.at, disclosure.what, why)
    raise LedgerError("This entry is not a release.")
