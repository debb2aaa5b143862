"""A party's seat in a run: what it signs there for the others, and how it checks what they signed.

The coordinator carries all messages of a run. What must come from a certain party is signed by it,
for one run, one leading party and one list of parties, so that the coordinator can neither make it
up nor take it from another run.

**Who learns what.** Everybody learns signatures and certificates. **Who never learns what.**
Nothing of any table is involved.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from msgspec import UNSET, UnsetType

from spinney.errors import ProtocolError
from spinney.privacy.identities import Identity, simulated_identities
from spinney.privacy.keys import digest
from spinney.transport.messages import message


@message
class Signed:
    """A party's signature, and the certificate that checks it."""

    party: str
    signature: bytes
    certificate: bytes


Unsigned = UnsetType
UNSIGNED: Final = UNSET
"""In place of a signature, where all parties are in one process. It is not in a message's bytes."""


def all_signed(
    signatures: Iterable[Signed | Unsigned],
) -> tuple[Signed, ...] | Unsigned:
    """Return signatures for a message; unsigned if one of them is missing."""
    found = tuple(signatures)
    signed = tuple(one for one in found if isinstance(one, Signed))
    return signed if len(signed) == len(found) else UNSIGNED


@dataclass(frozen=True)
class Seat:
    """One party's seat in one run.

    Attributes
    ----------
    name
        The party.
    run
        The run's unique name.
    parties
        All parties of the job that this party accepted.
    lead
        The leading party: it holds the labels and leads the matching.
    identity
        Signs for this party, and checks the others' signatures.
    """

    name: str
    run: str
    parties: tuple[str, ...]
    lead: str
    identity: Identity

    @property
    def others(self) -> tuple[str, ...]:
        """The other parties, sorted."""
        return tuple(sorted(name for name in self.parties if name != self.name))

    def sign(self, what: str, *parts: str | bytes | int) -> Signed:
        """Return this party's signature for this run."""
        data = self._signed(self.name, what, parts)
        return Signed(self.name, self.identity.sign(data), self.identity.certificate)

    def check(
        self, name: str, signed: Signed | Unsigned, what: str, *parts: str | bytes | int
    ) -> None:
        """Raise unless another party of this run signed this."""
        refusal = ProtocolError(
            f"The {what} sent for party {name!r} is not signed by that party for this run. "
            "Nothing was released."
        )
        if name not in self.others or not isinstance(signed, Signed) or signed.party != name:
            raise refusal
        data = self._signed(name, what, parts)
        try:
            self.identity.check(name, signed.certificate, signed.signature, data)
        except ProtocolError:
            raise refusal from None

    def _signed(self, name: str, what: str, parts: Sequence[str | bytes | int]) -> bytes:
        roster = sorted(self.parties)
        return digest(
            "spinney columns 1", self.run, self.lead, len(roster), *roster, name, what, *parts
        )


def seats_in_one_process(names: Sequence[str], lead: str) -> Mapping[str, Seat]:
    """Return seats for parties in one process, with identities that are made on the fly."""
    run, identities = f"simulation {uuid4()}", simulated_identities(names)
    return {name: Seat(name, run, tuple(names), lead, identities[name]) for name in names}
