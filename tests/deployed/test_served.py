"""A job from the lead to the model over real connections, and what can go wrong on the way."""

import re
import shutil
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from threading import Event
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile

import msgspec
import pytest

from deployed.handmade import CLINICS, agreed_job, write_party  # type: ignore[import-not-found]
from deployed.one_process import models_of  # type: ignore[import-not-found]
from deployed.served import Served  # type: ignore[import-not-found]
from spinney.cli.ledgers import verify_ledger
from spinney.deployment import client
from spinney.deployment.condition import in_words
from spinney.deployment.coordinator.heads import KeptHeads
from spinney.deployment.coordinator.keeper import Keeper
from spinney.deployment.coordinator.runs import RunFolder, Status
from spinney.deployment.party.guard import Guarded
from spinney.errors import PolicyError, SettingError, StorageError
from spinney.transport.remote.attendance import Attendance
from spinney.transport.remote.certificates import holder_of
from spinney.transport.remote.frames import Offer
from spinney.transport.remote.kits import certificate_in, read_request
from spinney.version import __version__


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with Served(tmp_path_factory.mktemp("served")).up(*CLINICS) as made:
        yield made


def job_called(served, name, job="", **settings):
    """Return a job with a name of its own."""
    agreed = agreed_job(served.folder, job, **settings)
    return msgspec.structs.replace(agreed, name=name)


def holder_in(kit):
    return holder_of(certificate_in(kit, "client", ""))


class Held:
    """Parties that stop before they answer a question for the first time, until they are let go."""

    def __init__(self, monkeypatch, kind, party="north"):
        self.reached, self.free = Event(), Event()
        answer = Guarded.answer

        def held(side, ask):
            if type(ask).__name__ == kind and party in side._record.folder.parts:
                self.reached.set()
                assert self.free.wait(300)
            return answer(side, ask)

        monkeypatch.setattr(Guarded, "answer", held)


@pytest.mark.parametrize("secure_sum", ["false", "true"])
def test_a_job_ends_with_the_same_model_as_in_one_process(served, secure_sum):
    agreed = job_called(served, f"same-{secure_sum}", secure_sum=secure_sum)
    status = served.over(served.submit(agreed))
    assert (status.state, status.attempt, status.message) == ("finished", 1, "")
    model = (served.file.runs / status.run / "model.spinney").read_bytes()
    assert model == models_of(served.folder, agreed)[""]
    for name in CLINICS:
        kept = served.folder / name / "records" / "runs" / status.run / "model.spinney"
        assert kept.read_bytes() == model
    served.wait(lambda: set(KeptHeads(served.file.kit).ends()) == set(CLINICS))
    said = in_words({"ledgers": KeptHeads(served.file.kit).ends()})["ledgers"]
    assert re.match(r"lakeside \d+ entries, north \d+ entries, st-mary \d+ entries; their", said)


def test_a_refusal_names_the_party_and_its_rule(served):
    write_party(served.folder, "north", policy="secure_sum = true")
    try:
        status = served.over(served.submit(job_called(served, "refused")))
    finally:
        write_party(served.folder, "north")
    assert status.state == "failed"
    assert status.message.startswith("north: ")
    assert "rule 'secure_sum'" in status.message


def test_a_cut_connection_costs_no_attempt(served, monkeypatch):
    held = Held(monkeypatch, "LevelAsk")
    run = served.submit(job_called(served, "cut"))
    assert held.reached.wait(300)
    served.attendance.dismiss("north")  # it connects again, and still works on the question
    held.free.set()
    status = served.over(run)
    assert (status.state, status.attempt) == ("finished", 1)


def test_a_party_that_was_started_again_is_noticed_at_once(served, monkeypatch):
    held = Held(monkeypatch, "LevelAsk")
    agreed = job_called(served, "again")
    run = served.submit(agreed)
    assert held.reached.wait(300)
    served.restart("north", held.free)
    status = served.over(run)
    assert (status.state, status.attempt) == ("finished", 2), status
    assert (served.file.runs / run / "model.spinney").read_bytes() == models_of(
        served.folder, agreed
    )[""]


