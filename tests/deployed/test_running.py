"""From a start kit to a running side: clocks, certificates, ports, second starts, full disks."""

import errno
import json
import logging
import os
import re
import socket
from pathlib import Path

import msgspec
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    Authority,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    status_of,
    write_party,
)
from spinney import load_report
from spinney.deployment import process as running
from spinney.deployment.coordinator.process import Run
from spinney.deployment.coordinator.runs import RunFolder
from spinney.deployment.coordinator.unfinished import write_unfinished
from spinney.deployment.logs import JsonLines
from spinney.deployment.party.guard import RunRecord
from spinney.deployment.party.status import status
from spinney.deployment.text import party_page
from spinney.errors import PartyLostError, ProtocolError, SettingError, StorageError


def refused(path: Path, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        running.run_party(path, lambda _: None)


def test_an_expired_certificate_is_told_before_anything_starts(tmp_path):
    path = write_party(tmp_path, "north")
    Authority().kit(tmp_path / "north" / "kit", "north", days=-1)
    refused(path, r"expired on \d{4}-\d\d-\d\d. Make a new request and have it approved")


def test_a_clock_that_is_behind_is_told(tmp_path):
    path = write_party(tmp_path, "north")
    Authority().kit(tmp_path / "north" / "kit", "north", first=3)
    refused(path, r"is valid from .* UTC, but this machine's clock says .* UTC. Set the clock")


def test_a_kit_of_another_or_none_is_told(tmp_path):
    path = write_party(tmp_path, "north")
    refused(path, "There is no start kit .* Make it with: spinney party join")
    Authority().kit(tmp_path / "north" / "kit", "lakeside")
    refused(path, "The start kit belongs to 'lakeside', but the party's file says 'north'")


def test_a_start_kit_serves_one_process_at_a_time(tmp_path):
    path = write_party(tmp_path, "north")
    Authority().kit(tmp_path / "north" / "kit", "north")
    words = "Another process on this machine uses the start kit"
    with running.alone_with(tmp_path / "north" / "kit"), pytest.raises(ProtocolError, match=words):
        running.run_party(path, lambda _: None)


def test_a_second_coordinator_of_a_federation_is_told_so_and_not_to_change_its_port(tmp_path):
    coordinator_in(tmp_path)
    Authority().kit(tmp_path / "kit", "localhost")
    startup = tmp_path / "kit" / "startup"
    (startup / "client.crt").rename(startup / "server.crt")
    words = "Another process on this machine uses the start kit"
    with running.alone_with(tmp_path / "kit"), pytest.raises(ProtocolError, match=words):
        running.run_coordinator(tmp_path / "coordinator.toml", lambda _: None)


def test_a_port_in_use_is_told_by_number():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingError, match=f"Port {port} cannot be used: Address already"):
            running.require_free(port)


def test_clocks_that_differ_change_nothing(tmp_path, monkeypatch):
    """A party whose clock is a day ahead, and a coordinator's that jumps, train as ever."""
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path)
    models = []
    for run, ahead in (("run-1", 0.0), ("run-2", 86_400.0)):
        for module in (
            "party.admission",
            "party.progress",
            "coordinator.runs",
            "coordinator.process",
        ):
            name = f"spinney.deployment.{module}.time"
            monkeypatch.setattr(name, lambda ahead=ahead: 1_800_000_000.0 + ahead)
        sites = Sites(tmp_path, agreed, run=run)
        Run(coordinator_in(tmp_path), agreed, attempt_of(agreed, run), sites.bytes_to).conduct()
        sites.close()
        models.append((tmp_path / "runs" / run / "model.spinney").read_bytes())
    assert models[0] == models[1]


