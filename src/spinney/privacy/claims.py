"""Totals of a ledger's entries: accounts for the ledger, and privacy claims in words.

`Books` reads all entries and knows what is spent and what is left. `claims` states what one job
promises: one line per unit and view, with an epsilon, or HIDDEN and on which assumption, or
UNPROTECTED and why. A single unprotected release removes a unit's epsilon.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context, Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Final, Protocol, Self

from spinney.errors import LedgerError, SettingError
from spinney.privacy.accounting import Account, JobTerms, Line, Shortfall, implied_factor
from spinney.privacy.budget import Measure, Unit, epsilon_of, exp_bounds
from spinney.privacy.gaussian import gaussian_epsilon
from spinney.privacy.ledger_store import (
    START,
    Adopted,
    Anchor,
    Answered,
    Body,
    Bound,
    Charged,
    Countersigned,
    Disclosed,
    JobOpened,
    LifeBudgets,
    Opened,
    Restarted,
    Row,
    Told,
    decode_entry,
)
from spinney.privacy.scopes import (
    EVERYONE,
    PARTY_TOTALS,
    Budget,
    Protection,
    Question,
    Scope,
    Step,
    View,
)

_ALWAYS_OPEN: Final = (
    "Not protected: who takes part, when and how often, the names and public ranges of columns."
)
_BITS: Final = 192


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry, with its number and its time."""

    seq: int
    at: str
    body: Body

    @classmethod
    def of(cls, row: Row) -> Self:
        """Decode a row."""
        return cls(row.seq, row.at, decode_entry(row))

    def is_release_of(self, job: str) -> bool:
        """Return whether the entry is a release of this job, charged or not."""
        return isinstance(self.body, Charged | Disclosed) and self.body.question.job == job


