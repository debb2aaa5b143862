"""What an operator sees: status, metrics, health and warnings, of real processes in their cages."""

import json
import logging
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from deployed.handmade import (  # type: ignore[import-not-found]
    ASKER,
    Authority,
    write_party,
)
from deployed.loopback import free_port  # type: ignore[import-not-found]
from spinney.cli.main import app
from spinney.deployment import condition, expiry, metrics, sandbox
from spinney.deployment import process as running
from spinney.deployment.client import connected, list_runs
from spinney.deployment.coordinator.config import load_coordinator
from spinney.deployment.party.attending import Noted
from spinney.deployment.party.config import load_party
from spinney.deployment.party.measures import party_measures
from spinney.deployment.standing import (
    CONNECTED,
    NOT_CONNECTED,
    MetricsConfig,
    StandingFile,
    standing_in,
)
from spinney.errors import ProtocolError, SettingError
from spinney.files import hold_lock, is_locked
from spinney.privacy.ledger import Ledger
from spinney.transport.remote.kits import Address

SOURCE = Path(__file__).parents[2] / "src"


def wait(reached, seconds=300):
    until = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.1)


class Sides:
    """A coordinator and the party `north`, with start kits made by hand; each can be started."""

    def __init__(self, folder, days=200):
        self.folder, self.port, self.reason = folder, free_port(), ""
        self.address = Address(
            name="clinics", host="localhost", port=self.port, admin_port=self.port + 1
        )
        self.authority = Authority()
        self.files = {
            "coordinator": folder / "coordinator" / "coordinator.toml",
            "party": folder / "north" / "party.toml",
        }
        self.files["coordinator"].parent.mkdir()
        self.files["coordinator"].write_text(
            f'[coordinator]\nname = "clinics"\nhost = "localhost"\nport = {self.port}\n'
        )
        write_party(folder, "north")
        for name, holder, role in (
            ("coordinator", "localhost", "server"),
            ("north", "north", "client"),
            ("lead", ASKER, "lead"),
        ):
            kit = folder / name / "kit"
            self.authority.kit(kit, holder, role=role, days=days, address=self.address)

    def kit(self, side):
        return self.files[side].parent / "kit"

    def measured(self, side):
        """Let a side serve metrics; return the port."""
        port = free_port()
        with self.files[side].open("a") as file:
            file.write(f"\n[metrics]\nport = {port}\n")
        return port

    @contextmanager
    def started(self, side, *within):
        with (self.folder / f"{side}.txt").open("ab") as output:
            process = subprocess.Popen(
                [*within, sys.executable, "-m", "spinney.cli", side, "run", str(self.files[side])],
                env=os.environ | {"PYTHONPATH": str(SOURCE)},
                stdout=output,
                stderr=output,
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(120)

    def status(self, side):
        told = CliRunner().invoke(app, [side, "status", str(self.files[side]), "--json"])
        assert told.exit_code == 0, told.stderr
        return json.loads(told.stdout)

    def page(self, side):
        return CliRunner().invoke(app, [side, "status", str(self.files[side])]).stdout

    def state(self, side):
        found = standing_in(self.kit(side))
        return None if found is None else found.state


@pytest.fixture
def sides(tmp_path):
    return Sides(tmp_path)


def get(port, path, host="127.0.0.1", **headers):
    asking = HTTPConnection(host, port, timeout=10)
    try:
        asking.request("GET", path, headers=headers)
        answer = asking.getresponse()
        return answer.status, answer.read().decode()
    finally:
        asking.close()


def listening(process):
    """Return the addresses on which a process listens, as Linux lists them."""
    own = set()
    for link in Path(f"/proc/{process.pid}/fd").iterdir():
        found = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
        own |= {found[1]} if found else set()
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{process.pid}/net/{name}").read_text().splitlines()[1:]
    ]
    return {words[1] for words in lines if words[3] == "0A" and words[9] in own}


def at(port):
    """Return 127.0.0.1 and a port as Linux writes them."""
    return f"0100007F:{port:04X}"


# --- a whole day of two processes -----------------------------------------------------------------


def test_a_day_of_a_federation_as_its_operators_see_it(sides):
    ports = {side: sides.measured(side) for side in ("coordinator", "party")}
    assert sides.status("party")["process"] == "not running"
    with sides.started("party") as north:
        wait(lambda: sides.state("party") == NOT_CONNECTED)
        nobody_answers(sides, ports["party"])
        with sides.started("coordinator") as coordinator:
            wait(lambda: connected_now(sides) == ["north"])
            both_are_connected(sides, ports)
            caged = {at(ports["coordinator"]), at(sides.port), at(sides.port + 1)}
            assert listening(coordinator) == caged
            assert listening(north) == {at(ports["party"])}
            removed_at_once(sides)
            wait(lambda: north.poll() is not None)
    after_a_stop(sides)