def test_logs_are_told_in_lines_and_traces_stay_in_the_file(tmp_path, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(JsonLines, "job", "a747575a-bd95")
    with running.logging_to(tmp_path, said.append):
        log = logging.getLogger("spinney.party")
        log.info("Job %r begins.", "q3")
        log.error("One.\nTwo.", exc_info=ValueError("secret"))
        logging.getLogger("spinney.audit").warning("Refused eve.")
    log.info("Nobody hears this.")
    assert [line[9:] for line in said] == [
        "a747575a Job 'q3' begins.",
        "a747575a One.",
        "a747575a Refused eve.",
    ]
    written = [json.loads(line) for line in (tmp_path / "spinney.jsonl").read_text().splitlines()]
    assert "secret" in written[1]["error"]
    assert written[0]["job"] == "a747575a-bd95"
    (refused,) = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert json.loads(refused)["message"] == "Refused eve."


def test_a_log_message_that_cannot_be_printed_stops_nothing(tmp_path):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with running.logging_to(tmp_path, full):
        logging.getLogger("spinney.party").warning("Not connected.")
    assert "Not connected." in (tmp_path / "spinney.jsonl").read_text()


def test_a_party_says_how_far_it_is(tmp_path):
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path)
    sites = Sites(tmp_path, agreed)
    Run(coordinator_in(tmp_path), agreed, attempt_of(agreed), sites.bytes_to).conduct()
    records = tmp_path / "north" / "records" / "runs" / "run-1"
    progress = json.loads((records / "progress.json").read_text())
    assert (progress["job"], progress["question"], progress["levels"]) == ("q3", "Quality", 3)
    (records / "model.spinney").unlink()  # as if it were not finished
    page = party_page(*status(tmp_path / "north" / "party.toml"))
    assert f"answered up to question {progress['questions']} (Quality)" in page
    assert re.search(r"^  run-1  q3: \d+ replies, the last at \S+ \S+ UTC; ", page, re.MULTILINE)
    assert re.search(r"^process: +not running$", page, re.MULTILINE)


def test_a_run_that_ended_early_has_a_report_of_what_left(tmp_path):
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path)
    sites = Sites(tmp_path, agreed)
    asked = []

    def dying(targets, data):
        asked.append(data)
        return sites.bytes_to(targets, data) if len(asked) < 9 else {}

    with pytest.raises(PartyLostError):
        Run(coordinator_in(tmp_path), agreed, attempt_of(agreed), dying).conduct()
    folder = RunFolder(tmp_path / "runs", "run-1")
    known = status_of(tmp_path)
    write_unfinished(folder, known)
    assert not (folder.folder / "report.json").exists()  # it waits, and may go on
    given_up = folder.write(msgspec.structs.replace(known, state="aborted", message=""))
    write_unfinished(folder, given_up)
    report = load_report(folder.folder)
    assert report.ended == "The run was aborted."
    assert (report.attempts, report.dropped) == (1, ())
    assert [entry.question for entry in report.disclosures] == ["Schema", "Facts", "Edges"]
    assert report.parties == agreed.parties
    assert (folder.folder / "report.html").exists()


def test_a_party_with_a_full_disk_releases_nothing_and_the_run_pauses(tmp_path, monkeypatch):
    clinics_in(tmp_path)
    agreed = agreed_job(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(tmp_path))

    sites = Sites(tmp_path, agreed)
    sites.keyed()
    sites.close()
    again = Sites(tmp_path, agreed, attempt=2)
    run = Run(coordinator_in(tmp_path), agreed, attempt_of(agreed, attempt=2), again.bytes_to)
    monkeypatch.setattr(os, "fsync", full)
    seen = []

    def write(_, status):
        seen.append(status)
        return status

    monkeypatch.setattr(RunFolder, "write", write)
    with pytest.raises(StorageError, match="Make room on its disk, then resume") as caught:
        run.conduct()
    assert str(tmp_path) not in caught.value.public
    assert seen[-1].state == "paused"
    assert RunRecord(tmp_path / "x").get("anything") is None


def test_half_a_line_that_a_crash_left_is_dropped_and_hides_no_later_one(tmp_path):
    RunRecord(tmp_path).settle("job", "this one")
    RunRecord(tmp_path).disclose(question="Facts")
    for name in ("facts", "disclosures"):
        with (tmp_path / f"{name}.jsonl").open("a") as file:
            file.write('{"what": "level 0", "is": "cut sh')
    again = RunRecord(tmp_path)
    assert (again.get("job"), again.get("level 0")) == ("this one", None)
    assert again.settle("level 0", "whole")
    again.disclose(question="Level")
    assert RunRecord(tmp_path).get("level 0") == "whole"
    lines = (tmp_path / "disclosures.jsonl").read_text().splitlines()
    assert [json.loads(line)["question"] for line in lines] == ["Facts", "Level"]
