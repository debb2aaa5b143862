"""A party's ledger among the others: what they keep of it, and what it keeps of theirs.

Of its own ledger a party remembers, beside its records, where it ended after the last answer. So an
older copy, a lost file or a changed one is noticed at home, before anybody else is asked.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from spinney.deployment.identity import KitIdentity
from spinney.deployment.party.config import PartyFile
from spinney.deployment.statements import Joining, Kept, Statement, turned_back
from spinney.errors import LedgerError, ProtocolError, SpinneyError, StorageError
from spinney.files import replace_file
from spinney.privacy.heads import Head, newest
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_copies import opened
from spinney.privacy.ledger_store import Countersignature, Countersigned
from spinney.privacy.signatures import LocalKey, Signer, ledger_secret

_LOG: Final = logging.getLogger("spinney.audit")
_OWN: Final = "ledger.json"
_OTHERS: Final = "heads.json"


class _Remembered(msgspec.Struct, frozen=True):
    """Where a ledger ended, and the places that were shown to others in the last attempts."""

    head: Head
    places: tuple[int, ...] = ()


class OwnMark:
    """Where a party's ledger ended last, in its records."""

    def __init__(self, records: Path) -> None:
        self._path = records / _OWN

    def known(self) -> Head | None:
        """Return where it ended; None if there is no record."""
        remembered = self._remembered()
        return None if remembered is None else remembered.head

    def places(self) -> tuple[int, ...]:
        """Return the places that others may keep, though nobody has countersigned them."""
        remembered = self._remembered()
        return () if remembered is None else remembered.places

    def _remembered(self) -> _Remembered | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Remembered)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise LedgerError(
                "The record of where this party's ledger ended cannot be read. Restore records/ "
                "from a backup. Nothing was released.",
                local=str(error),
            ) from None

    def note(self, head: Head, *, is_shown: bool = False) -> None:
        """Record where it ends now, and whether all parties are shown that."""
        places = {*self.places(), head.seq} if is_shown else self.places()
        bare = msgspec.structs.replace(head, past=())
        _write(self._path, msgspec.json.encode(_Remembered(bare, tuple(newest(places)))))

    def require_ledger(self, path: Path) -> None:
        """Raise if there is no ledger although there was one."""
        known = self.known()
        if known is not None and not path.exists():
            raise refused_at_home(f"is missing; it had {known.seq} entries")

    def require_same(self, ledger: Ledger, federation: str) -> None:
        """Raise unless the ledger goes on from where it ended last."""
        known, books = self.known(), ledger.books
        if known is not None:
            require_own(ledger, known)
        elif any(one.federation == federation for one in books.countersigned):
            raise LedgerError(
                "This party's records do not know its ledger, which others have countersigned: "
                f"{_OWN} is missing. Restore records/ from a backup, or say to all parties why "
                'that is so: spinney ledger restart party.toml --reason "...". Nothing was '
                "released."
            )


def signer_of(party: PartyFile) -> Signer:
    """Return the key that signs a party's ledger: its certificate's, or the ledger's own."""
    identity, secret = KitIdentity(party.kit), ledger_secret(party.ledger_file)
    return identity if identity.has_key else LocalKey.of_secret(secret)


def own_key(party: PartyFile) -> LocalKey:
    """Return the key beside a party's ledger, which vouches for the keys that it adopts."""
    return LocalKey.of_secret(ledger_secret(party.ledger_file))


def require_whole(party: PartyFile) -> None:
    """Raise if a party's ledger is missing, not its own, or not as it was when it ended last."""
    mark, identity = OwnMark(party.records), KitIdentity(party.kit)
    mark.require_ledger(party.ledger_file)
    if party.ledger_file.exists():
        with opened(party.ledger_file) as ledger:
            ledger.check_keys([signer_of(party).public_key], own=own_key(party).public_key)
            mark.require_same(ledger, identity.federation if identity.has_key else "")


