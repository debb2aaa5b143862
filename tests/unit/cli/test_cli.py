"""The command line itself: quick, light, and with one line for every failure."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spinney import __version__
from spinney.errors import BudgetError, InternalError, SettingError
from spinney.simulation import run as simulation

SPINNEY = str(Path(sys.executable).with_name("spinney"))
HEAVY = ("numpy", "numba", "sklearn", "pandas", "pyarrow", "duckdb", "cryptography")


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom spinney.cli.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")


def test_help_takes_less_than_a_second():
    """Of a processor's time: how busy the machine is besides is no fault of ours."""
    before = os.times()
    subprocess.run([SPINNEY, "--help"], capture_output=True, check=True)
    after = os.times()
    used = after.children_user + after.children_system
    assert used - before.children_user - before.children_system < 1


def test_help_names_the_commands_and_the_version_is_told(place):
    told = place.run("--help")
    assert told.exit_code == 0
    assert all(word in told.stdout for word in ("demo", "simulate", "model", "--debug"))
    assert place.run("--version").stdout == f"spinney {__version__}\n"


def test_a_wrong_option_is_a_usage_error(place):
    told = place.run("demo", "--tree", "5")
    assert told.exit_code == 2
    assert "No such option" in told.stderr
    assert "Traceback" not in told.stderr


BUG = "please report it. --debug shows the traceback."
FAILURES = {
    "setting": (
        SettingError("max_bins must be\n smaller."),
        10,
        "spinney: max_bins must be smaller.",
    ),
    "budget": (BudgetError("Charge refused."), 31, "spinney: Charge refused."),
    "internal": (
        InternalError("Columns differ."),
        70,
        f"spinney: internal error (InternalError: Columns differ); {BUG}",
    ),
    "unexpected": (
        ZeroDivisionError("division by zero"),
        70,
        f"spinney: internal error (ZeroDivisionError: division by zero); {BUG}",
    ),
    "a file": (
        PermissionError(13, "Permission denied", "locked/x"),
        22,
        "spinney: Permission denied: 'locked/x'. Check the path, and that you may use it.",
    ),
    "memory": (
        MemoryError(),
        70,
        "spinney: There is not enough memory. Use fewer trees, shallower trees or fewer rows.",
    ),
    "interrupt": (KeyboardInterrupt(), 130, "Interrupted; nothing was written."),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("debug", ["no", "before the command", "after it"])
def test_every_failure_is_one_line_and_its_code(place, monkeypatch, failure, debug):
    error, code, line = FAILURES[failure]

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(simulation, "simulate", fail)
    before = ["--debug"] if debug == "before the command" else []
    after = ["--debug"] if debug == "after it" else []
    told = place.run(*before, "simulate", "job.toml", *after)
    assert told.exit_code == code
    assert told.stdout == ""
    if debug == "no":
        assert told.stderr == f"{line}\n"
    else:
        assert "Traceback" in told.stderr
        assert told.stderr.endswith(f"{line}\n")


def test_an_interrupt_that_a_library_turned_into_an_error_is_still_an_interrupt(place, monkeypatch):
    def swallow(*_, **__):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ValueError("query interrupted") from None

    monkeypatch.setattr(simulation, "simulate", swallow)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    try:
        told = place.run("simulate", "job.toml")
        assert (told.exit_code, told.stderr) == (130, "Interrupted; nothing was written.\n")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_after_the_files_are_written_does_not_deny_them(place, monkeypatch):
    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("spinney.cli.text.show", fail)
    place.job()
    told = place.run("simulate", "job.toml")
    assert (told.exit_code, told.stderr) == (130, "Interrupted.\n")
    assert "runs/visits/model.spinney" in place.files()


def test_ctrl_c_in_the_middle_leaves_nothing(place):
    place.job(n_estimators="60000")
    before = place.files()
    with subprocess.Popen(
        [SPINNEY, "simulate", "job.toml"],
        cwd=place.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=300)
    assert process.returncode == 130
    assert out == ""
    assert error.endswith("Interrupted; nothing was written.\n")
    assert "Traceback" not in error
    assert place.files() == before


def test_a_reader_that_goes_away_is_no_error(place):
    place.job()
    done = subprocess.run(
        f"{SPINNEY} simulate job.toml --json | true",
        cwd=place.folder,
        shell=True,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


@pytest.mark.filterwarnings("ignore")
def test_no_class_is_said_to_be_scored_where_nothing_was(place):
    """All held-out rows are of one class: who has the other is told nowhere."""
    rows = [f"{20 + n},{'yes' if n == 7 else 'no'}" for n in range(60)]
    (place.folder / "rare.csv").write_text("\n".join(["age,ill", *rows]), encoding="utf-8")
    told = place.run("simulate", "rare.csv", "--label", "ill")
    assert told.exit_code == 0, told.stderr
    assert "Nothing could be scored" in told.stdout
    assert "F1 is that of the class" not in told.stdout
