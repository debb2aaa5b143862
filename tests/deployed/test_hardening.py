"""Nobody gets in who does not belong, and what was not agreed is refused: on a real federation."""

import json
import shutil
import socket
import ssl
import time

import pytest

from deployed.loopback import Federation  # type: ignore[import-not-found]
from spinney.errors import PolicyError, ProtocolError, SpinneyError
from spinney.transport.flare import kits
from spinney.transport.flare.jobs import write_job
from spinney.transport.flare.session import session

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    made = Federation(tmp_path_factory.mktemp("hardening"))
    made.enrol()
    made.start()
    yield made
    made.stop()


def connected(federation):
    with session(federation.root / "lead" / "kit") as opened:
        return opened.connected()


def wait_until_connected(federation, *names):
    for _ in range(60):
        if set(names) <= set(connected(federation)):
            return
        time.sleep(0.5)
    raise AssertionError(names)


@pytest.mark.parametrize("offset", [0, 1])
def test_a_stranger_with_the_public_certificate_only_is_refused(federation, offset):
    wait_until_connected(federation, "north")
    context = ssl.create_default_context(cafile=federation.root / "coordinator/ca/rootCA.pem")
    context.check_hostname = False
    with socket.create_connection(("localhost", federation.port + offset)) as plain:
        plain.settimeout(20)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            talk(context, plain)


def talk(context, plain):
    """Speak to the coordinator without a certificate of one's own."""
    with context.wrap_socket(plain) as wrapped:
        wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        while wrapped.recv(4096):
            pass
    raise ConnectionError  # closed without a word


def foreign_kit(federation, name, participant):
    """Return a kit of another authority that knows the true one's certificate."""
    folder = federation.root / f"foreign-{name}"
    port = federation.port
    kits.make_authority(
        folder / "ca", project="clinics", host="localhost", port=port, admin_port=port + 1
    )
    made = kits.make_request(folder / "request", project="clinics", participant=participant)
    signed = folder / "request" / "x.signed.zip"
    kits.approve(folder / "ca", made, signed, days=30)
    kits.assemble(signed, folder / "request", folder / "kit", kits.fingerprint_of(folder / "ca"))
    true_root = federation.root / "coordinator" / "ca" / "rootCA.pem"
    shutil.copyfile(true_root, folder / "kit" / "startup" / "rootCA.pem")
    return folder / "kit"


def test_a_lead_of_another_authority_is_refused(federation):
    person = {"name": "alice@clinics.example.org", "type": "admin", "org": "x", "role": "lead"}
    kit = foreign_kit(federation, "lead", person)
    with pytest.raises((ProtocolError, PolicyError)), session(kit):
        raise AssertionError


def test_a_party_of_another_authority_never_registers(federation):
    party = {"name": "eve", "type": "client", "org": "x"}
    kit = foreign_kit(federation, "eve", party)
    kits.settle_party(kit)
    folder = federation.root / "eve"
    folder.mkdir()
    shutil.move(kit, folder / "kit")
    federation.write_party("eve")
    federation.start("eve")
    time.sleep(15)
    assert "eve" not in connected(federation)
    federation.kill("eve")


def test_a_removed_party_never_registers_and_its_jobs_wait(federation):
    (federation.root / "mallory").mkdir()
    federation.write_party("mallory")
    federation.enrol_one("mallory", "mallory")
    federation.start("mallory")
    wait_until_connected(federation, "mallory")
    federation.kill("mallory")
    federation.spinney("coordinator", "remove", "coordinator.toml", "mallory", folder="coordinator")
    federation.start("mallory")
    time.sleep(30)  # longer than the engine remembers the killed one
    assert "mallory" not in connected(federation)
    federation.kill("mallory")


def test_a_member_may_look_but_not_start(federation):
    (federation.root / "member").mkdir()
    federation.enrol_one("member", "bob@clinics.example.org", "--role", "member")
    path = federation.write_job("by-member", n_estimators=2, max_depth=2)
    refused = federation.spinney("job", "start", str(path), folder="member", check=False)
    assert refused.returncode == 30
    assert "Your role does not allow this" in refused.stderr
    federation.spinney("job", "list", folder="member")