def test_a_coordinator_that_was_started_again_goes_on(served, monkeypatch):
    held = Held(monkeypatch, "LevelAsk")
    run = served.submit(job_called(served, "restart"))
    assert held.reached.wait(300)
    before = served.keeper
    stopping = Event()
    monkeypatch.setattr("spinney.deployment.coordinator.keeper._END", 0.1)
    before.stop()
    stopping.set()
    held.free.set()
    served.wait(lambda: before._active is None)
    assert served.status(run).state in ("running", "waiting")
    served.keeper = Keeper(served.file, served.members, served.attendance)
    served.server._desk._keeper = served.keeper
    served.keeper.start()
    status = served.over(run)
    assert (status.state, status.attempt) == ("finished", 2), status


def test_an_upgrade_in_the_middle_of_a_run_costs_it_nothing(served, monkeypatch, caplog):
    """One side alone is refused; once all have the next version, the run goes on where it was."""
    held = Held(monkeypatch, "LevelAsk")
    agreed = job_called(served, "upgrade", secure_sum="true")
    run = served.submit(agreed)
    assert held.reached.wait(300)
    monkeypatch.setattr("spinney.transport.remote.calling.__version__", "9.9")
    served.restart("north", held.free)
    said = (
        f"Refused north (client): it runs Spinney 9.9 and the coordinator {__version__}; all sides "
        "of a federation need the same version."
    )
    served.wait(lambda: said in caplog.messages)
    served.keeper.stop()
    monkeypatch.setattr("spinney.transport.remote.serving.__version__", "9.9")
    for name in CLINICS:
        if name != "north":
            served.restart(name, held.free)
    served.wait(lambda: set(CLINICS) <= set(served.attendance.names()))
    served.server.stop(0.0)
    served.listen()
    status = served.over(run)
    assert (status.state, status.attempt) == ("finished", 2), status
    model = (served.file.runs / run / "model.spinney").read_bytes()
    assert model == models_of(served.folder, agreed)[""]
    for name in CLINICS:
        assert "intact" in verify_ledger(served.folder / name / "ledger.db")
    monkeypatch.undo()
    for name in CLINICS:
        served.attendance.dismiss(name)
    served.wait(lambda: set(CLINICS) <= set(served.attendance.names()))


def test_who_follows_a_run_waits_for_a_coordinator_that_is_started_again(
    served, monkeypatch, tmp_path
):
    held = Held(monkeypatch, "LevelAsk")
    said: list[Status] = []
    run = served.submit(job_called(served, "followed"))
    assert held.reached.wait(300)
    monkeypatch.setattr("spinney.deployment.coordinator.keeper._END", 0.1)
    with ThreadPoolExecutor(1) as pool:
        kit = served.folder / "lead" / "kit"
        followed = pool.submit(client.follow, run, kit, tmp_path, said.append)
        served.wait(lambda: said)
        served.keeper.stop()
        served.server.stop(0.0)
        held.free.set()
        served.listen()
        status, folder = followed.result(60)
    assert (status.state, status.attempt) == ("finished", 2)
    assert folder is not None
    assert (folder / "model.spinney").exists()


def test_an_abort_ends_a_run_in_the_middle_and_the_next_job_begins(served, monkeypatch):
    held = Held(monkeypatch, "LevelAsk")
    run = served.submit(job_called(served, "unwanted"))
    assert held.reached.wait(300)
    status = client.abort(run[:8], served.folder / "lead" / "kit")
    assert status.state == "aborted"
    held.free.set()
    with pytest.raises(SettingError, match="is already over: aborted"):
        client.abort(run, served.folder / "lead" / "kit")
    served.wait((served.file.runs / run / "report.json").exists)
    assert served.over(served.submit(job_called(served, "wanted"))).state == "finished"


