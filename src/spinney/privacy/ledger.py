"""A party's privacy ledger: what was released, to whom, at what cost; it can refuse a charge.

One round is *reserve, draw, commit*:

1. `reserve` computes the cost from the mechanism's parameters, checks the job's budget and the
   lifetime budget of the data set, and writes the charge to disk. If it refuses, no noise has been
   drawn; the decision depends only on public parameters, so a refusal reveals nothing.
2. The mechanism spends the `Charge` and draws.
3. `commit` stores the reply and returns the bytes to send. **Send only what it returns.**

A reply is sent after it is stored, so a question has one reply for ever: the same question gets
the same bytes. If a process is killed, nobody has seen what it drew; its charge remains, and the
same question, asked again, draws under the same charge. Two processes may answer at once: the
first to commit wins, and both send its bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from threading import RLock
from typing import Self

from spinney.errors import LedgerError, SettingError
from spinney.privacy.accounting import Account, JobTerms, Shortfall
from spinney.privacy.budget import Measure, Unit
from spinney.privacy.claims import Books, Entry
from spinney.privacy.entropy import is_seeded, secret_bytes
from spinney.privacy.heads import MAY_SAY, Head, Restart, mark_of, name_of, newest
from spinney.privacy.ledger_store import (
    MEMORY,
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
    LedgerStore,
    LifeBudgets,
    Opened,
    Restarted,
    Row,
    Told,
)
from spinney.privacy.release import _LEDGER_TOKEN, Charge
from spinney.privacy.scopes import ALL_ROWS, Budget, Disclosure, Question, Scope, Spend
from spinney.privacy.signatures import Signer, fingerprint_of_key, is_signed_by

_SALT_BYTES = 32
Watch = Callable[[str], None]  # called with the name of each step; tests kill the process there


class Ledger:
    """One party's ledger; open it with `open`, or `in_memory` for a simulation.

    Several threads may use one ledger; several processes open one each on the same file.
    """

    def __init__(self, store: LedgerStore, watch: Watch, *, may_write: bool) -> None:
        self._store = store
        self._watch = watch
        self._may_write = may_write
        self._lock = RLock()
        self._books = Books()

    @classmethod
    def open(
        cls,
        path: Path | str,
        party: str | None = None,
        *,
        key: Signer | None = None,
        vouching: Signer | None = None,
        busy_seconds: float = 30.0,
        watch: Watch = lambda _: None,
    ) -> Self:
        """Open a party's ledger, and create it if there is none.

        Parameters
        ----------
        party
            The owner of the ledger. None: open an existing ledger read-only.
        key
            The key that signs every entry from here on; a ledger that was begun without it, or
            with another one, adopts it in an entry.
        vouching
            The key beside the ledger, which vouches for a key that is adopted.
        """
        if party is None and not Path(path).is_file():
            raise LedgerError("The ledger file does not exist.", local=f"File: {path}.")
        store = LedgerStore(path, key, busy_seconds=busy_seconds)
        ledger = cls(store, watch, may_write=party is not None)
        try:
            ledger._begin(party, key, vouching)
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def in_memory(cls, party: str = "simulation", *, watch: Watch = lambda _: None) -> Self:
        """Return a ledger that is lost when the process ends, and otherwise like any other."""
        return cls.open(MEMORY, party, watch=watch)

    def close(self) -> None:
        """Close the file, once nobody reads or writes it: SQLite crashes if one thread does so."""
        with self._lock:
            self._store.close()

    def copy_to(self, path: Path) -> None:
        """Copy the ledger into a new file, whole and as it is at one moment."""
        with self._lock:
            self._store.copy_to(path)

    def allow_for_life(self, data: str, budgets: Sequence[Budget]) -> None:
        """Limit from now on the total cost of all jobs on a data set, including past ones."""
        body = LifeBudgets(data, tuple(budgets))
        with self._turn("allow") as books:
            account = books.life_accounts.get(data)
            if account is None or account.budgets != body.budgets:
                books.life_account(body)  # refuses budgets that cannot measure earlier charges
                self._write([body])

    def open_job(self, job: JobTerms) -> None:
        """Take part in a job; opening it again on the same terms changes nothing."""
        with self._turn("open") as books:
            _check_terms(books, job, books.life_accounts.get(job.data))
            if job.name not in books.jobs:
                self._write([JobOpened(job)])

    def answer(
        self,
        question: Question,
        spends: Sequence[Spend],
        draw: Callable[[tuple[Charge, ...]], bytes],
        disclosures: Sequence[Disclosure] = (),
    ) -> bytes:
        """Return the reply to send: the stored one, or the result of `draw` on the paid charges."""
        charges = self.reserve(question, spends, disclosures)
        reply = b"" if charges is None else draw(charges)  # answered: `commit` returns the stored
        return self.commit(question, reply)

    def disclose(self, question: Question, disclosures: Sequence[Disclosure]) -> None:
        """Record once what is released without a charge; its reply is not stored here."""
        with self._turn("disclose") as books:
            job = books.job(question.job)
            promise = (job.t_honest, job.n_parties)
            if question not in books.unanswered:
                self._write([Disclosed(question, job.data, d, *promise) for d in disclosures])

    def kept(self, question: Question, make: Callable[[], bytes]) -> bytes:
        """Return a secret of this party, made once in a job and never sent."""
        with self._turn("keep") as books:
            books.job(question.job)
            secret = self._reply(books, question)
            if secret is None:
                secret = make()
                self._write([Answered(question, sha256(secret).hexdigest())], secret)
        return secret

    def stored_reply(self, question: Question) -> bytes | None:
        """Return the stored reply to this question, from this process or any other; or None."""
        with self._reading() as books:
            return self._reply(books, question)

    def reserve(
        self, question: Question, spends: Sequence[Spend], disclosures: Sequence[Disclosure] = ()
    ) -> tuple[Charge, ...] | None:
        """Return one charge per release, in order, once on disk; raise before anything is drawn.

        None: the question is answered, perhaps by another process; send the stored reply.
        """
        with self._turn("reserve") as books:
            if question in books.answered:
                return None
            job = books.job(question.job)
            charged = [_charged(question, spend, job) for spend in spends]
            promise = (job.t_honest, job.n_parties)
            disclosed = [Disclosed(question, job.data, d, *promise) for d in disclosures]
            wanted: list[Body] = [*charged, *disclosed]
            paid = books.paid(question, wanted)
            if not paid:
                _check(books, job, charged)
                paid = self._write(wanted)
        return tuple(
            Charge._issued_by(  # noqa: SLF001 - made for this line
                _LEDGER_TOKEN, cost=body.cost, entry=str(seq), reason=body.what
            )
            for seq, body in zip(paid, charged, strict=False)
            for _ in range(body.n_releases)
        )

    def commit(self, question: Question, reply: bytes) -> bytes:
        """Store a reserved question's reply; return the bytes to send: the first reply stored."""
        with self._turn("commit") as books:
            stored = self._reply(books, question)
            if stored is None:
                if question not in books.unanswered:
                    raise LedgerError(
                        f"The question of round {question.round} was not reserved, so its reply "
                        f"cannot be stored. Nothing may be sent."
                    )
                self._write([Answered(question, sha256(reply).hexdigest())], reply)
        return reply if stored is None else stored

    def check(self, job: str, spends: Sequence[Spend]) -> None:
        """Raise `BudgetError` if these releases together would be refused; charge nothing."""
        with self._reading() as books:
            short = _shortfall(books, books.job(job), spends)
        if short is not None:
            raise short.refusal(f"the whole of job {job!r}")

    def shortfall_ahead(
        self, job: JobTerms, spends: Sequence[Spend], life: Sequence[Budget] = ()
    ) -> Shortfall | None:
        """Return the budget that a job would overspend if it were opened now; write nothing.

        It raises like `open_job`. A job that has been charged may continue, so nothing is short.

        Parameters
        ----------
        job
            The terms on which the job would be opened.
        spends
            Everything that the job may spend.
        life
            Lifetime budgets of the data set to check instead of those in the ledger.
        """
        with self._reading() as books:
            ahead = books.ahead(job, life)
            _check_terms(books, job, ahead.life_accounts.get(job.data))
            if any(ahead.job_accounts[job.name].spent(unit) for unit in Unit):
                return None
            return _shortfall(ahead, job, spends)

    @property
    def party(self) -> str:
        """The owner of the ledger."""
        return self._books.owner.party

    def job(self, name: str) -> JobTerms:
        """Return a job's terms."""
        with self._reading() as books:
            return books.job(name)

    def spent(self, job: str, unit: Unit) -> Fraction:
        """Return what a job has cost the worst record, in the job's measure."""
        with self._reading() as books:
            return books.job_accounts[books.job(job).name].spent(unit)

    def left(self, job: str, unit: Unit, scope: Scope = ALL_ROWS) -> Fraction | None:
        """Return what a job may still cost the worst record of a scope; None: no limit."""
        with self._reading() as books:
            return books.job_accounts[books.job(job).name].left(unit, scope)

    def left_for_life(self, data: str, unit: Unit) -> Fraction | None:
        """Return what all jobs on a data set may still cost together; None: no limit."""
        with self._reading() as books:
            account = books.life_accounts.get(data)
            return None if account is None else account.left(unit, ALL_ROWS)

    def all_left_for_life(self, data: str, life: Sequence[Budget] = ()) -> dict[Unit, Fraction]:
        """Return what all jobs on a data set may still cost, by unit, if there is a limit.

        `life` are lifetime budgets to count with instead of those in the ledger.
        """
        with self._reading() as books:
            account = books.life_accounts.get(data)
            if life:
                account = books.life_account(LifeBudgets(data, tuple(life)))
            left = {unit: account.left(unit, ALL_ROWS) for unit in Unit} if account else {}
            return {unit: amount for unit, amount in left.items() if amount is not None}

    def entries(self) -> tuple[Entry, ...]:
        """Return all entries, oldest first."""
        with self._lock:
            return tuple(map(Entry.of, self._store.rows_after(START)))

    def anchor(self) -> Anchor:
        """Return the last entry's place in the chain; keep it where nobody can rewrite it."""
        with self._reading() as books:
            return books.anchor

    def verify(self, anchor: Anchor | None = None, public_key: str = "") -> Anchor:
        """Check chain, signatures, replies, budgets and heads; raise at the first bad entry.

        Parameters
        ----------
        anchor
            An entry known from elsewhere; without it, a file reset to an earlier state passes.
        public_key
            The key that must have signed; by default, those that the ledger names.
        """
        with self._lock:
            books = Books()
            for row in self._store.rows_after(START):
                body = books.read(row, audit=True)
                _check_signed(row, [public_key] if public_key else books.keys)
                if isinstance(body, Answered):
                    self._reply(books, body.question)
                if isinstance(body, Countersigned):
                    self._check_countersigned(row, body, books.salt)
                if anchor and row.seq == anchor.seq and row.hash != anchor.hash:
                    raise LedgerError(f"Entry {row.seq} of the ledger does not match the anchor.")
            _ = books.owner  # raises if there is no first entry
            self._store.check_end(books.anchor)
            if anchor and books.anchor.seq < anchor.seq:
                raise LedgerError(f"Entry {books.anchor.seq + 1} of the ledger is missing.")
            return books.anchor

    def head(self, run: str = "", places: Iterable[int] = ()) -> Head:
        """Return the head that others may keep, with the marks of some earlier places."""
        with self._reading() as books:
            if not books.salt:
                raise LedgerError("The ledger has no key, so it has no head to show.")
            seq = books.anchor.seq
            earlier = newest(place for place in places if 0 < place < seq)
            return Head(
                books.owner.party,
                name_of(books.salt),
                seq,
                mark_of(books.salt, books.anchor.hash),
                run,
                tuple(_restart(entry) for entry in books.restarts),
                tuple((place, mark_of(books.salt, self._hash_of(place))) for place in earlier),
            )

    def keep_countersigned(self, kept: Countersigned) -> None:
        """Record once that others keep a head of this ledger."""
        with self._turn("countersign") as books:
            if kept not in books.countersigned:
                self._write([kept])

    def restart(self, reason: str, lost: int) -> None:
        """Record that the party goes on although entries are lost."""
        said = reason.strip()
        if not said or not said.isprintable() or len(said) > MAY_SAY:
            raise SettingError(
                f"A restart needs a reason of at most {MAY_SAY} printable characters: the other "
                "parties read it."
            )
        with self._turn("restart"):
            self._write([Restarted(said, lost)])

    def settle(self, run: str, what: str, digest: str) -> str:
        """Record what the party was told in a run, once; return the first that was recorded."""
        with self._turn("settle") as books:
            found = books.told.get((run, what))
            if found is None:
                self._write([Told(run, what, digest)])
        return digest if found is None else found

    def told(self, run: str, what: str) -> str | None:
        """Return what the party was told in a run; None if nothing."""
        with self._reading() as books:
            return books.told.get((run, what))

    def bind(self, bound: Bound) -> None:
        """Record from which source a data set's rows come, and marks of some of them."""
        with self._turn("bind") as books:
            if bound not in books.bound.get(bound.data, [])[-1:]:
                self._write([bound])

    def bindings(self) -> dict[str, list[Bound]]:
        """Return what the names of data sets are bound to, the newest last."""
        with self._reading() as books:
            return {data: list(found) for data, found in books.bound.items()}

    @property
    def books(self) -> Books:
        """What all entries come to, for readers."""
        with self._reading() as books:
            return books

    def _hash_of(self, seq: int) -> bytes:
        link = self._store.hash_of(seq)
        if link is None:
            raise LedgerError(f"Entry {seq} of the ledger is missing.")
        return link

    def _check_countersigned(self, row: Row, kept: Countersigned, salt: str) -> None:
        """Raise unless a head that others signed is that of this ledger."""
        try:
            head = Head.of_bytes(bytes.fromhex(kept.head))
        except (LedgerError, ValueError):
            raise LedgerError(f"Entry {row.seq} of the ledger cannot be decoded.") from None
        if head.seq >= row.seq or mark_of(salt, self._hash_of(head.seq)) != head.mark:
            raise LedgerError(
                f"Entry {row.seq} of the ledger says that others keep entry {head.seq}, but they "
                "keep another one."
            )
        for one in kept.by:
            if not is_signed_by(one.public_key, bytes.fromhex(one.signature), head.countersigned):
                raise LedgerError(
                    f"Entry {row.seq} of the ledger names {one.name!r}, who did not sign it."
                )

    def _begin(self, party: str | None, key: Signer | None, vouching: Signer | None) -> None:
        """Read all entries, write the first one if there is none, check the owner and the key."""
        public_key = key.public_key if key else ""
        self._catch_up()
        if party is None:
            return
        if self._books.opened is None:
            with self._turn("begin") as books:
                if books.opened is None:  # another process may just have written it
                    self._write([Opened(party, public_key)])
        owner = self._books.owner
        if owner.party != party:
            raise LedgerError(f"This is the ledger of party {owner.party!r}, not of {party!r}.")
        if self._books.keys and not public_key:
            raise LedgerError("The ledger's entries are signed. Open it with the party's key.")
        if public_key and public_key not in self._books.keys:
            self.adopt(public_key, vouching)

    def adopt(self, public_key: str, vouching: Signer | None = None) -> None:
        """Let a key sign from now on, and let the ledger have heads, unless both are so.

        `vouching` is the key beside the ledger, or an earlier one.
        """
        with self._turn("adopt") as books:
            if public_key not in books.keys or not books.salt:
                salt = books.salt or secret_bytes(_SALT_BYTES).hex()
                body = Adopted(public_key, salt)
                if vouching is not None:
                    body = replace(body, vouched=vouching.sign(body.vouches_for).hex())
                self._write([body])

    def check_keys(self, trusted: Iterable[str], *, own: str = "") -> None:
        """Raise unless the party's own keys signed this ledger, or keys that vouch for each other.

        Parameters
        ----------
        trusted
            The party's keys, as far as they are known.
        own
            The key beside the ledger; it may vouch, too.
        """
        with self._reading() as books:
            sound = {key for key in (*trusted, own, books.owner.public_key) if key}
            if not sound:  # nothing to compare the first key with
                sound.update(books.keys[:1])
            for entry in books.adopted:
                body = entry.body
                assert isinstance(body, Adopted)
                if body.public_key not in sound and not _is_vouched(body, sound):
                    raise LedgerError(
                        f"Entry {entry.seq} of the ledger lets a key sign that is none of this "
                        "party's, and for which no earlier key vouches. Whatever follows may be "
                        "somebody else's.",
                        local=f"The key: {fingerprint_of_key(body.public_key)}.",
                    )
                sound.add(body.public_key)

    @contextmanager
    def _turn(self, step: str) -> Iterator[Books]:
        """Write exclusively, after reading what others wrote; on disk when the block ends."""
        if not self._may_write:
            raise LedgerError("The ledger was opened read-only. Name its party to write.")
        self._watch(f"{step}: asked")
        with self._lock:
            with self._store.writing():
                self._catch_up()
                self._watch(f"{step}: locked")
                yield self._books
                self._watch(f"{step}: written")
            self._watch(f"{step}: on disk")
            self._catch_up()  # the books hold only what is on disk

    @contextmanager
    def _reading(self) -> Iterator[Books]:
        with self._lock:
            self._catch_up()
            yield self._books

    def _catch_up(self) -> None:
        for row in self._store.rows_after(self._books.anchor):
            self._books.read(row)

    def _write(self, bodies: Sequence[Body], reply: bytes | None = None) -> list[int]:
        """Write entries, and the reply with the last one; return their numbers."""
        last, written = self._books.anchor, []
        for body in bodies:
            last = self._store.append(last, body, reply)
            written.append(last.seq)
        return written

    def _reply(self, books: Books, question: Question) -> bytes | None:
        """Return a stored reply; raise if it was changed."""
        if question not in books.answered:
            return None
        seq, digest = books.answered[question]
        reply = self._store.reply(seq)
        if reply is None or sha256(reply).hexdigest() != digest:
            raise LedgerError(f"The reply stored with entry {seq} of the ledger was changed.")
        return reply


