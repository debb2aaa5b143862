"""`spinney party peers`: the other parties, as this one's policy and records know them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from spinney.deployment.condition import in_utc
from spinney.deployment.party.config import load_party
from spinney.deployment.party.heads import kept_heads
from spinney.deployment.party.pins import Met, MetPeers, fingerprint_of
from spinney.privacy.heads import Head


class OtherParty(msgspec.Struct, frozen=True):
    """Another party: its newest certificate, and whether the policy pins it."""

    name: str
    fingerprint: str
    standing: str  # "pinned", "not pinned", "pinned to another certificate", "pinned, not met yet"
    first: str = ""  # when it was met with this certificate, in UTC
    last: str = ""
    run: str = ""
    before: tuple[str, ...] = ()  # fingerprints that it showed earlier


class Peers(msgspec.Struct, frozen=True):
    """The other parties, as a party's policy and records know them."""

    party: str
    fingerprint: str  # of its own certificate; empty without a start kit
    peers: tuple[OtherParty, ...]
    warnings: tuple[str, ...]
    pins: dict[str, str]  # what to paste into [policy.peers]


def show_peers(path: Path) -> Peers:
    """Return the other parties of a party's file; needs no network."""
    party = load_party(path)
    own = party.kit / "startup" / "client.crt"
    certificate = own.read_bytes() if own.is_file() else b""
    met = MetPeers(party.records).known()
    found = peers_of(party.party.name, certificate, party.policy.peers, met)
    told = (*found.warnings, *_restarts(kept_heads(party.records).values()))
    return msgspec.structs.replace(found, warnings=told)


def _restarts(heads: Iterable[Head]) -> Iterator[str]:
    """Yield what other parties said when they restarted their ledgers."""
    for head in heads:
        for restart in head.restarts:
            yield (
                f"{head.party} restarted its ledger on {restart.at[:10]}, and says why: "
                f"{restart.reason}"
            )


def peers_of(own: str, certificate: bytes, pins: Mapping[str, str], met: Iterable[Met]) -> Peers:
    """Return the other parties of a party; `certificate` is its own, empty if it has none."""
    shown: dict[str, list[Met]] = {}
    for one in sorted(met, key=lambda one: one.last):
        shown.setdefault(one.name, []).append(one)
    peers = []
    for name in sorted(set(shown) | set(pins)):
        if name in shown:
            *before, last = shown[name]
            old = tuple(one.fingerprint for one in before)
            standing = _standing(last, pins.get(name))
            peers.append(
                OtherParty(name, last.fingerprint, standing, last.first, last.last, last.run, old)
            )
        else:
            peers.append(OtherParty(name, pins[name], "pinned, not met yet"))
    return Peers(
        own,
        fingerprint_of(certificate) if certificate else "",
        tuple(peers),
        tuple(words for peer in peers if (words := _warning(peer, pins))),
        {peer.name: peer.fingerprint for peer in peers},
    )


def _standing(met: Met, pin: str | None) -> str:
    if pin is None:
        return "not pinned"
    is_pinned = pin.casefold() == met.fingerprint.casefold()
    return "pinned" if is_pinned else "pinned to another certificate"


def _warning(peer: OtherParty, pins: Mapping[str, str]) -> str:
    """Return what people must look into; empty if there is nothing."""
    if peer.before and peer.standing != "pinned":
        return (
            f"the certificate of {peer.name!r} changed: before it was {peer.before[-1]}. Ask its "
            "people by telephone whether they renewed it; if not, somebody else took part under "
            "their name."
        )
    if pins and peer.standing == "not pinned":
        return f"{peer.name!r} took part before you pinned peers, and is not one of them."
    return ""


def peers_page(found: Peers) -> str:
    """Return the other parties as text."""
    own = found.fingerprint or "no certificate yet; join the federation first: spinney party join"
    lines = [f"{found.party} (this party): {own}"]
    if not found.peers:
        return "\n".join([*lines, "This party has met no others in runs, and pins none."])
    for peer in found.peers:
        when = ""
        if peer.run:
            when = f"; first met {in_utc(peer.first)}, last {in_utc(peer.last)}, run {peer.run[:8]}"
        lines += [f"{peer.name}: {peer.fingerprint}", f"  {peer.standing}{when}"]
    lines += [f"warning: {words}" for words in found.warnings]
    if any(peer.standing.startswith(("not", "pinned to")) for peer in found.peers):
        lines += ["", "To pin them, compare each fingerprint with its owner by telephone, then put"]
        lines += ["this into party.toml:", "", "[policy.peers]"]
        lines += [f'{_key(name)} = "{pin}"' for name, pin in found.pins.items()]
    return "\n".join(lines)


def _key(name: str) -> str:
    """Return a name as a key of TOML."""
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", name)
    return name if bare else msgspec.json.encode(name).decode()