def test_a_table_that_changed_pauses_the_run_and_its_return_lets_it_go_on(served, monkeypatch):
    table = served.folder / "north.csv"
    original = served.folder / "original.csv"
    source = (served.folder / "north" / "party.toml").read_text().split('path = "')[1].split('"')[0]
    shutil.copyfile(source, table)
    shutil.copyfile(source, original)
    write_party(served.folder, "north", table=f'source = "csv"\npath = "{table}"\nrow_id = "visit"')
    held = Held(monkeypatch, "LevelAsk")
    agreed = job_called(served, "moved")
    run = served.submit(agreed)
    assert held.reached.wait(300)
    table.write_text("\n".join(original.read_text().splitlines()[:-1]) + "\n")
    served.restart("north", held.free)
    status = served.over(run)
    assert status.state == "paused", status
    assert (
        "The table changed since this party accepted job 'moved'. Restore it, or" in status.message
    )
    shutil.copyfile(original, table)
    path = served.folder / "moved.toml"
    path.write_text((served.folder / "job.toml").read_text().replace('"q3"', '"moved"'))
    assert client.resume(run, path, served.folder / "lead" / "kit") == run
    assert served.over(run).state == "finished"
    write_party(served.folder, "north")


def test_a_run_follows_and_is_fetched_by_who_started_it(served, tmp_path):
    run = served.submit(job_called(served, "fetched"))
    said: list[Status] = []
    status, folder = client.follow(run, served.folder / "lead" / "kit", tmp_path, said.append)
    assert (status.state, folder) == ("finished", tmp_path)
    assert (tmp_path / "model.spinney").read_bytes() == (
        served.file.runs / run / "model.spinney"
    ).read_bytes()
    assert [one.state for one in said][-1] == "finished"


def test_a_copied_kit_unseats_nobody(served):
    attendance: Attendance = served.attendance
    first = next(s for s in attendance._streams.values() if s.name == "north")
    copy = served.folder / "north-copied"
    shutil.copytree(served.folder / "north", copy)
    served.attend("north-copied")
    served.wait(lambda: True)
    run = served.submit(job_called(served, "after-the-copy"))
    assert served.over(run).state == "finished"
    assert attendance._streams["north"] is first
    served.ended["north-copied"].set()


def test_whoever_is_removed_is_disconnected_and_an_old_kit_never_works_again(served):
    served.kit("rota", "rota", "client")
    write_party(served.folder, "rota")
    served.attend("rota")
    served.wait(lambda: "rota" in served.attendance.names())
    served.members.remove("rota")
    served.wait(lambda: "rota" not in served.attendance.names())
    old = served.folder / "rota" / "kit"
    old.rename(served.folder / "rota" / "old")
    served.kit("rota", "rota", "client")
    peer = holder_in(served.folder / "rota" / "kit")
    served.members.admit(peer)  # as `approve` does
    served.wait(lambda: "rota" in served.attendance.names())
    stolen = holder_in(old.with_name("old"))
    assert served.members.refuses(stolen) == "you were removed from the federation"
    assert served.members.refuses(peer) == ""
    served.ended["rota"].set()


def test_a_lead_cannot_evaluate_what_another_lead_trained(served):
    agreed = job_called(served, "hers")
    run = served.over(served.submit(agreed))
    other = served.kit("carol", "carol@clinics.example.org", "lead")
    judged = msgspec.structs.replace(
        agreed, kind="evaluate", name="hers-evaluation", model=run.model
    )
    with pytest.raises(PolicyError, match="Only who started a run may evaluate its model"):
        served.submit(judged, kit=other)
    assert served.over(served.submit(judged)).state == "finished"


def test_an_attempt_is_offered_once(served):
    run = served.submit(job_called(served, "once"))
    assert served.over(run).state == "finished"
    signed = RunFolder(served.file.runs, run).signature()
    assert signed is not None
    again = Offer(9, run, 1, CLINICS, signed.job, signed.certificate, signed.signature)
    said = served.sides["north"].take(again)
    assert (said.kind, said.reason) == (
        "ProtocolError",
        "This attempt was offered before. Nothing was released.",
    )