def require_own(ledger: Ledger, held: Head, by: str = "") -> None:
    """Raise unless a party's own ledger goes on from a head that was kept of it."""
    problem = f"has {ledger.anchor().seq} entries, all of a time before it had {held.seq}"
    if ledger.books.salt:
        problem = ledger.head(places=[held.seq]).problem_after(held)
    if problem:
        raise refused_at_home(f"{problem} ({by} keeps its head)" if by else problem)


def refused_at_home(problem: str) -> LedgerError:
    """Return why a party goes on with no other ledger than its own, and what to do."""
    return LedgerError(
        f"This party's ledger {problem}. Charges that it has forgotten still count. Restore the "
        "newest copy: spinney ledger restore. If there is none, say so to all parties: spinney "
        'ledger restart party.toml --reason "...". Nothing was released.'
    )


class LedgerHeads:
    """The heads of all parties' ledgers in one attempt, as one party sees them.

    Parameters
    ----------
    name, identity
        The party, and who it is to others.
    records
        Where it keeps what it knows.
    attempt
        The attempt: "<run>/<attempt>".
    ledger
        Opens the party's own ledger.
    present
        The parties in the attempt.
    """

    def __init__(
        self,
        name: str,
        identity: KitIdentity,
        records: Path,
        *,
        attempt: str,
        ledger: Callable[[], Ledger],
        present: Sequence[str],
    ) -> None:
        self._name = name
        self._identity = identity
        self._records = records
        self._attempt = attempt
        self._ledger = ledger
        self._present = tuple(present)
        self._met = False
        self.n_shown = 0  # bytes that everybody was shown when this party joined

    def join(self, offered: Iterable[bytes]) -> bytes:
        """Return this party's head and what it keeps of others; raise if its ledger is not whole.

        Parameters
        ----------
        offered
            What the coordinator keeps.
        """
        kept = [Kept.of_bytes(data) for data in offered]
        places: list[int] = []
        for one in kept:
            if one.statement.head.party == self._name:
                self._take_own(one)
                places += [one.statement.head.seq, *one.places]
            else:
                self._keep_newer(one)
        places += [one.entry for one in self._ledger().books.countersigned]
        places += OwnMark(self._records).places()
        statement = Statement.of(self._identity, self._noted(places, is_shown=True))
        held = _held_in(self._records)
        others = tuple(
            Kept.by(self._identity, held[name]) for name in self._present if name in held
        )
        shown = Joining(statement, others).to_bytes()
        self.n_shown = len(shown)
        return shown

    def meet(self, shown: Sequence[bytes]) -> None:
        """Compare what all parties show with what this one keeps; raise if a ledger went back."""
        if self._met:
            return
        joined = {one.statement.head.party: one for one in map(Joining.of_bytes, shown)}
        for name in self._present:
            if name not in joined:
                raise ProtocolError(
                    f"The coordinator did not show the head of the ledger of party {name!r}. "
                    "Nothing was released."
                )
        held = _held_in(self._records)
        by: dict[bytes, list[Countersignature]] = {}
        for name in self._present:
            one = joined[name]
            head = self._shown_now(name, one)
            if name == self._name:
                continue
            if name in held:
                self._compare(head, held[name].head)
            held[name] = one.statement
            for kept in one.kept:
                if kept.statement.head.party == self._name:
                    self._take_from(name, kept, by)
        for data, names in by.items():
            self._countersigned(Head.of_bytes(data), tuple(names))
        self._keep(held)
        self._met = True

    def stated(self) -> bytes:
        """Return where the ledger ends now, after an answer; it is on record first."""
        return Statement.of(self._identity, self._noted()).to_bytes()

    def end(self, kept: Iterable[bytes]) -> None:
        """Keep what the attempt came to at everybody's ledger, as far as it is signed."""
        for data in kept:
            try:
                one = Kept.of_bytes(data)
                if one.statement.head.party == self._name:
                    self._take_own(one)
                    self._noted()
                else:
                    self._keep_newer(one)
            except SpinneyError as error:
                _LOG.warning("The end of an attempt was not kept: %s", error)

    def _noted(self, places: Iterable[int] = (), *, is_shown: bool = False) -> Head:
        """Return where the ledger ends now, once that is on record."""
        ledger, mark = self._ledger(), OwnMark(self._records)
        known = mark.known()
        if known is not None:  # the file may have been replaced under a party that runs
            require_own(ledger, known)
        head = ledger.head(self._attempt, places)
        mark.note(head, is_shown=is_shown)
        return head

    def _take_own(self, kept: Kept) -> None:
        """Compare the own ledger with a head of it that somebody else keeps, and record that."""
        head, keeper = kept.checked(self._identity)
        require_own(self._ledger(), head, keeper.name)
        self._countersigned(head, (keeper,))

    def _take_from(self, name: str, kept: Kept, by: dict[bytes, list[Countersignature]]) -> None:
        head, keeper = kept.checked(self._identity)
        if keeper.name != name:
            raise ProtocolError(f"What party {name!r} keeps is countersigned by {keeper.name!r}.")
        require_own(self._ledger(), head, keeper.name)
        by.setdefault(kept.statement.data, []).append(keeper)

    def _countersigned(self, head: Head, by: tuple[Countersignature, ...]) -> None:
        """Record who keeps a head of the own ledger, unless that is recorded."""
        ledger, federation = self._ledger(), self._identity.federation
        own = ledger.head(places=[head.seq])
        if (dict(own.past) | {own.seq: own.mark}).get(head.seq) != head.mark:
            return  # a restart gave it up
        known = {
            (one.entry, signer.name)
            for one in ledger.books.countersigned
            if one.federation == federation
            for signer in one.by
        }
        new = tuple(one for one in by if (head.seq, one.name) not in known)
        if new:
            data = head.to_bytes().hex()
            ledger.keep_countersigned(
                Countersigned(head.run.partition("/")[0], federation, head.seq, data, new)
            )

    def _shown_now(self, name: str, joined: Joining) -> Head:
        """Return the head that a party shows in this attempt, after a check of who signed it."""
        statement = joined.statement
        head = statement.checked(self._identity, is_old=False)
        self._identity.check(name, statement.certificate, statement.signature, head.signed)
        if head.run != self._attempt:
            raise ProtocolError(
                f"The head shown for the ledger of party {name!r} is of another attempt. Nothing "
                "was released."
            )
        return head

    def _compare(self, shown: Head, held: Head) -> None:
        problem = shown.problem_after(held)
        if problem:
            raise turned_back(shown.party, problem)
        for restart in shown.new_restarts(held):
            _LOG.warning(
                "Party %r restarted its ledger on %s, and says why: %s",
                shown.party,
                restart.at[:10],
                restart.reason,
            )

    def _keep_newer(self, kept: Kept) -> None:
        """Keep another party's head, if it goes on from the one that is kept."""
        head, _ = kept.checked(self._identity)
        held = _held_in(self._records)
        before = held.get(head.party)
        if before is None or (
            head.seq > before.head.seq and not _goes_elsewhere(head, before.head)
        ):
            self._keep(held | {head.party: kept.statement})

    def _keep(self, held: dict[str, Statement]) -> None:
        _write(self._records / _OTHERS, msgspec.json.encode(held))


def kept_heads(records: Path) -> dict[str, Head]:
    """Return the heads of other parties' ledgers that a party keeps in its records."""
    return {name: statement.head for name, statement in _held_in(records).items()}


def _held_in(records: Path) -> dict[str, Statement]:
    try:
        data = (records / _OTHERS).read_bytes()
        return msgspec.json.decode(data, type=dict[str, Statement])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise StorageError(
            "What this party keeps of the others' ledgers cannot be read. Restore records/ "
            f"from a backup, or remove its file {_OTHERS} to begin anew.",
            local=str(error),
        ) from None


def _goes_elsewhere(head: Head, held: Head) -> bool:
    """Return whether a later head is of another ledger, or of one that lost its restarts."""
    return head.ledger != held.ledger or bool(set(held.restarts) - set(head.restarts))


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data, mode=0o600)
    except OSError as error:
        raise StorageError(
            "This party cannot record where ledgers end, so nothing leaves. Make room on its disk, "
            "then resume the job.",
            local=str(error),
        ) from None