def _restart(entry: Entry) -> Restart:
    assert isinstance(entry.body, Restarted)
    return Restart(entry.seq, entry.at, entry.body.reason)


def _is_vouched(body: Adopted, keys: Iterable[str]) -> bool:
    signature = bytes.fromhex(body.vouched)
    return any(is_signed_by(key, signature, body.vouches_for) for key in keys)


def _check_signed(row: Row, keys: Sequence[str]) -> None:
    """Raise unless an entry has the right signature: that of one of the keys, or none."""
    is_right = any(is_signed_by(key, row.signature, row.hash) for key in reversed(keys))
    if not is_right if keys else row.signature != b"":
        raise LedgerError(f"Entry {row.seq} of the ledger does not carry the party's signature.")


def _charged(question: Question, spend: Spend, job: JobTerms) -> Charged:
    """Return the charge for a spend; its cost is computed here from the mechanism's parameters."""
    parameters = spend.mechanism.parameters()
    return Charged(
        question=question,
        data=job.data,
        what=spend.what,
        parameters=parameters,
        cost=spend.mechanism.cost(spend.n_values),
        n_releases=spend.n_releases,
        n_values=spend.n_values,
        scopes=tuple(scope.words for scope in spend.scopes),
        views=spend.views,
        t_honest=job.honest_for(spend.what, parameters),
        n_parties=job.n_parties,
        is_seeded=is_seeded(),
    )


