"""Nobody gets in who does not belong: on a real federation, by the commands that people use."""

import shutil
import socket
import ssl
import time

import pytest

from deployed.handmade import Authority  # type: ignore[import-not-found]
from deployed.loopback import Federation  # type: ignore[import-not-found]
from spinney.deployment.client import session
from spinney.errors import ProtocolError, SpinneyError

pytestmark = pytest.mark.slow
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"  # and empty settings


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with Federation(tmp_path_factory.mktemp("hardening")).up() as made:
        made.wait_until_connected()
        yield made


def is_greeted(federation, offset, kit=None):
    """Tell whether the coordinator talks to one who has this certificate, or none."""
    context = ssl.create_default_context(cafile=federation.root / "coordinator/ca/rootCA.pem")
    context.check_hostname = False
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # the default since Python 3.13
    context.set_alpn_protocols(["h2"])
    if kit is not None:
        context.load_cert_chain(kit / "startup/client.crt", kit / "startup/client.key")
    try:
        with (
            socket.create_connection(("localhost", federation.port + offset), 20) as plain,
            context.wrap_socket(plain) as wrapped,
        ):
            wrapped.sendall(_PREFACE)
            return wrapped.recv(9) != b""
    except (ssl.SSLError, ConnectionError):
        return False


@pytest.mark.parametrize("offset", [0, 1])
def test_only_a_valid_certificate_of_the_federation_is_talked_to(federation, tmp_path, offset):
    true = Authority.at(federation.root / "coordinator" / "ca")
    true.kit(tmp_path / "expired", "north", days=-1)
    true.kit(tmp_path / "early", "north", first=3)
    Authority(2).kit(tmp_path / "foreign", "north")
    assert is_greeted(federation, offset, federation.root / "north" / "kit")
    assert not is_greeted(federation, offset)  # a stranger with the public certificate only
    for kit in ("expired", "early", "foreign"):
        assert not is_greeted(federation, offset, tmp_path / kit)


def foreign_kit(federation, folder, name, role):
    """Make a kit of another authority that knows the true one's certificate and address."""
    kit = federation.root / folder / "kit"
    Authority(2).kit(kit, name, role=role)
    true = federation.root / "lead" / "kit" / "startup"
    for file in ("rootCA.pem", "federation.json"):
        shutil.copyfile(true / file, kit / "startup" / file)
    return kit


def test_a_lead_of_another_authority_is_refused(federation):
    kit = foreign_kit(federation, "foreign-lead", "alice@clinics.example.org", "lead")
    words = "does not accept this certificate|does not answer"
    with pytest.raises(ProtocolError, match=words), session(kit):
        raise AssertionError


def test_a_party_of_another_authority_never_connects_and_is_told_why(federation):
    foreign_kit(federation, "eve", "eve", "client")
    federation.write_party("eve")
    federation.start("eve")
    output, until = federation.root / "eve" / "output.txt", time.monotonic() + 60
    while "Not connected: " not in output.read_text():
        assert time.monotonic() < until, output.read_text()
        time.sleep(0.2)
    assert "eve" not in federation.connected()
    federation.kill("eve")


def enrolled(federation, name):
    (federation.root / name).mkdir()
    federation.write_party(name)
    federation.enrol_one(name, name)


def refused_run(federation, folder):
    """Return what a party says that is not let in; it does not go on trying."""
    done = federation.spinney("party", "run", "party.toml", folder=folder, check=False, seconds=120)
    assert done.returncode == 40
    return done.stderr


def test_a_removed_party_is_refused_until_it_is_approved_again(federation):
    enrolled(federation, "mallory")
    federation.start("mallory")
    federation.wait_until_connected("mallory")
    federation.spinney("coordinator", "remove", "coordinator.toml", "mallory", folder="coordinator")
    assert federation.processes.pop("mallory").wait(30) == 40  # without a restart of anything
    said = refused_run(federation, "mallory")
    assert "The coordinator did not admit 'mallory': you were removed from the federation" in said
    again = ("party", "request", "mallory", "clinics", "--out", "request-2")
    federation.spinney(*again, folder="mallory")
    request = str(federation.root / "mallory" / "request-2" / "mallory.request.zip")
    federation.spinney("coordinator", "approve", "coordinator.toml", request, folder="coordinator")
    assert "you were removed" in refused_run(federation, "mallory")  # the old kit stays out
    (federation.root / "mallory" / "kit").rename(federation.root / "mallory" / "old")
    signed = ("request-2/mallory.signed.zip", "--request", "request-2")
    federation.spinney(
        "party", "join", *signed, "--fingerprint", federation.fingerprint, folder="mallory"
    )
    federation.start("mallory")
    federation.wait_until_connected("mallory")
    federation.kill("mallory")