@dataclass(slots=True)
class Books:
    """The totals of all entries read so far."""

    anchor: Anchor = START
    opened: Opened | None = None
    jobs: dict[str, JobTerms] = field(default_factory=dict)
    job_accounts: dict[str, Account] = field(default_factory=dict)
    life_accounts: dict[str, Account] = field(default_factory=dict)
    life_lines: dict[str, list[Line]] = field(default_factory=dict)
    unanswered: dict[Question, list[Entry]] = field(default_factory=dict)
    answered: dict[Question, tuple[int, str]] = field(default_factory=dict)  # entry, reply's digest
    keys: list[str] = field(default_factory=list)  # that sign
    adopted: list[Entry] = field(default_factory=list)  # where they began to
    salt: str = ""
    restarts: list[Entry] = field(default_factory=list)
    countersigned: list[Countersigned] = field(default_factory=list)
    bound: dict[str, list[Bound]] = field(default_factory=dict)  # by data set, the newest last
    told: dict[tuple[str, str], str] = field(default_factory=dict)
    last_time: str = ""
    set_back: list[int] = field(default_factory=list)  # entries before which the clock went back

    @property
    def owner(self) -> Opened:
        """The first entry."""
        if self.opened is None:
            raise LedgerError("The ledger is empty: it has no first entry.")
        return self.opened

    def job(self, name: str) -> JobTerms:
        """Return a job's terms."""
        if name not in self.jobs:
            raise LedgerError(f"The ledger has no job {name!r}. Open the job first.")
        return self.jobs[name]

    def read(self, row: Row, *, audit: bool = False) -> Body:
        """Add a row; with `audit`, raise at a charge that should have been refused."""
        entry = Entry.of(row)
        body = entry.body
        if isinstance(body, Opened) is not (self.opened is None):
            raise LedgerError(f"Entry {row.seq} of the ledger is out of place.")
        if row.at < self.last_time:
            self.set_back.append(row.seq)
        self.last_time = row.at
        if isinstance(body, Opened):
            self.opened = body
            self.keys += [body.public_key] if body.public_key else []
        elif isinstance(body, Adopted | Countersigned | Restarted | Bound | Told):
            self._read_safeguard(entry, body)
        elif isinstance(body, LifeBudgets):
            self.life_accounts[body.data] = self.life_account(body)
        elif isinstance(body, JobOpened):
            self.jobs[body.job.name] = body.job
            self.job_accounts[body.job.name] = Account(body.job.measure, body.job.budgets)
        elif isinstance(body, Answered):
            self.answered[body.question] = row.seq, body.reply
            self.unanswered.pop(body.question, None)
        else:
            job = self.job(body.question.job)
            if isinstance(body, Charged):
                if audit and self.shortfall(job, body.lines):
                    raise LedgerError(f"Entry {row.seq} of the ledger spends more than was left.")
                self._charge(job, body.lines)
            self.unanswered.setdefault(body.question, []).append(entry)
        self.anchor = row.anchor
        return body

    def _read_safeguard(
        self, entry: Entry, body: Adopted | Countersigned | Restarted | Bound | Told
    ) -> None:
        """Add an entry that guards the ledger itself."""
        match body:
            case Adopted():
                if body.public_key not in self.keys:
                    self.keys.append(body.public_key)
                    self.adopted.append(entry)
                self.salt = self.salt or body.salt
            case Countersigned():
                self.countersigned.append(body)
            case Restarted():
                self.restarts.append(entry)
            case Bound():
                self.bound.setdefault(body.data, []).append(body)
            case Told():
                self.told.setdefault((body.run, body.what), body.digest)

    def _charge(self, job: JobTerms, lines: Sequence[Line]) -> None:
        self.job_accounts[job.name].add(lines)
        for_life = _for_life(job, lines)
        self.life_lines.setdefault(job.data, []).extend(for_life)
        if job.data in self.life_accounts:
            self.life_accounts[job.data].add(for_life)

    def life_account(self, life: LifeBudgets) -> Account:
        """Return an account of all charges to a data set so far."""
        if not life.budgets:
            raise SettingError("A data set's lifetime needs at least one budget; got none.")
        account = Account(life.budgets[0].measure, life.budgets)
        account.add(self.life_lines.get(life.data, []))
        return account

    def shortfall(self, job: JobTerms, lines: Sequence[Line]) -> Shortfall | None:
        """Return the job or lifetime budget that the lines would overspend, or None."""
        short = self.job_accounts[job.name].shortfall(lines)
        life = self.life_accounts.get(job.data)
        if short is None and life is not None:
            short = life.shortfall(_for_life(job, lines))
            return short and replace(short, is_for_life=True)
        return short

    def ahead(self, job: JobTerms, life: Sequence[Budget]) -> "Books":
        """Return books in which a job is open and its data set has these lifetime budgets.

        Without `life`, the data set keeps its own budgets.
        """
        own = self.job_accounts.get(job.name) or Account(job.measure, job.budgets)
        lives = dict(self.life_accounts)
        if life:
            lives[job.data] = self.life_account(LifeBudgets(job.data, tuple(life)))
        return replace(
            self,
            jobs=self.jobs | {job.name: job},
            job_accounts=self.job_accounts | {job.name: own},
            life_accounts=lives,
        )

    def paid(self, question: Question, wanted: Sequence[Body]) -> list[int] | None:
        """Return the entries that already pay for everything wanted for a question, or None."""
        pending = list(self.unanswered.get(question, []))
        found: list[int] = []
        for body in wanted:
            match = next((entry for entry in pending if entry.body == body), None)
            if match is None:
                return None
            pending.remove(match)
            found.append(match.seq)
        return found


def _for_life(job: JobTerms, lines: Iterable[Line]) -> list[Line]:
    """Return the lines in the data set's account: jobs read the same rows, so costs add up."""
    step = Step(f"job {job.name}")
    return [Line(Scope((step, *ln.scope.path)), ln.cost, ln.times) for ln in lines]