def connected_now(sides):
    try:
        return connected(sides.folder / "lead" / "kit")
    except ProtocolError:
        return []


def nobody_answers(sides, port):
    said = sides.status("party")
    assert said["process"] == "running"
    assert said["connection"]["state"] == "not connected"
    assert said["connection"]["reason"].startswith("The coordinator does not answer.")
    code, health = get(port, "/health")
    assert (code, json.loads(health)["state"]) == (503, "not connected")
    assert json.loads(health)["reason"].startswith("The coordinator does not answer.")
    assert "spinney_connected 0.0" in get(port, "/metrics")[1]
    standing = sides.kit("party") / "standing.json"
    assert stat.S_IMODE(standing.stat().st_mode) == 0o600


def both_are_connected(sides, ports):
    wait(lambda: sides.state("party") == CONNECTED)
    said = sides.status("party")
    assert said["connection"].keys() >= {"since", "last_contact"}
    assert said["connection"]["state"] == "connected"
    assert said["cage"] == (f"Landlock {sandbox.version()}" if sandbox.version() else "none")
    assert said["certificate"]["days"] == pytest.approx(200, abs=0.1)
    assert said["versions"].keys() == {"spinney", "python"}
    assert get(ports["party"], "/health") == (200, '{"state": "connected"}\n')
    found = get(ports["party"], "/metrics")[1]
    assert "spinney_connected 1.0" in found
    for name in ("last_contact_seconds", "questions_answered_total", "answer_bytes_total"):
        assert f"\nspinney_{name} " in found
    assert 'spinney_runs{state="under way"} 0.0' in found
    assert re.search(r'spinney_certificate_days\{certificate="own"\} 199\.9', found)
    wait(lambda: sides.status("coordinator")["connected"])
    said = sides.status("coordinator")
    assert said["process"] == "running"
    assert 0 <= said["connected"]["north"] < 60
    assert said["runs"]["running"] == 0
    code, health = get(ports["coordinator"], "/health")
    assert (code, json.loads(health)) == (200, {"state": "listening", "connected": ["north"]})
    found = get(ports["coordinator"], "/metrics")[1]
    assert "spinney_parties_connected 1.0" in found
    assert 'spinney_last_contact_seconds{party="north"}' in found
    assert 'spinney_runs{state="finished"} 0.0' in found
    page = sides.page("coordinator")
    assert re.search(r"^connected: +north \(last message \d+ s ago\)$", page, re.MULTILINE)
    assert f"{sides.port} for parties, {sides.port + 1} for people" in page


def removed_at_once(sides):
    """A coordinator that began before anybody was removed reads the list all the same."""
    told = CliRunner().invoke(
        app, ["coordinator", "remove", str(sides.files["coordinator"]), "north"]
    )
    assert told.exit_code == 0, told.stderr
    wait(lambda: not sides.status("coordinator")["connected"])


def after_a_stop(sides):
    said = sides.status("party")
    assert (said["process"], said["connection"]["state"]) == ("not running", "none")
    assert said["connection"]["reason"].startswith("Before it stopped: The coordinator did not ad")
    said = sides.status("coordinator")
    assert (said["process"], said["connected"]) == ("not running", {})
    assert "reason" not in said["connection"]


def test_a_process_that_was_killed_is_not_called_connected(sides):
    with sides.started("coordinator"), sides.started("party") as north:
        wait(lambda: sides.state("party") == CONNECTED)
        assert listening(north) == set()  # without [metrics], no port is open
        os.kill(north.pid, signal.SIGSTOP)
        os.kill(north.pid, signal.SIGKILL)
        north.wait(120)
        said = sides.status("party")
        assert (said["process"], said["connection"]["state"]) == ("not running", "none")
        words = "The process ended unexpectedly; at .* it was connected."
        assert re.fullmatch(words, said["connection"]["reason"])
        assert re.search(r"^process: +not running$", sides.page("party"), re.MULTILINE)