def test_a_key_is_rotated_as_the_run_book_says(federation):
    enrolled(federation, "rota")
    federation.start("rota")
    federation.wait_until_connected("rota")
    again = ("party", "request", "rota", "clinics", "--out", "request-2")
    federation.spinney(*again, folder="rota")
    request = federation.root / "rota" / "request-2" / "rota.request.zip"
    said = federation.spinney(
        "coordinator", "approve", "coordinator.toml", str(request), folder="coordinator"
    )
    assert "Signed: rota, as party. Send it back only if that is right." in said.stdout
    process = federation.processes.pop("rota")
    process.terminate()
    process.wait(30)
    folders = ("--request", "request-2", "--kit", "kit-2")
    join = ("party", "join", "request-2/rota.signed.zip", *folders, "--fingerprint")
    other = federation.fingerprint[:-2] + ("00" if federation.fingerprint[-2:] != "00" else "11")
    refused = federation.spinney(*join, other, folder="rota", check=False)
    assert "Do not join; ask the coordinator by telephone." in refused.stderr
    assert federation.fingerprint not in refused.stderr  # nobody is to copy it from there
    federation.spinney(*join, federation.fingerprint, folder="rota")
    file = federation.root / "rota" / "party.toml"
    file.write_text(file.read_text().replace("n_jobs = 1", 'kit = "kit-2"'))
    output, until = federation.root / "rota" / "output.txt", time.monotonic() + 120
    while output.read_text().count("Connected to the coordinator.") < 2:
        assert time.monotonic() < until, output.read_text()
        if "rota" not in federation.processes or federation.processes["rota"].poll() is not None:
            federation.start("rota")  # as a service manager would
        time.sleep(0.5)
    federation.kill("rota")


def test_a_removed_person_starts_nothing(federation):
    (federation.root / "gone").mkdir()
    who = "carol@clinics.example.org"
    federation.enrol_one("gone", who, "--role", "lead")
    path = federation.write_job("by-gone", n_estimators=2, max_depth=2)
    federation.spinney("coordinator", "remove", "coordinator.toml", who, folder="coordinator")
    refused = federation.spinney("job", "start", str(path), folder="gone", check=False)
    assert refused.returncode == 30
    assert "you were removed from the federation" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_member_may_look_but_not_start(federation):
    (federation.root / "member").mkdir()
    federation.enrol_one("member", "bob@clinics.example.org", "--role", "member")
    path = federation.write_job("by-member", n_estimators=2, max_depth=2)
    refused = federation.spinney("job", "start", str(path), folder="member", check=False)
    assert refused.returncode == 30
    assert "Your role does not allow this" in refused.stderr
    federation.spinney("job", "list", folder="member")


def test_a_start_kit_used_twice_is_refused(federation):
    second = federation.spinney("party", "run", "party.toml", folder="north", check=False)
    assert second.returncode == 40
    assert "Another process on this machine uses the start kit" in second.stderr
    copy = federation.root / "north-copied"  # as if to another machine
    shutil.copytree(federation.root / "north", copy)
    said = refused_run(federation, copy.name)
    assert "the start kit of 'north' is in use in another place" in said
    path = federation.write_job("after-the-copy", n_estimators=2, max_depth=2)
    federation.job("start", str(path), "--follow")  # the first is none the worse


def test_a_port_in_use_is_told(federation):
    copy = federation.root / "second-coordinator"
    shutil.copytree(federation.root / "coordinator", copy)
    refused = federation.spinney(
        "coordinator", "run", "coordinator.toml", folder=copy.name, check=False
    )
    assert refused.returncode == 10
    assert f"Port {federation.port} cannot be used" in refused.stderr


def test_a_coordinator_that_does_not_answer_is_told_soon(federation, tmp_path):
    kit = tmp_path / "kit"
    shutil.copytree(federation.root / "lead" / "kit", kit)
    file = kit / "startup" / "federation.json"
    file.write_text(file.read_text().replace(str(federation.port + 1), "1"))
    with pytest.raises(SpinneyError, match="The coordinator does not answer"), session(kit):
        raise AssertionError


def test_nobody_else_can_read_what_a_side_writes(federation):
    path = federation.write_job("secret", n_estimators=2, max_depth=2)
    federation.job("start", str(path), "--follow")
    for side in ("coordinator", "north", "lead"):
        for folder in ("kit", "records", "runs", "ca", "request"):
            for found in (federation.root / side).glob(f"{folder}/**/*"):
                if side == "lead" and folder == "runs":
                    continue  # the lead's own result
                assert found.stat().st_mode & 0o077 == 0, found
    assert (federation.root / "north" / "ledger.db").stat().st_mode & 0o077 == 0
