"""Certificates of other parties: those that a policy pins, and those that were met in runs.

Every certificate of a federation is signed by its authority, and whoever runs the coordinator has
the authority's key. So it could sign a certificate for a party that does not exist, or a second one
for a party that does. People notice that: they compare fingerprints by telephone, and pin them.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509

from spinney.deployment.identity import KitIdentity
from spinney.deployment.party.guard import now
from spinney.errors import PolicyError, SettingError, StorageError
from spinney.files import replace_file
from spinney.transport.remote.certificates import CERTIFICATE_LIMIT, fingerprint

_FORM: Final = re.compile(r"SHA256:[0-9A-F]{2}(:[0-9A-F]{2}){31}", re.IGNORECASE)


def check_pins(pins: Mapping[str, str]) -> None:
    """Raise unless every pin is a fingerprint."""
    for name, pin in pins.items():
        if not _FORM.fullmatch(pin):
            raise SettingError(
                f"The pin of {name!r} in [policy.peers] must be a fingerprint as 'spinney party "
                f"peers' prints it, SHA256:02:35:...; got {pin!r}."
            )


class Pins:
    """The fingerprints of other parties' certificates that a party's policy names.

    Parameters
    ----------
    own
        The name of the party whose policy it is.
    pins
        A fingerprint by name; without any, every certificate of the federation is accepted.
    """

    def __init__(self, own: str, pins: Mapping[str, str]) -> None:
        self._own = own
        self._pins = pins

    def check(self, name: str, certificate: bytes) -> None:
        """Raise unless a party's certificate, as PEM, is the pinned one."""
        if not self._pins or name == self._own:
            return
        if name not in self._pins:
            raise PolicyError(
                f"Party {name!r} is not among the peers that the policy of {self._own!r} pins "
                "(rule 'peers'). If you know its people, compare fingerprints by telephone and add "
                "it to [policy.peers]; otherwise the coordinator has let in somebody else. Nothing "
                "was released."
            )
        shown = fingerprint_of(certificate)
        if shown.casefold() != self._pins[name].casefold():
            raise PolicyError(
                f"The certificate of {name!r} is not the one that the policy of "
                f"{self._own!r} pins (rule 'peers'); its fingerprint is {shown}. Ask the people of "
                f"{name!r} by telephone: if they have renewed it, change the pin in "
                "[policy.peers]; otherwise somebody else takes part under their name. Nothing was "
                "released."
            )


def fingerprint_of(certificate: bytes) -> str:
    """Return the fingerprint of a certificate in PEM."""
    return fingerprint(x509.load_pem_x509_certificate(certificate[:CERTIFICATE_LIMIT]))


class Met(msgspec.Struct, frozen=True):
    """A certificate that a party showed in runs."""

    name: str
    fingerprint: str
    first: str  # when, in UTC
    last: str
    run: str  # the last one


class MetPeers:
    """The certificates of others that this party accepted, on its disk."""

    def __init__(self, records: Path) -> None:
        self._path = records / "peers.json"

    def known(self) -> tuple[Met, ...]:
        """Return every certificate, in the order in which they were first met."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=tuple[Met, ...])
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError) as error:
            raise StorageError(
                "The record of the parties that this one met cannot be read. Restore records/ "
                "from a backup, or remove its file peers.json to begin anew.",
                local=str(error),
            ) from None

    def note(self, run: str, name: str, certificate: bytes) -> None:
        """Record that a party showed a certificate in a run."""
        met = {(one.name, one.fingerprint): one for one in self.known()}
        shown, seen = fingerprint_of(certificate), now()
        before = met.get((name, shown))
        met[name, shown] = Met(name, shown, seen if before is None else before.first, seen, run)
        try:
            replace_file(self._path, msgspec.json.encode(tuple(met.values())))
        except OSError as error:
            raise StorageError(
                "This party cannot record whom it meets, so it shares no keys. Make room on its "
                "disk, then resume the job.",
                local=str(error),
            ) from None


class PinnedIdentity(KitIdentity):
    """The identity in a start kit; others must show the pinned certificates, and are recorded.

    Parameters
    ----------
    kit
        The start kit.
    pins
        Which certificates are accepted.
    met
        Where they are recorded.
    run
        The run in which they are shown.
    """

    def __init__(self, kit: Path, pins: Pins, met: MetPeers, run: str) -> None:
        super().__init__(kit)
        self._pins = pins
        self._met = met
        self._run = run
        self._noted: set[tuple[str, bytes]] = set()

    def check(self, name: str, certificate: bytes, signature: bytes, data: bytes) -> None:
        """Raise unless the named party signed this, with a certificate that is accepted here."""
        super().check(name, certificate, signature, data)
        self._pins.check(name, certificate)
        if certificate != self.certificate and (name, certificate) not in self._noted:
            self._met.note(self._run, name, certificate)
            self._noted.add((name, certificate))