def test_the_reason_of_tls_is_told(sides):
    shutil.rmtree(sides.kit("party"))
    Authority(2).kit(sides.kit("party"), "north", address=sides.address)
    port = sides.measured("party")
    with sides.started("coordinator"), sides.started("party"):
        wait(lambda: "authority" in (standing_in(sides.kit("party")) or sides).reason)
        words = "shows a certificate that this federation's authority did not sign"
        assert words in sides.status("party")["connection"]["reason"]
        assert words in json.loads(get(port, "/health")[1])["reason"]
        page = sides.page("party")
        assert re.search(rf"^connection: +not connected\. .*{words}", page, re.MULTILINE)


def test_the_cage_has_room_for_folders_elsewhere(sides):
    """A kit, records and a ledger that the party's file names outside its own folder."""
    elsewhere = sides.folder / "elsewhere"
    elsewhere.mkdir()
    shutil.move(sides.kit("party"), elsewhere / "kit")
    text = (
        sides.files["party"]
        .read_text()
        .replace(
            'name = "north"',
            f'name = "north"\nkit = "{elsewhere}/kit"\nrecords = "{elsewhere}/own"',
        )
    )
    (elsewhere / "account").mkdir()
    text += f'\n[ledger]\npath = "{elsewhere}/account/ledger.db"\n'
    sides.files["party"].write_text(text)
    with sides.started("coordinator"), sides.started("party"):
        wait(lambda: sides.status("party")["connection"]["state"] == "connected")
    assert "Connected" in (elsewhere / "kit" / "spinney.jsonl").read_text()


# --- the standing file ----------------------------------------------------------------------------


def test_what_a_silent_process_wrote_is_not_believed(tmp_path, monkeypatch):
    standing = StandingFile(tmp_path)
    standing.note(state=CONNECTED)
    standing._write()
    facts = condition.process_facts(tmp_path, running=True)
    assert facts["connection"]["state"] == "connected"
    now = time.time()
    monkeypatch.setattr(condition, "time", lambda: now + 60)
    facts = condition.process_facts(tmp_path, running=True)
    assert facts["connection"]["state"] == "unknown"
    assert re.match(
        "The process has not updated its status since .*, when it was connected",
        facts["connection"]["reason"],
    )
    assert condition.connected_in(tmp_path, running=True) == {}
    (tmp_path / "standing.json").unlink()
    facts = condition.process_facts(tmp_path, running=True)
    assert facts["connection"]["reason"] == "The process has not written its status yet."


def test_a_standing_that_cannot_be_written_stops_nothing(tmp_path):
    standing = StandingFile(tmp_path / "none")
    with standing.kept():
        standing.note(state=CONNECTED)
    assert standing_in(tmp_path / "none") is None
    (tmp_path / "standing.json").write_text("{")
    assert standing_in(tmp_path) is None


def test_a_change_is_written_soon_and_a_late_thread_changes_nothing(tmp_path):
    standing = StandingFile(tmp_path)

    def found():
        now = standing_in(tmp_path)
        assert now is not None
        return now

    with standing.kept():
        standing.note(state=CONNECTED, run="run-1")
        wait(lambda: found().state == CONNECTED, 4)
        assert (found().run, found().pid) == ("run-1", os.getpid())
        standing.count(answered=1, bytes_out=7)
        assert (standing.now.answered, standing.now.bytes_out) == (1, 7)
    standing.note(state=NOT_CONNECTED)
    assert (found().state, found().run) == ("stopped", "")


def test_asking_for_a_lock_takes_it_from_nobody(tmp_path):
    lock = tmp_path / "running.lock"
    assert not is_locked(lock)
    assert not lock.exists()
    with hold_lock(lock):
        assert is_locked(lock)
        assert running.is_running(tmp_path)
    with hold_lock(lock, shared=True):  # another process that asks
        assert not is_locked(lock)


# --- warnings -------------------------------------------------------------------------------------


def test_a_certificate_that_expires_soon_is_warned_of(tmp_path):
    sides = Sides(tmp_path, days=12)
    said = sides.status("party")
    words = (
        r"The certificate expires on \d{4}-\d\d-\d\d, in 12 days\. Request a new one: spinney "
        r"party request north clinics --out request-2 \(docs/deploy\.md, Keys\)\."
    )
    assert re.fullmatch(words, said["warnings"][0])
    assert f"\nwarning: {said['warnings'][0]}" in sides.page("party")
    said = sides.status("coordinator")
    assert "The coordinator's certificate expires on" in said["warnings"][0]
    assert "spinney coordinator renew coordinator.toml --kit kit-2" in said["warnings"][0]
    assert re.search(
        r"^certificate: +valid until \S+ \(12 days left\)$", sides.page("coordinator"), re.MULTILINE
    )
    logged = []
    standing = StandingFile(sides.kit("party"))
    standing.remind(expiry.party_warning(sides.kit("party")))
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("spinney.standing")
    log.addHandler(handler)
    try:
        standing._remind()
        standing._remind()  # not again on the same day
        assert len(logged) == 1
        standing._reminded -= 86_401
        standing._remind()
    finally:
        log.removeHandler(handler)
    assert len(logged) == 2
    assert re.fullmatch(words, logged[0])


