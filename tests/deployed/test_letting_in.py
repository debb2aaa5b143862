"""Whom the coordinator signs for and lets in, without an engine."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from deployed.handmade import coordinator_in  # type: ignore[import-not-found]
from spinney.cli.main import app
from spinney.deployment.coordinator.keeper import Keeper
from spinney.deployment.coordinator.members import Members
from spinney.deployment.enrolment import approve
from spinney.deployment.place import Places, place_of
from spinney.errors import SettingError, StorageError
from spinney.transport.remote.attendance import Attendance
from spinney.transport.remote.certificates import Peer
from spinney.transport.remote.frames import Hello
from spinney.version import __version__


@pytest.mark.parametrize("kind", ["server", "org_admin"])
def test_only_parties_and_people_are_signed_for(tmp_path, kind):
    coordinator_in(tmp_path)
    request = tmp_path / "north.request.zip"
    with ZipFile(request, "w") as files:
        files.writestr("request.json", json.dumps({"name": "evil", "cert_type": kind}))
    with pytest.raises(SettingError, match=f"'evil' asks for a certificate of kind '{kind}'"):
        approve(tmp_path / "coordinator.toml", request, 30)


def test_a_request_that_was_signed_before_is_not_signed_again(tmp_path):
    coordinator_in(tmp_path)
    request = tmp_path / "north.request.zip"
    with ZipFile(request, "w") as files:
        files.writestr("request.json", json.dumps({"name": "north", "cert_type": "client"}))
    (tmp_path / "north.signed.zip").write_bytes(b"signed")
    with pytest.raises(SettingError, match=r"is already signed: send '.*north\.signed\.zip' back"):
        approve(tmp_path / "coordinator.toml", request, 30)


@pytest.mark.parametrize("content", [b"no archive", None])
def test_what_is_no_request_is_told(tmp_path, content):
    coordinator_in(tmp_path)
    request = tmp_path / "x.zip"
    if content is None:
        with ZipFile(request, "w") as files:
            files.writestr("request.json", "[]")
    else:
        request.write_bytes(content)
    with pytest.raises(StorageError, match="Make one with: spinney party request"):
        approve(tmp_path / "coordinator.toml", request, 30)


def hello(place):
    return Hello(1, place, "", 0, __version__)


@pytest.fixture
def north():
    now = datetime.now(UTC)
    day = timedelta(days=1)
    return Peer("north", "client", "1a", now - day, now + day, b"")


def test_a_copied_kit_is_refused_while_the_first_is_connected(north, tmp_path, monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr("spinney.transport.remote.attendance.monotonic", lambda: clock.now)
    places = Places(tmp_path / "places.json")
    first = Attendance(places.known, places.settle)
    assert first.enter(north, hello("one"))
    again = Places(tmp_path / "places.json")  # a coordinator that was restarted has not forgotten
    attendance = Attendance(again.known, again.settle)
    assert attendance.enter(north, hello("two")) is None
    stream = attendance.enter(north, hello("one"))  # it was restarted where it was
    assert stream
    assert attendance.enter(north, hello("two")) is None
    assert stream.is_open
    replaced = attendance.enter(north, hello("one"))
    assert replaced
    assert not stream.is_open
    attendance.leave(replaced)
    clock.now += 20
    assert attendance.enter(north, hello("two")) is None
    clock.now += 20
    assert attendance.enter(north, hello("two"))  # it has moved


def test_who_was_removed_stays_removed_by_certificate(tmp_path, north):
    (tmp_path / "removed.txt").write_text("lakeside\n")  # as version 0.1 wrote it
    members = Members(tmp_path)
    assert members.removed() == {"lakeside"}
    assert members.refuses(north) == ""
    members.remove("north")
    assert members.refuses(north) == "you were removed from the federation"
    renewed = replace(north, serial="2b")
    members.admit(renewed)
    assert members.refuses(renewed) == ""
    assert members.refuses(north) == "you were removed from the federation"
    assert members.removed() == {"lakeside"}
    members.remove("north")
    assert members.refuses(renewed) == "you were removed from the federation"


def test_a_certificate_is_revoked_by_its_serial(tmp_path, north):
    members = Members(tmp_path)
    members.revoke("00:1A")
    assert members.refuses(north) == "you were removed from the federation"
    assert members.refuses(replace(north, serial="1b")) == ""
    with pytest.raises(SettingError, match="must be hexadecimal digits; got 'north'"):
        members.revoke("north")


def test_names_that_differ_by_case_are_one_name(tmp_path, north):
    members = Members(tmp_path)
    members.admit(north)
    assert [(one.name, one.serial) for one in members.signed()] == [("north", north.serial)]
    said = r"has 'north'\. Names must differ by more than small and capital letters; got 'North'\."
    with pytest.raises(SettingError, match=said):
        members.require_same_case("North")
    with pytest.raises(SettingError, match=said):
        members.remove("North")
    assert members.refuses(north) == ""
    (tmp_path / "members" / "signed.jsonl").write_text("{")
    with pytest.raises(StorageError, match=r"signed\.jsonl' cannot be read\. Restore it"):
        members.signed()


def test_the_command_lists_what_was_signed_and_takes_one_name_or_serial(tmp_path, north):
    coordinator_in(tmp_path)
    Members(tmp_path).admit(replace(north, role="client"))
    command = ["coordinator", "remove", str(tmp_path / "coordinator.toml")]
    told = CliRunner().invoke(app, command)
    assert told.exit_code != 0
    assert re.search(
        rf"^north +party +until \S+  serial {north.serial}$", told.stdout, re.MULTILINE
    )
    assert "Give the name to remove, or --serial and a number from this list." in told.stderr
    told = CliRunner().invoke(app, [*command, "north", "--serial", north.serial])
    assert "Give a name or a serial number, not both." in told.stderr
    assert Members(tmp_path).refuses(north) == ""
    told = CliRunner().invoke(app, [*command, "--serial", north.serial])
    assert told.stdout == f"The certificate {north.serial} is refused from now on.\n"
    assert Members(tmp_path).refuses(north) == "you were removed from the federation"


def test_two_who_change_the_list_at_once_do_not_undo_each_other(tmp_path):
    def remove(number):
        Members(tmp_path).remove(f"party{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(remove, range(40)))
    assert Members(tmp_path).removed() == {f"party{number}" for number in range(40)}


def test_a_list_of_removed_members_that_cannot_be_read_lets_nobody_in(tmp_path, north):
    (tmp_path / "members").mkdir()
    (tmp_path / "members" / "removed.json").write_text("{")
    with pytest.raises(StorageError, match=r"so nobody is let in\. Restore it from a backup"):
        Members(tmp_path).refuses(north)


def test_an_expired_certificate_is_refused_also_on_an_old_connection(tmp_path, north):
    over = replace(north, last=north.first)
    assert Members(tmp_path).refuses(over) == "your certificate has expired"


def test_who_comes_and_goes_is_told(tmp_path, caplog):
    caplog.set_level("INFO", "spinney.keeper")
    attendance: Any = SimpleNamespace()
    keeper = Keeper(coordinator_in(tmp_path), Members(tmp_path), attendance)
    for names in (["north"], ["north", "lakeside"], ["lakeside"], ["lakeside"]):
        attendance.names = lambda names=names: names
        keeper._tell_who_is_heard()
    assert caplog.messages == [
        "north is connected.",
        "lakeside is connected.",
        "north is no longer connected.",
    ]


def test_places_differ_by_folder(tmp_path):
    assert place_of(tmp_path) == place_of(tmp_path)
    assert place_of(tmp_path) != place_of(tmp_path / "kit")


@pytest.mark.parametrize("name", ["localhost", "../north", "north;", ""])
def test_nobody_is_signed_for_under_a_name_that_could_pass_for_another(tmp_path, name):
    path = tmp_path / "coordinator.toml"
    coordinator_in(tmp_path)
    request = tmp_path / "x.request.zip"
    with ZipFile(request, "w") as files:
        files.writestr("request.json", json.dumps({"name": name, "cert_type": "client"}))
    with pytest.raises(SettingError, match="which nobody may have"):
        approve(path, request, 30)
