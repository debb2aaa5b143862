"""A coordinator has the authority's key: it can make up parties, and pass for those that exist.

Fingerprints that people compared by telephone, and pinned, keep them out. Without pins the people
who run the real parties see them: `spinney party peers`.
"""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from typer.testing import CliRunner

from deployed.handmade import (  # type: ignore[import-not-found]
    ASKER,
    CLINICS,
    Authority,
    Sites,
    agreed_job,
    clinics_in,
    write_party,
)
from spinney.cli.main import app
from spinney.deployment.identity import KitIdentity
from spinney.deployment.party.config import load_party
from spinney.deployment.party.peers import peers_of
from spinney.deployment.party.pins import Met, MetPeers, Pins, fingerprint_of
from spinney.deployment.party.policy import Policy, check_policy
from spinney.errors import PolicyError, SettingError, StorageError
from spinney.protocols.rows.setup import SchemaAsk
from spinney.protocols.verified.channel import VerifiedSums
from spinney.transport.remote.certificates import key_bytes

MADE_UP = "harbour"
REAL = ("st-mary", "north")


@pytest.fixture
def clinics(tmp_path):
    """Two real parties, one that the coordinator made up, and one that it did not."""
    return clinics_in(tmp_path, (*CLINICS, MADE_UP))


def certificate_of(folder, name):
    return KitIdentity(folder / name / "kit").certificate


def pinned(folder, own, names):
    """Give a party's policy the fingerprints of others."""
    pins = {name: fingerprint_of(certificate_of(folder, name)) for name in names}
    lines = "\n".join(f'{name} = "{pin}"' for name, pin in pins.items())
    write_party(folder, own, policy=f"[policy.peers]\n{lines}")


def met(folder, agreed, run="run-1"):
    """Let the parties of a job exchange keys and answer one question."""
    sites = Sites(folder, agreed, run=run)
    try:
        VerifiedSums(sites.keyed()).ask(SchemaAsk())
    finally:
        sites.close()


def told(folder, name, *options):
    done = CliRunner().invoke(app, ["party", "peers", str(folder / name / "party.toml"), *options])
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("secure_sum", ["true", "false"])
def test_a_made_up_party_is_refused_at_every_party_that_pins_its_peers(clinics, secure_sum):
    agreed = agreed_job(clinics, parties=(*REAL, MADE_UP), secure_sum=secure_sum)
    for own, other in (REAL, REAL[::-1]):
        pinned(clinics, own, [other])
        words = rf"names the party 'harbour'; the policy of '{own}' pins others .*\(rule 'peers'\)"
        with pytest.raises(PolicyError, match=words):
            check_policy(own, load(clinics, own).policy, agreed, ASKER)
        words = (
            "Party 'harbour' is not among the peers .*let in somebody else. Nothing was released"
        )
        with pytest.raises(PolicyError, match=words):
            Pins(own, load(clinics, own).policy.peers).check(
                MADE_UP, certificate_of(clinics, MADE_UP)
            )
    with pytest.raises(PolicyError, match="names the party 'harbour'"):
        met(clinics, agreed)
    assert not (clinics / "north" / "records" / "peers.json").exists()


def load(folder, name):
    return load_party(folder / name / "party.toml")


def test_a_second_certificate_for_a_real_name_is_refused(clinics):
    """The authority signs whatever name the coordinator likes; only the fingerprint differs."""
    agreed = agreed_job(clinics)
    pinned(clinics, "north", ["st-mary", "lakeside"])
    met(clinics, agreed)
    key = rsa.generate_private_key(65537, 2048)
    forged = Authority().signed("lakeside", key).public_bytes(Encoding.PEM)
    startup = clinics / "lakeside" / "kit" / "startup"
    _put(startup, key, forged)
    words = (
        "The certificate of 'lakeside' is not the one that the policy of 'north' pins "
        r"\(rule 'peers'\); its fingerprint is SHA256:.*by telephone: if they have renewed it, "
        "change the pin .*takes part under their name. Nothing was released"
    )
    with pytest.raises(PolicyError, match=words):
        met(clinics, agreed, run="run-2")
    assert "lakeside" in told(clinics, "north")
    assert fingerprint_of(forged) not in told(clinics, "north")  # it was refused, not met