def _check_terms(books: Books, job: JobTerms, life: Account | None) -> None:
    """Raise unless a job can be opened on these terms, beside this account of its data set."""
    if books.jobs.get(job.name) not in (None, job):
        raise LedgerError(
            f"Job {job.name!r} was opened on other terms, which cannot change. Give the "
            f"new job a different name."
        )
    if life and not life.measure.takes(job.measure):
        counted = {Measure.PURE: "pure epsilon", Measure.GAUSSIAN: "Gaussian noise"}
        job_counts = "zCDP" if job.measure is Measure.ZCDP else counted[job.measure]
        raise SettingError(
            f"Job {job.name!r} counts in {job_counts}, which has no cost in "
            f"{counted[life.measure]}; the lifetime budget of the data set counts in "
            f"{counted[life.measure]}."
        )


def _shortfall(books: Books, job: JobTerms, spends: Sequence[Spend]) -> Shortfall | None:
    """Return the budget that these releases together would overspend, or None."""
    charges = [_charged(Question(job.name, 0, ""), spend, job) for spend in spends]
    return books.shortfall(job, [line for charge in charges for line in charge.lines])


def _check(books: Books, job: JobTerms, charges: Sequence[Charged]) -> None:
    """Raise `BudgetError` unless both budgets allow the charges together."""
    short = books.shortfall(job, [line for charge in charges for line in charge.lines])
    if short is not None:
        what = " and ".join(dict.fromkeys(charge.what for charge in charges))
        raise short.refusal(what)