def submitted(federation, folder):
    """Submit an engine job by hand; return how it ended."""
    with session(federation.root / "lead" / "kit") as opened:
        job = opened._inner.submit_job(str(folder))
        for _ in range(120):
            meta = opened.meta(job)
            if str(meta["status"]).startswith(("FINISHED", "FAILED")):
                return meta
            time.sleep(0.5)
    raise AssertionError(meta)


@pytest.mark.parametrize("extra", ["custom/evil.py", "config/environment.json"])
def test_a_job_that_carries_code_or_files_runs_nowhere(federation, extra, tmp_path):
    wait_until_connected(federation, *federation.parties)
    folder = tmp_path / "smuggled"
    write_job(folder, "smuggled", federation.parties, b"{}")
    file = folder / "spinney" / extra
    file.parent.mkdir(exist_ok=True)
    file.write_text("import os\n" if extra.endswith(".py") else "{}")
    meta = submitted(federation, folder)
    assert "FAILED_TO_RUN" in meta["status"]
    said = " ".join(meta["job_deploy_detail"])
    assert "carries more than a Spinney job" in said or "BYOC" in said


def test_another_class_than_ours_runs_nowhere(federation, tmp_path):
    wait_until_connected(federation, *federation.parties)
    folder = tmp_path / "other"
    write_job(folder, "other", federation.parties, b"{}")
    config = folder / "spinney" / "config" / "config_fed_client.json"
    said = json.loads(config.read_text())
    said["executors"][0]["executor"]["path"] = "nvflare.app_common.np.np_trainer.NPTrainer"
    config.write_text(json.dumps(said))
    assert "FAILED_TO_RUN" in submitted(federation, folder)["status"]


def test_a_start_kit_used_twice_is_refused(federation):
    second = federation.spinney("party", "run", "party.toml", folder="north", check=False)
    assert second.returncode == 40
    assert "is in use by another process" in second.stderr


def test_a_port_in_use_is_told(federation):
    copy = federation.root / "second-coordinator"
    shutil.copytree(federation.root / "coordinator", copy, ignore=shutil.ignore_patterns("jobs"))
    refused = federation.spinney(
        "coordinator", "run", "coordinator.toml", folder=copy.name, check=False
    )
    assert refused.returncode == 10
    assert f"Port {federation.port} cannot be used" in refused.stderr


def test_two_jobs_at_once_run_one_after_the_other(federation):
    wait_until_connected(federation, *federation.parties)
    first = federation.write_job("first", n_estimators=10, max_depth=4)
    second = federation.write_job("second", n_estimators=10, max_depth=4)
    runs = [federation.job("start", str(path)).stdout.strip() for path in (first, second)]
    ended = [federation.wait(run, lambda s: s["state"] in ("finished", "failed")) for run in runs]
    assert [status["state"] for status in ended] == ["finished", "finished"]
    assert ended[0]["updated"] < ended[1]["begun"]


def test_an_aborted_job_is_over_for_good(federation):
    wait_until_connected(federation, *federation.parties)
    path = federation.write_job("aborted", n_estimators=100)
    run = federation.job("start", str(path)).stdout.strip()
    said = federation.job("abort", run).stdout
    assert "aborted" in said
    again = federation.job("abort", run, check=False)
    assert "over already" in again.stderr


def test_a_job_no_party_accepts_says_why_for_each(federation):
    wait_until_connected(federation, *federation.parties)
    for name in federation.parties:
        federation.write_party(name, policy='protocols = ["none"]')
    path = federation.write_job("unwanted", n_estimators=2)
    proposed = federation.job("propose", str(path), "--json", check=False)
    started = federation.job("start", str(path), "--follow", check=False)
    for name in federation.parties:
        federation.write_party(name)
        assert "rule 'protocols'" in json.loads(proposed.stdout)["answers"][name]
        assert name in started.stderr
    assert started.returncode == 30


def test_a_coordinator_that_does_not_answer_is_told(federation, tmp_path):
    kit = tmp_path / "kit"
    shutil.copytree(federation.root / "lead" / "kit", kit)
    file = kit / "startup" / "fed_admin.json"
    file.write_text(file.read_text().replace(str(federation.port + 1), "1"))
    with pytest.raises(SpinneyError, match="The coordinator does not answer"), session(kit):
        raise AssertionError
