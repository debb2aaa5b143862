"""The kernels are plain Python too: uncompiled, every index is checked and the tests still pass."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_kernels_pass_their_tests_uncompiled():
    here = Path(__file__).parent
    quiet = []  # words wrap around and an empty side has no score, as they should
    for warning in ("overflow encountered", "invalid value encountered", "divide by zero"):
        quiet += ["-W", f"ignore:{warning}:RuntimeWarning"]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *quiet, str(here)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=here.parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout[-3000:]
