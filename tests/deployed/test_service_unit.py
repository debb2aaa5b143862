"""The service file of docs/deploy.md: how tight it is, and that both sides work within it."""

import ctypes.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deployed.as_service import allowed  # type: ignore[import-not-found]
from deployed.loopback import Federation  # type: ignore[import-not-found]
from deployed.test_operating import Sides, wait  # type: ignore[import-not-found]
from spinney.deployment import sandbox
from spinney.deployment.standing import CONNECTED

GUIDE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()
LAUNCHER = Path(__file__).with_name("as_service.py")
pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze"
)
needs_filters = pytest.mark.skipif(
    ctypes.util.find_library("seccomp") is None, reason="there is no libseccomp"
)


@pytest.fixture
def unit(tmp_path):
    (text,) = re.findall(r"```ini\n(.*?)```", GUIDE, re.DOTALL)
    path: Path = tmp_path / "spinney-party.service"
    path.write_text(text)
    return path


def test_the_unit_is_as_tight_as_the_page_says(unit):
    said = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = re.search(r"Overall exposure level for spinney-party\.service: ([\d.]+)", said)
    documented = re.search(r"rates the exposure of this unit at ([\d.]+) of 10", GUIDE)
    assert found
    assert documented
    assert float(found[1]) <= float(documented[1]), said
    open_ = {line.split()[1] for line in said.splitlines() if line.startswith("✗")}
    assert "UMask=" not in open_
    assert "NoNewPrivileges=" not in open_


def test_the_unit_lets_the_process_confine_itself(unit):
    calls = allowed(unit.read_text())
    assert {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"} <= calls
    assert not calls & {"ptrace", "mount", "reboot", "init_module", "bpf", "setuid", "chroot"}


@needs_filters
def test_both_sides_connect_within_the_unit_s_filter(unit, tmp_path):
    (tmp_path / "sides").mkdir()
    sides = Sides(tmp_path / "sides")
    within = (sys.executable, str(LAUNCHER), str(unit))
    with sides.started("coordinator", *within), sides.started("party", *within):
        wait(lambda: sides.state("party") == CONNECTED)
        cage = f"Landlock {sandbox.version()}" if sandbox.version() else "none"
        assert (sides.status("party")["cage"], sides.status("coordinator")["cage"]) == (cage, cage)


class Services(Federation):  # type: ignore[misc]
    """A federation whose processes run within the unit's filter."""

    unit: Path
    starting = False

    def start(self, *names):
        self.starting = True
        super().start(*names)
        self.starting = False

    def _within(self, side):
        within = [sys.executable, str(LAUNCHER), str(self.unit)] if self.starting else []
        return [*super()._within(side), *within]


@needs_filters
@pytest.mark.slow
def test_forests_are_trained_within_the_unit_s_filter(unit, tmp_path):
    federation = Services(tmp_path / "federation")
    federation.unit = unit
    with federation.up():
        for protocol, settings in (
            ("horizontal_forest", {"secure_sum": True}),
            ("private_forest", {"epsilon": 1.0}),
        ):
            path = federation.write_job(protocol, protocol, n_estimators=8, max_depth=4, **settings)
            done = federation.job("start", str(path), "--follow", "--json")
            assert json.loads(done.stdout)["state"] == "finished"