class Verdict(StrEnum):
    """The result of a claim."""

    EPSILON = "EPSILON"
    HIDDEN = "HIDDEN"
    UNPROTECTED = "UNPROTECTED"
    NOTHING = "NOTHING"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one job promises to one unit against one view.

    `epsilon` and `delta` are upper bounds; they are None unless the verdict is EPSILON. In a zCDP
    job that names no delta, `epsilon` is also None and the text states rho.
    """

    unit: str
    view: View
    verdict: Verdict
    epsilon: Fraction | None
    delta: Fraction | None
    t_honest: int
    n_parties: int
    text: str

    def __str__(self) -> str:
        return self.text


class ClaimSource(Protocol):
    """A source of claims: a ledger."""

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries."""
        ...

    def job(self, name: str) -> JobTerms:
        """Return a job's terms."""
        ...


def claims(ledger: ClaimSource, job: str) -> tuple[Claim, ...]:
    """Return what the job promises, one claim per unit and view."""
    terms = ledger.job(job)
    bodies = [entry.body for entry in ledger.entries()]
    releases = [b for b in bodies if isinstance(b, Charged | Disclosed) and b.question.job == job]
    units: set[str] = {budget.unit for budget in terms.budgets}
    views = set(EVERYONE)
    for release in releases:
        if isinstance(release, Charged):
            units.add(release.cost.unit)
            views.update(release.views)
        else:
            units.update(release.disclosure.units)
            views.update(release.disclosure.views)
    return tuple(
        _claim(unit, view, terms, releases)
        for unit in (*Unit, PARTY_TOTALS)
        if unit in units
        for view in View
        if view in views
    )


def _claim(unit: str, view: View, job: JobTerms, releases: Sequence[Charged | Disclosed]) -> Claim:
    """Return the claim for one unit, given the releases that one view sees."""
    paid: list[Charged] = []
    hidden: list[Disclosed] = []
    reasons: list[str] = []
    for release in releases:
        if isinstance(release, Charged):
            if unit != PARTY_TOTALS and view.sees(release.views):
                why = _why_broken(release, Unit(unit), view, job.measure)
                paid += [] if why else [release]
                reasons += [f"{release.what} ({why})"] if why else []
        elif view.sees(release.disclosure.views) and _bears_on(release.disclosure.units, unit):
            disclosure = release.disclosure
            if disclosure.protection is Protection.HIDDEN:
                hidden.append(release)
            else:
                reasons.append(f"{disclosure.what} ({disclosure.why})")
    t_honest = max([1, *(charge.t_honest for charge in paid), *(d.t_honest for d in hidden)])
    epsilon = delta = None
    if reasons:
        verdict, words = Verdict.UNPROTECTED, f"UNPROTECTED: {_listed(reasons)}. No epsilon holds."
    elif paid:
        verdict = Verdict.EPSILON
        epsilon, delta, words = _price(Unit(unit), job, paid)
        words = f"{words}. {_rests_on(hidden)}{_ALWAYS_OPEN}"
    elif hidden:
        verdict, words = Verdict.HIDDEN, f"HIDDEN, without an epsilon. {_rests_on(hidden)}"
    else:
        verdict, words = Verdict.NOTHING, "nothing of this job is shown there."
    text = (
        f"{_SUBJECTS[unit]}, against {_against(view, job.n_parties - t_honest)}: {words.strip()} "
        f"Honest-but-curious parties; t={t_honest} of K={job.n_parties} must be honest."
    )
    return Claim(unit, view, verdict, epsilon, delta, t_honest, job.n_parties, text)


def _why_broken(charge: Charged, unit: Unit, view: View, measure: Measure) -> str:
    """Return why a charge protects nothing here, or an empty text."""
    if charge.is_seeded:
        return "its noise was seeded for a test"
    if implied_factor(charge.cost.unit, unit, measure) is None:
        return f"protected per {charge.cost.unit.value} only"
    inside = view not in (View.READER, View.COORDINATOR)
    if inside and charge.t_honest == charge.n_parties > 1:
        return "its noise needs every party to be honest, and one can subtract its own share"
    return ""


