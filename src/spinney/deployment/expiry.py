"""When certificates expire, and what to do before that."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from spinney.errors import SettingError
from spinney.transport.remote import kits
from spinney.transport.remote.certificates import holder_of

_SOON: Final = 30  # days


def days_left(last: datetime) -> float:
    """Return how many days are left until a moment; below 0 after it."""
    return (last - datetime.now(UTC)) / timedelta(days=1)


def party_warning(kit: Path) -> Callable[[], str]:
    """Return a function that warns if a party's certificate expires soon; empty: it does not."""
    own = kits.certificate_in(kit, "client", "spinney party join")
    federation = "FEDERATION"
    with suppress(SettingError):
        federation = kits.address_in(kit).name
    instead = (
        f"Request a new one: spinney party request {holder_of(own).name} {federation} --out "
        "request-2 (docs/deploy.md, Keys)."
    )
    return lambda: _warning("The certificate", own.not_valid_after_utc, instead)


def coordinator_warning(kit: Path, file: str) -> Callable[[], str]:
    """Return a function that warns if the coordinator's certificate expires soon."""
    own = kits.certificate_in(kit, "server", "spinney coordinator init")
    instead = f"Renew it: spinney coordinator renew {file} --kit kit-2 (docs/deploy.md, Keys)."
    return lambda: _warning("The coordinator's certificate", own.not_valid_after_utc, instead)


def authority_warning(kit: Path) -> Callable[[], str]:
    """Return a function that warns if the authority's certificate expires soon."""
    last = authority_of(kit).not_valid_after_utc
    instead = "All certificates end with it. Make a new federation before that."
    return lambda: _warning("The authority's certificate", last, instead)


def authority_of(kit: Path) -> x509.Certificate:
    """Return the certificate of the authority, as a start kit has it."""
    return kits.authority_in(kit / "startup")


def _warning(what: str, last: datetime, instead: str) -> str:
    left = days_left(last)
    if left >= _SOON:
        return ""
    when = f"expired on {last:%Y-%m-%d}"
    if left >= 0:
        days = "within a day" if left < 1 else f"in {left:.0f} day{'s' * (round(left) != 1)}"
        when = f"expires on {last:%Y-%m-%d}, {days}"
    return f"{what} {when}. {instead}"