@pytest.mark.parametrize(
    ("days", "words"), [(0.5, "within a day"), (1.2, "in 1 day."), (-3, "expired on")]
)
def test_the_last_days_are_told_in_words(tmp_path, days, words):
    Authority().kit(tmp_path, "north", days=days, first=-9)
    assert words in expiry.party_warning(tmp_path)()


def test_a_certificate_with_time_left_is_not_warned_of(sides):
    assert sides.status("party")["warnings"] == []
    authority = "The authority's certificate expires on"  # of tests; it lives 30 days
    assert [words[: len(authority)] for words in sides.status("coordinator")["warnings"]] in (
        [],
        [authority],
    )


def test_a_full_disk_and_an_old_process_are_warned_of(sides, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: os_usage(5 * 10**8))
    said = sides.status("party")
    assert said["disk"] == {"free_bytes": 5 * 10**8}
    assert said["warnings"] == [
        "Only 500.0 MB of the disk are free. Make room: jobs pause without it."
    ]
    facts = said | {"process": "running", "cage": "none", "versions": {"spinney": "0.0.9"}}
    found = condition.warnings_of(facts, [])
    assert re.match(r"The process runs Spinney 0\.0\.9; \S+ is installed\. Restart it", found[1])
    assert found[2] == (
        "This system has no Landlock: the process is not confined to its own files."
    )


def os_usage(free):
    return type("Usage", (), {"free": free})


def test_the_status_tells_the_ledger_s_last_entry_and_its_damage(sides):
    path = sides.files["party"].parent / "ledger.db"
    ledger = Ledger.open(path, "north")
    last = ledger.verify()
    ledger.close()
    assert sides.status("party")["ledger"] == {"entries": 1, "hash": last.hash.hex()[:16]}
    line = rf"^ledger: +1 entry; hash of the last: {last.hash.hex()[:16]}$"
    assert re.search(line, sides.page("party"), re.MULTILINE)
    path.write_bytes(path.read_bytes()[:4000])
    said = sides.status("party")
    assert "budget" not in said
    assert "damaged" in said["ledger"]["problem"] or "not a Spinney" in said["ledger"]["problem"]


def test_the_coordinator_s_kit_is_renewed_beside_the_old_one(tmp_path):
    path = tmp_path / "coordinator.toml"
    path.write_text('[coordinator]\nname = "clinics"\nhost = "localhost"\n')
    for words in (["init"], ["renew"]):
        told = CliRunner().invoke(app, ["coordinator", *words, str(path)])
        assert told.exit_code == 0, told.stderr
    assert 'Stop the coordinator, set kit = "kit-2", start it.' in told.stdout
    old, new = (tmp_path / kit / "startup" for kit in ("kit", "kit-2"))
    assert (old / "rootCA.pem").read_bytes() == (new / "rootCA.pem").read_bytes()
    assert (old / "server.key").read_bytes() != (new / "server.key").read_bytes()
    told = CliRunner().invoke(app, ["coordinator", "renew", str(path)])
    assert told.exit_code == SettingError.exit_code
    assert "There is already a start kit in" in told.stderr


# --- metrics --------------------------------------------------------------------------------------


@contextmanager
def serving(tmp_path, port):
    standing = StandingFile(tmp_path)
    with metrics.observed(MetricsConfig(port=port), standing, list):
        yield standing


def test_metrics_are_for_this_machine_by_its_own_name(tmp_path):
    port = free_port()
    with serving(tmp_path, port):
        assert get(port, "/metrics")[0] == 200
        assert get(port, "/health")[0] == 503
        assert get(port, "/")[0] == 404
        assert get(port, "/metrics", Host="localhost:1")[0] == 200
        assert get(port, "/metrics", Host="evil.example.org")[0] == 403
        for other in ("127.0.0.2", own_address()):
            if other:
                with pytest.raises(ConnectionRefusedError):
                    get(port, "/metrics", host=other)
    with pytest.raises(ConnectionRefusedError):
        get(port, "/metrics")


