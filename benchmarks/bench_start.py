"""How long it takes to start: compiling into an empty cache, loading from a full one, the CLI.

Every case is a fresh process. Run: python benchmarks/bench_start.py [--fast]
"""

import os
import pty
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from harness import arguments, foreign, interleaved, median, save, table

_SPINNEY = str(Path(sys.executable).with_name("spinney"))
_FIT = """
import numpy as np
from spinney import {name}
X = np.random.RandomState(0).standard_normal((2000, 5))
{name}(10, max_depth=5).fit(X, {y}).predict(X)
"""
_FITS = {
    "classifier": _FIT.format(name="HorizontalForestClassifier", y="X[:, 0] > 0"),
    "regressor": _FIT.format(name="HorizontalForestRegressor", y="X[:, 0]"),
}


def run(command: list[str], cache: str | None = None, folder: str | None = None) -> None:
    """Run a command to its end, with a cache of kernels of its own if one is named."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache} if cache else dict(os.environ)
    subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True)


def cold(command: list[str]) -> None:
    """Run a command with an empty cache of kernels."""
    with tempfile.TemporaryDirectory() as cache:
        run(command, cache)


def first_demo() -> dict[str, Any]:
    """Run the demo with an empty cache, on a terminal; return when it got how far."""
    marks = {"progress shown": b"\x1b", "first forest grows": b"joint forest: level"}
    with tempfile.TemporaryDirectory() as folder:
        screen, terminal = pty.openpty()
        environment = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/cache", "TERM": "xterm"}
        begin = time.perf_counter()
        running = subprocess.Popen(
            [_SPINNEY, "demo"], env=environment, cwd=folder, stdout=terminal, stderr=terminal
        )
        os.close(terminal)
        seen, found = b"", {}
        while part := _read(screen):
            seen += part
            since = time.perf_counter() - begin
            new = {name: since for name, mark in marks.items() if mark in seen}
            found = {**new, **found}
        running.wait()
        os.close(screen)
        return {**found, "end": time.perf_counter() - begin}


def _read(screen: int) -> bytes:
    """Return what a program wrote on its terminal; nothing once it has gone."""
    try:
        return os.read(screen, 4096)
    except OSError:
        return b""


def main() -> None:
    asked = arguments(__doc__, repeats=5)
    python = [sys.executable, "-c"]
    loads = {
        "nothing but Python": [*python, "pass"],
        "import numpy, sklearn.base": [*python, "import numpy, sklearn.base"],
        "import spinney": [*python, "import spinney"],
        "spinney --help": [_SPINNEY, "--help"],
        **{f"first fit, warm: {name}": [*python, code] for name, code in _FITS.items()},
    }
    cases = {name: partial(run, command) for name, command in loads.items()}
    for case in cases.values():
        case()
    samples, _ = interleaved(cases, 2 if asked.fast else asked.repeats)
    compiled, _ = interleaved(
        {
            f"first fit, cold: {name}": partial(cold, [*python, code])
            for name, code in _FITS.items()
        },
        1 if asked.fast else 2,
    )
    rows = [
        {"start": name, "seconds": median(found), "foreign": foreign(found)}
        for name, found in {**samples, **compiled}.items()
    ]
    demo, found = interleaved({"demo": first_demo}, 1)
    rows += [
        {"start": f"spinney demo, cold: {mark}", "seconds": at, "foreign": foreign(demo["demo"])}
        for mark, at in found["demo"].items()
    ]
    title = "seconds from the start of a fresh process"
    table(title, rows)
    save("start", "median over turns; the demo once", {title: rows})


if __name__ == "__main__":
    main()
