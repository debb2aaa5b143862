"""The guide of docs/deploy.md, followed as a new user would: every console block, in its order."""

import os
import re
import signal
import subprocess
import sys
import time
from configparser import ConfigParser
from pathlib import Path

import pytest

from deployed.loopback import free_port  # type: ignore[import-not-found]

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "deploy.md"


def commands():
    """Return the guide's commands; a here-document belongs to its command."""
    text = GUIDE.read_text().split("## Plan")[0]
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        yield from (part.strip() for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part)


@pytest.mark.slow
def test_from_nothing_to_a_trained_federation_by_the_guide(tmp_path):
    port = free_port()
    binary = tmp_path / "bin"
    binary.mkdir()
    (binary / "spinney").write_text(f'#!/bin/sh\nexec {sys.executable} -m spinney.cli "$@"\n')
    (binary / "spinney").chmod(0o755)
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{binary}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "FINGERPRINT": "",
    }
    folder, running, said = str(ROOT), [], ""
    try:
        for written in commands():
            command = written.replace("/tmp/trees", str(tmp_path / "trees"))
            command = command.replace("port = 8002", f"port = {port}")
            if re.match(r"spinney (party|coordinator) run", command):
                running.append(
                    subprocess.Popen(
                        ["bash", "-c", f"exec {command}"],
                        cwd=folder,
                        env=environment,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                    )
                )
                time.sleep(5)
                continue
            done = subprocess.run(
                ["bash", "-c", f"set -e\n{command}\npwd"],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=900,
                check=False,
            )
            assert done.returncode == 0, (command, done.stderr)
            *lines, folder = done.stdout.splitlines()
            said = "\n".join(lines)
            if "coordinator init" in command:
                environment["FINGERPRINT"] = lines[-1]
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait(30)
    assert len(running) == 3
    assert (tmp_path / "trees/alice/runs/readmission-deployed/model.spinney").exists()
    assert re.search(r"why +\w+ 0\.\d+ \(permutation", said)  # the last: the evaluation's report


def test_the_service_file_is_one_that_systemd_reads():
    (unit,) = re.findall(r"```ini\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    service = ConfigParser(inline_comment_prefixes=None, strict=True)
    service.read_string(unit.replace("SystemCallFilter=~", "Denied=~"))  # a second list
    assert service.sections() == ["Unit", "Service", "Install"]
    for section in service.sections():
        assert not any("#" in value for value in service[section].values())  # part of the value
    assert service["Service"]["ExecStart"].endswith("spinney party run party.toml")


def test_the_run_book_is_whole():
    headings = re.findall(r"^## (.+)$", GUIDE.read_text(), re.MULTILINE)
    assert [*headings] == [
        "Try it on one machine",
        "Plan",
        "Provision",
        "The files",
        "As a service",
        "When something dies",
        "Keys",
        "Back up",
        "Upgrade",
        "Ports",
        "What is checked where",
        "Known limits",
    ]
    keys = GUIDE.read_text().split("## Keys")[1].split("## Back up")[0]
    for subject in ("*Add a party*", "*Remove one*", "*Rotate a key*"):
        assert subject in keys
