"""Try what a newcomer would, on this machine's Python; print a row of docs/install.md's table.

    python3 tools/try_install.py

`make demo` and `make test` run in this clone; then the wheel is built, installed into an empty
environment, and its demo, a job with encrypted labels and a job matched by PSI run far from the
source.
"""

import platform
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs/examples"


def main() -> None:
    """Run the five columns of the table; stop at the first that fails."""
    demo = _time(lambda: _run("make", "demo", f"PYTHON={sys.executable}", folder=ROOT))
    test = _time(lambda: _run("make", "test", folder=ROOT))
    with TemporaryDirectory() as made:
        folder = Path(made)
        wheel = _time(lambda: _install_wheel(folder))
        encrypted = _time(
            lambda: _simulate(folder, "encrypted", 'labels = "shared"', 'labels = "encrypted"')
        )
        matched = _time(
            lambda: _simulate(folder, "psi", 'matching = "keyed_hash"', 'matching = "psi"')
        )
    times = " | ".join(_say(seconds) for seconds in (demo, test, wheel, encrypted, matched))
    print(f"| {_system()} | {platform.python_version()} | {times} |")


def _install_wheel(folder: Path) -> None:
    """Build the wheel, install it with its extras into an empty environment, and run its demo."""
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    pip = (str(environment / "bin/pip"), "--disable-pip-version-check")
    _run(*pip, "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT), folder=folder)
    (wheel,) = folder.glob("*.whl")
    _run(*pip, "install", "-q", f"{wheel}[demo,he,matching]", folder=folder)
    _run(str(environment / "bin/spinney"), "demo", folder=folder)


def _simulate(folder: Path, name: str, now: str, wanted: str) -> None:
    """Run the example over columns with one setting changed."""
    for table in ("bank.csv", "shop.csv"):
        shutil.copy(EXAMPLE / table, folder)
    text = (EXAMPLE / "bank_and_shop.toml").read_text(encoding="utf-8")
    if text.count(now) != 1:
        sys.exit(f"try_install: the example does not say `{now}` once")
    job = folder / f"{name}.toml"
    job.write_text(text.replace(now, wanted).replace("bank-and-shop", name), encoding="utf-8")
    _run(str(folder / "environment/bin/spinney"), "simulate", str(job), folder=folder)


def _run(*command: str, folder: Path) -> None:
    print("try_install:", *command, flush=True)
    done = subprocess.run(command, cwd=folder, check=False)  # noqa: S603  commands of this file
    if done.returncode:
        sys.exit(f"try_install: `{' '.join(command)}` failed with {done.returncode}")


def _time(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _say(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


if __name__ == "__main__":
    main()