def _bears_on(units: Sequence[str], unit: str) -> bool:
    """Return whether a release about these units affects `unit`: a label is part of its record."""
    if unit == PARTY_TOTALS or unit in units:
        return unit in units
    named = (Unit(other) for other in units if other != PARTY_TOTALS)
    return any(implied_factor(Unit(unit), other, Measure.PURE) is not None for other in named)


def _price(
    unit: Unit, job: JobTerms, paid: Sequence[Charged]
) -> tuple[Fraction | None, Fraction | None, str]:
    """Return epsilon, delta and both in words."""
    account = Account(job.measure)
    for charge in paid:
        account.add(charge.lines)
    spent, missed = account.spent(unit), account.sampler_delta(unit)
    if job.measure is Measure.PURE:
        delta = _implementation_delta(spent, missed)
        return spent, delta, f"epsilon={_up(spent)} ({_sampler(delta)})"
    if not job.budgets:
        return None, None, f"rho={_up(spent)} of zCDP; the job names no delta to read it at"
    chosen = job.budgets[0].delta
    read = gaussian_epsilon if job.measure is Measure.GAUSSIAN else epsilon_of
    epsilon = read(spent, chosen)
    delta = _implementation_delta(epsilon, missed)
    words = f"epsilon={_up(epsilon)}, delta={_up(chosen)} (rho={_up(spent)}; {_sampler(delta)})"
    return epsilon, chosen + delta, words


def _implementation_delta(epsilon: Fraction, missed: Fraction) -> Fraction:
    """Return the delta of samplers that miss their laws with a total probability of `missed`.

    The outputs of both tables may be off by `missed`; for one of them this counts e**epsilon times.
    """
    if missed == 0:
        return missed
    low, _ = exp_bounds(epsilon, _BITS)
    return min(Fraction(1), missed * (1 + Fraction(1 << _BITS, low))) if low else Fraction(1)


def _sampler(delta: Fraction) -> str:
    if delta == 0:
        return "delta_impl=0: the samplers are exact"
    return f"delta_impl<={_up(delta)} from sampler rounding"


def _up(value: Fraction) -> str:
    """Return a number as text, rounded up: a claim must never look better than it is."""
    rounded = Context(prec=6, rounding=ROUND_CEILING).divide(
        Decimal(value.numerator), Decimal(value.denominator)
    )
    return f"{float(rounded):.6g}"


_SUBJECTS: Final[dict[str, str]] = {
    Unit.RECORD_ADD_REMOVE: "One record, added or removed",
    Unit.RECORD_REPLACE: "One record, replaced by another",
    Unit.LABEL: "One record's label",
    PARTY_TOTALS: "A party's own totals",
}

_VIEWERS: Final = {View.READER: "readers of the model", View.PARTY: "any other party"}


def _against(view: View, curious: int) -> str:
    if view is View.COALITION:
        others = "one other party" if curious == 1 else f"{curious} other parties"
        return f"the coordinator and any {others} together" if curious else "the coordinator alone"
    return _VIEWERS.get(view, f"the {view.value}")


def _rests_on(hidden: Sequence[Disclosed]) -> str:
    """Return the distinct assumptions."""
    assumptions = dict.fromkeys(f"{d.disclosure.what}: {d.disclosure.why}" for d in hidden)
    return f"Rests on {_listed(list(assumptions))}. " if assumptions else ""


def _listed(texts: Sequence[str]) -> str:
    """Return the first few distinct texts, and how many more there are."""
    distinct = list(dict.fromkeys(texts))
    more = f"; and {len(distinct) - 3} more" if len(distinct) > 3 else ""
    return "; ".join(distinct[:3]) + more
