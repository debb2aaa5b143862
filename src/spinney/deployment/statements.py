"""Signed heads of ledgers, as they travel between a coordinator and its parties.

They ride on messages that are sent anyway. The coordinator's offer of an attempt shows what it
keeps. A party that takes part says where its ledger ends, and countersigns what it keeps of the
others. The first question shows all of that to everybody. Every answer says where the ledger ends
now, and the end of an attempt shows everybody the last of it, countersigned by the coordinator.

**Who learns what.** Everybody in a job learns how many entries the others' ledgers have, keyed
marks of some entries, and why a ledger was restarted. Nobody learns what an entry says.
"""

from typing import Self

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from spinney.deployment.identity import KitIdentity
from spinney.errors import LedgerError, ProtocolError
from spinney.privacy.heads import Head
from spinney.privacy.ledger_store import Countersignature
from spinney.privacy.signatures import text_of
from spinney.transport.remote.certificates import CERTIFICATE_LIMIT, PARTY, SERVER


class _Sent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something that travels as bytes."""

    def to_bytes(self) -> bytes:
        """Return it as bytes."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def of_bytes(cls, data: bytes) -> Self:
        """Return what `to_bytes` wrote, checked."""
        try:
            return msgspec.msgpack.decode(data, type=cls)
        except (msgspec.MsgspecError, ValueError) as error:
            raise ProtocolError("A ledger's head is malformed.", local=str(error)) from None


class Statement(_Sent, frozen=True):
    """The head of a party's ledger, signed by the party."""

    data: bytes
    signature: bytes
    certificate: bytes

    @classmethod
    def of(cls, identity: KitIdentity, head: Head) -> "Statement":
        """Sign a head."""
        return cls(head.to_bytes(), identity.sign(head.signed), identity.certificate)

    @property
    def head(self) -> Head:
        """What is stated; not checked."""
        return Head.of_bytes(self.data)

    def checked(self, identity: KitIdentity, *, is_old: bool = True) -> Head:
        """Return what is stated; raise unless the party that it names signed it."""
        head = self.head
        signer = identity.signer(self.certificate, self.signature, head.signed, is_old=is_old)
        if signer is None or (signer.name, signer.role) != (head.party, PARTY):
            raise ProtocolError(
                f"The head shown for the ledger of party {head.party!r} is not signed by that "
                "party. Nothing was released."
            )
        return head


class Kept(_Sent, frozen=True):
    """A head that somebody keeps, with that one's signature.

    `places` are earlier places of the same ledger that others may keep.
    """

    statement: Statement
    signature: bytes
    certificate: bytes
    places: tuple[int, ...] = ()

    @classmethod
    def by(
        cls, identity: KitIdentity, statement: Statement, places: tuple[int, ...] = ()
    ) -> "Kept":
        """Countersign a statement."""
        signature = identity.sign(statement.head.countersigned)
        return cls(statement, signature, identity.certificate, places)

    def checked(self, identity: KitIdentity) -> tuple[Head, Countersignature]:
        """Return the head and who keeps it; raise unless both signed."""
        head = self.statement.checked(identity)
        data = head.countersigned
        keeper = identity.signer(self.certificate, self.signature, data, is_old=True)
        if keeper is None or keeper.role not in (PARTY, SERVER):
            raise ProtocolError(
                f"The head kept of the ledger of party {head.party!r} is not countersigned. "
                "Nothing was released."
            )
        shown = x509.load_pem_x509_certificate(self.certificate[:CERTIFICATE_LIMIT]).public_key()
        assert isinstance(shown, RSAPublicKey)
        name = "the coordinator" if keeper.role == SERVER else keeper.name
        return head, Countersignature(name, text_of(shown), self.signature.hex())


class Joining(_Sent, frozen=True):
    """A party's present head, and the heads of others that it keeps."""

    statement: Statement
    kept: tuple[Kept, ...]


def turned_back(party: str, problem: str) -> LedgerError:
    """Return what is said of another party's ledger that does not go on from a head kept here."""
    return LedgerError(
        f"The ledger of party {party!r} {problem}: an older copy was put in its place, or it was "
        f"lost or changed. Nothing was released. {party!r} must restore the newest copy, or say "
        "why it cannot: spinney ledger restart."
    )