def own_address():
    """Return this machine's address in its network; empty if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def test_a_port_of_metrics_that_is_taken_is_told(tmp_path):
    port = free_port()
    with (
        serving(tmp_path, port),
        pytest.raises(SettingError, match=rf"Port {port} of \[metrics\] cannot be used: Address"),
        serving(tmp_path, port),
    ):
        pass


def test_metrics_without_the_library_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "find_spec", lambda _: None)
    words = r"The section \[metrics\] needs the package 'prometheus_client'"
    with pytest.raises(ImportError, match=words), serving(tmp_path, free_port()):
        pass


@pytest.mark.parametrize(
    ("port", "words"),
    [
        ("0", r"port in \[metrics\] must be a number from 1 to 65535; got 0"),
        ("70000", r"port in \[metrics\] must be a number from 1 to 65535; got 70000"),
        ('"x"', "port must be a whole number; got 'x'"),
        ("", "the key 'port' is missing"),
    ],
)
def test_a_section_for_metrics_names_a_port(tmp_path, port, words):
    path = write_party(tmp_path, "north", more="[metrics]\n" + (f"port = {port}" if port else ""))
    with pytest.raises(SettingError, match=words):
        load_party(path)


def test_the_coordinator_s_ports_are_not_for_metrics(tmp_path):
    path = tmp_path / "coordinator.toml"
    path.write_text('[coordinator]\nname = "clinics"\nhost = "localhost"\n[metrics]\nport = 8003\n')
    words = "must differ from the coordinator's ports 8002 and 8003; got 8003"
    with pytest.raises(SettingError, match=words):
        load_coordinator(path)


def test_a_party_s_answers_and_budget_are_measured(sides):
    write_party(sides.folder, "north", policy="epsilon_total = 3.0")
    standing = StandingFile(sides.kit("party"))
    measure = party_measures(sides.files["party"], standing)
    inner: Any = SimpleNamespace(
        attempt=("run-1", 1),
        take=lambda offer: offer,
        answer=lambda _: iter([b"at work", b"the answer"]),
        end=lambda *_: None,
    )
    party: Any = Noted(inner, standing)
    assert party.take("offer") == "offer"
    assert list(party.answer(b"question")) == [b"at work", b"the answer"]
    party.end("run-1", 1)
    assert (party.attempt, standing.now.run) == (("run-1", 1), "run-1")
    for name in ("run-1", "run-2", "run-3"):
        (sides.folder / "north" / "records" / "runs" / name).mkdir(parents=True)
    (sides.folder / "north" / "records" / "runs" / "run-3" / "model.spinney").touch()
    found = metrics.rendered(measure()).decode()
    for line in (
        "spinney_questions_answered_total 1.0",
        "spinney_answer_bytes_total 17.0",
        'spinney_runs{state="under way"} 1.0',
        'spinney_runs{state="model kept"} 1.0',
        'spinney_runs{state="no model"} 1.0',
        'spinney_epsilon_left{unit="label"} 3.0',
    ):
        assert f"\n{line}\n" in found, found
    write_party(sides.folder, "north", policy="epsilon_total = 2.0")  # read again
    assert 'spinney_epsilon_left{unit="label"} 2.0' in metrics.rendered(measure()).decode()


# --- nobody answers -------------------------------------------------------------------------------


def test_a_port_that_accepts_and_never_answers_is_told_within_five_seconds(tmp_path):
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen()
        port = hole.getsockname()[1]
        address = Address(name="clinics", host="localhost", port=port, admin_port=port)
        Authority().kit(tmp_path / "kit", ASKER, role="lead", address=address)
        begin = time.monotonic()
        with pytest.raises(ProtocolError, match="The coordinator does not answer"):
            list_runs(tmp_path / "kit")
        assert time.monotonic() - begin < 5
        told = CliRunner().invoke(app, ["job", "list", "--kit", str(tmp_path / "kit")])
        assert told.exit_code == ProtocolError.exit_code
        assert "Is 'spinney coordinator run' running" in told.stderr


def test_a_party_does_not_begin_while_its_ledger_is_restored(sides):
    lock = sides.files["party"].parent / "ledger.db.lock"
    with (
        hold_lock(lock),
        pytest.raises(ProtocolError, match="is just being restored"),
    ):
        running.run_party(sides.files["party"], lambda _: None)


def test_a_standing_survives_what_a_later_version_adds(tmp_path):
    StandingFile(tmp_path)
    path = tmp_path / "standing.json"
    found = msgspec.json.decode(path.read_bytes())
    path.write_bytes(msgspec.json.encode(found | {"later": 1}))
    assert standing_in(tmp_path) is not None
