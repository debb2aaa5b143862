"""`spinney ledger restart`: go on although entries are lost, and tell all parties why."""

from pathlib import Path

from spinney.deployment.party.config import PartyFile, load_party
from spinney.deployment.party.heads import OwnMark, own_key, signer_of
from spinney.errors import LedgerError, SettingError
from spinney.privacy.heads import Head
from spinney.privacy.ledger import Ledger
from spinney.privacy.ledger_copies import alone_with, begin_anew, opened


def restart_ledger(path: Path, reason: str) -> str:
    """Record a restart in a party's ledger, or in a fresh one if it is lost; say what follows.

    The entry is on disk, whole, before the party's records follow; if they do not, the next start
    finds the entry.
    """
    party = load_party(path)
    ledger, mark = party.ledger_file, OwnMark(party.records)
    with alone_with(ledger):
        known = mark.known()
        if ledger.exists():
            lost = _lost(ledger, known)
            _record(party, ledger, reason, lost)
        elif known is None:
            raise SettingError("There is no ledger, and there was none. There is nothing lost.")
        else:
            lost = known.seq
            begin_anew(ledger, lambda part: _record(party, part, reason, known.seq))
        with opened(ledger) as restarted:
            head = restarted.head()
        mark.note(head)
    told = f"The ledger of {party.party.name!r} is restarted: it has {head.seq} entries."
    if lost:
        told += (
            f" Entry {lost} and others are given up. The budget that is left counts without them: "
            "lower epsilon_total by what they cost."
        )
    return f"{told} All parties of its next job read why: {reason.strip()}"


def _lost(ledger: Path, known: Head | None) -> int:
    """Return the last entry that the ledger had, if it does not have it now; else 0."""
    try:
        with opened(ledger) as present:
            present.verify()
            if known is None:
                return 0
            if not present.books.salt:
                return known.seq
            problem = present.head(places=[known.seq]).problem_after(known)
            return known.seq if problem else 0
    except LedgerError as error:
        raise LedgerError(
            "The ledger is damaged, so it cannot go on. Restore the newest copy; if there is none, "
            "move the damaged file away and restart again: a fresh ledger begins then.",
            local=f"File: {ledger}: {error}",
        ) from None


def _record(party: PartyFile, path: Path, reason: str, lost: int) -> None:
    """Write the restart."""
    signer = signer_of(party)
    own = own_key(party)
    ledger = Ledger.open(path, party.party.name, key=signer, vouching=own)
    try:
        ledger.adopt(signer.public_key, own)
        ledger.restart(reason, lost)
    finally:
        ledger.close()
