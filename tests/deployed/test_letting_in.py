"""Whom the coordinator signs for and lets in, without an engine."""

import json
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import pytest
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.fl_exception import NotAuthenticated

from deployed.handmade import coordinator_in  # type: ignore[import-not-found]
from spinney.deployment import place
from spinney.deployment.coordinator.runs import COORDINATOR_VARIABLE
from spinney.deployment.coordinator.supervisor import Keeper
from spinney.deployment.enrolment import approve
from spinney.errors import SettingError, StorageError


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


@pytest.fixture
def coordinator(tmp_path, monkeypatch):
    """A coordinator's keeper, to be made anew at will, and who is connected."""
    coordinator_in(tmp_path)
    (tmp_path / "kit").mkdir()
    monkeypatch.setenv(COORDINATOR_VARIABLE, str(tmp_path / "coordinator.toml"))
    return SimpleNamespace(folder=tmp_path, connected=set())


def registers(coordinator, keeper, name, kit):
    """Let a party register that runs by the kit in this folder."""
    here = FLContext()
    here.set_prop("spinney_place", place.place_of(kit), private=False)
    here.set_prop("__identity_name__", name, private=False)
    clients = [SimpleNamespace(name=known) for known in coordinator.connected]
    said: dict[str, Any] = {}
    context = SimpleNamespace(
        get_peer_context=lambda: here,
        get_engine=lambda: SimpleNamespace(get_clients=lambda: clients),
        set_prop=lambda key, value, **_: said.update({key: value}),
    )
    keeper.handle_event(EventType.CLIENT_REGISTER_RECEIVED, context)
    for error in said.get(FLContextKey.EXCEPTIONS, {}).values():  # as the engine does
        raise error
    coordinator.connected.add(name)
    clients.append(SimpleNamespace(name=name))
    keeper.handle_event(EventType.CLIENT_REGISTER_PROCESSED, context)


def test_a_copied_kit_is_refused_while_the_first_is_connected(coordinator, tmp_path):
    registers(coordinator, Keeper(), "north", tmp_path / "one")
    again = Keeper()  # a coordinator that was restarted has not forgotten
    with pytest.raises(NotAuthenticated, match="the start kit of north is in use in another"):
        registers(coordinator, again, "north", tmp_path / "two")
    registers(coordinator, again, "north", tmp_path / "one")  # it was restarted where it was
    registers(coordinator, again, "lakeside", tmp_path / "two")
    coordinator.connected.remove("north")
    registers(coordinator, again, "north", tmp_path / "two")  # it has moved


def test_a_removed_party_is_refused(coordinator, tmp_path):
    (coordinator.folder / "removed.txt").write_text("north\n")
    with pytest.raises(NotAuthenticated, match="north was removed from this federation"):
        registers(coordinator, Keeper(), "north", tmp_path)


def test_who_comes_and_goes_is_told(coordinator, caplog):
    caplog.set_level("INFO", "spinney.keeper")
    keeper = Keeper()
    for names in (["north"], ["north", "lakeside"], ["lakeside"], ["lakeside"]):
        heard = [SimpleNamespace(name=name) for name in names]
        keeper._tell_who_is_heard(SimpleNamespace(get_clients=lambda heard=heard: heard))
    assert caplog.messages == [
        "north is connected.",
        "lakeside is connected.",
        "north is no longer connected.",
    ]


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        ({"submitter_name": "alice", "deploy_map": {"spinney": ["server", "lakeside"]}}, None),
        ({"submitter_name": "bob"}, "bob was removed from this federation"),
        (
            {"deploy_map": {"spinney": ["server", "north"]}},
            "north was removed from this federation",
        ),
        ({"spinney_aborts": True}, "This job only asks to end a paused run."),
    ],
)
def test_which_jobs_the_engine_may_not_start(coordinator, meta, reason):
    (coordinator.folder / "removed.txt").write_text("north\nbob\n")
    context = FLContext()
    context.set_prop(FLContextKey.JOB_META, meta)
    Keeper().handle_event(EventType.BEFORE_CHECK_CLIENT_RESOURCES, context)
    assert context.get_prop(FLContextKey.JOB_BLOCK_REASON) == reason


def test_a_party_says_its_place_and_that_it_was_let_in(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    context = FLContext()
    speaker = place.Place()
    speaker.handle_event(EventType.BEFORE_CLIENT_REGISTER, context)
    assert place.place_in(context) == place.place_of(tmp_path)
    assert place.place_of(tmp_path) != place.place_of(tmp_path / "kit")
    caplog.set_level("INFO", "spinney.party")
    speaker.handle_event(EventType.AFTER_CLIENT_REGISTER, context)
    assert not caplog.messages
    context.set_prop(FLContextKey.CLIENT_TOKEN, "token")
    speaker.handle_event(EventType.AFTER_CLIENT_REGISTER, context)
    assert caplog.messages == ["Connected to the coordinator."]