def test_a_party_s_file_that_cannot_be_read_is_told_without_its_path(served):
    file = served.folder / "north" / "party.toml"
    whole = file.read_text()
    file.write_text("[party\n")
    try:
        status = served.over(served.submit(job_called(served, "unread")))
    finally:
        file.write_text(whole)
    assert status.message == "north: This party's file cannot be read."


def test_a_result_is_never_written_over_another_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def archive(model):
        made = BytesIO()
        with ZipFile(made, "w") as files:
            files.writestr("model.spinney", model)
        return made.getvalue()

    first, second = archive("first"), archive("second")
    for fetched, folder in ((first, "q3"), (first, "q3"), (second, "q3-2"), (second, "q3-2")):
        assert client._unpacked(fetched, None, "q3") == Path("runs") / folder
    assert (tmp_path / "runs/q3/model.spinney").read_text() == "first"
    assert client._unpacked(first, Path("runs/q3"), "q3") == Path("runs/q3")  # the same run
    with pytest.raises(StorageError, match=r"'runs/q3' already holds a run, .* with --out"):
        client._unpacked(second, Path("runs/q3"), "q3")


def test_a_result_is_written_where_the_lead_says_and_nowhere_else(tmp_path):
    made = BytesIO()
    with ZipFile(made, "w") as files:
        for name in ("model.spinney", "../evil", "authorized_keys"):
            files.writestr(name, "x")
    where = client._unpacked(made.getvalue(), tmp_path / "run", "q3")
    assert where == tmp_path / "run"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["model.spinney"]
    with pytest.raises(StorageError, match="The coordinator's result cannot be read"):
        client._unpacked(b"junk", tmp_path / "run", "q3")
    for name in ("/etc/passwd", "../x", "a/b", ""):
        with pytest.raises(SettingError):
            client._unpacked(made.getvalue(), None, name)


@pytest.mark.parametrize("method", [ZIP_DEFLATED, ZIP_BZIP2, ZIP_LZMA])
@pytest.mark.parametrize(
    ("reader", "words"), [("result", "result cannot be read"), ("request", "is not a request")]
)
def test_a_little_archive_takes_little_memory_whatever_it_holds(tmp_path, method, reader, words):
    """Before: 1,201 bytes of bzip2 whose entry says that they hold a hundred took 3 GB."""
    made = BytesIO()
    with ZipFile(made, "w", method) as files, files.open("model.spinney", "w") as bomb:
        for _ in range(16):
            bomb.write(bytes(1 << 22))
    data = bytearray(made.getvalue())
    size = data.find(b"PK\x01\x02") + 24
    data[size : size + 4] = (100).to_bytes(4, "little")
    kit = tmp_path / "kit.zip"
    kit.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(StorageError, match=words):
        read_request(kit) if reader == "request" else client._unpacked(bytes(data), kit, "q3")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 << 20


@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED, ZIP_BZIP2, ZIP_LZMA])
@pytest.mark.parametrize("reader", ["result", "request"])
def test_an_archive_that_is_damaged_is_refused_however_it_is_compressed(tmp_path, method, reader):
    """Each method fails in its own way: not one of them with a traceback."""
    made = BytesIO()
    with ZipFile(made, "w", method) as files:
        files.writestr("model.spinney", bytes(range(256)) * 40)
    data = made.getvalue()
    for place in range(45, len(data) - 80, 7):
        damaged = data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
        with suppress(StorageError, SettingError):  # of some methods a byte means nothing
            if reader == "result":
                client._unpacked(damaged, tmp_path / f"{place}", "q3")
            else:
                (tmp_path / "kit.zip").write_bytes(damaged)
                read_request(tmp_path / "kit.zip")