def _put(startup, key, certificate):
    (startup / "client.key").write_bytes(key_bytes(key))
    (startup / "client.crt").write_bytes(certificate)


def test_columns_jobs_check_pins_by_the_same_identity(clinics):
    pins = Pins("north", {"st-mary": fingerprint_of(certificate_of(clinics, "st-mary"))})
    pins.check("st-mary", certificate_of(clinics, "st-mary"))
    pins.check("north", b"its own is not looked at")
    Pins("north", {}).check(MADE_UP, certificate_of(clinics, MADE_UP))  # nobody is pinned
    lower = {"st-mary": fingerprint_of(certificate_of(clinics, "st-mary")).lower()}
    Pins("north", lower).check("st-mary", certificate_of(clinics, "st-mary"))


def test_without_pins_the_people_see_who_was_let_in(clinics):
    met(clinics, agreed_job(clinics, parties=(*REAL, MADE_UP)))
    page = told(clinics, "north")
    assert page.startswith(
        f"north (this party): {fingerprint_of(certificate_of(clinics, 'north'))}\n"
    )
    shown = fingerprint_of(certificate_of(clinics, MADE_UP))
    assert f"harbour: {shown}\n  not pinned; first met " in page
    assert ", run run-1\n" in page
    assert "compare each fingerprint with its owner by telephone" in page
    pasted = page[page.index("[policy.peers]") :]
    write_party(clinics, "north", policy=pasted)
    assert load(clinics, "north").policy.peers[MADE_UP] == shown
    again = told(clinics, "north")
    assert f"harbour: {shown}\n  pinned; first met" in again
    assert "[policy.peers]" not in again  # nothing is left to pin
    found = json.loads(told(clinics, "north", "--json"))
    assert {peer["name"]: peer["standing"] for peer in found["peers"]} == {
        "harbour": "pinned",
        "st-mary": "pinned",
    }


def test_a_certificate_that_changed_is_a_warning_until_it_is_pinned(clinics):
    agreed = agreed_job(clinics)
    met(clinics, agreed)
    old = fingerprint_of(certificate_of(clinics, "lakeside"))
    key = rsa.generate_private_key(65537, 2048)
    renewed = Authority().signed("lakeside", key).public_bytes(Encoding.PEM)
    _put(clinics / "lakeside" / "kit" / "startup", key, renewed)
    met(clinics, agreed, run="run-2")
    page = told(clinics, "north")
    assert f"warning: the certificate of 'lakeside' changed: before it was {old}. Ask its" in page
    assert f'lakeside = "{fingerprint_of(renewed)}"' in page
    pinned(clinics, "north", ["st-mary", "lakeside"])
    assert "warning" not in told(clinics, "north")


def test_a_party_without_runs_or_kit_is_told_what_to_do(tmp_path):
    write_party(tmp_path, "north")
    page = told(tmp_path, "north")
    assert page.startswith("north (this party): no certificate yet; join the federation first:")
    assert "This party has met no others in runs, and pins none." in page


def test_peers_that_are_pinned_and_others():
    pins = {"b": "SHA256:" + ":".join(["AA"] * 32)}
    met_c = Met("c", "SHA256:" + ":".join(["BB"] * 32), "2026-01-01", "2026-01-02", "run")
    met_b = Met("b", "SHA256:" + ":".join(["CC"] * 32), "2026-01-01", "2026-01-02", "run")
    found = peers_of("a", b"", pins, [met_c])
    assert [peer.standing for peer in found.peers] == ["pinned, not met yet", "not pinned"]
    assert found.warnings == ("'c' took part before you pinned peers, and is not one of them.",)
    (other,) = peers_of("a", b"", pins, [met_b]).peers
    assert other.standing == "pinned to another certificate"


def test_a_pin_must_be_a_fingerprint():
    words = r"The pin of 'b' in \[policy.peers\] must be a fingerprint .*; got 'abc'"
    with pytest.raises(SettingError, match=words):
        Policy(peers={"b": "abc"})


def test_records_that_cannot_be_read_are_not_forgotten_in_silence(tmp_path):
    (tmp_path / "peers.json").write_text("{")
    with pytest.raises(StorageError, match=r"cannot be read\. Restore records/ from a backup"):
        MetPeers(tmp_path).known()
