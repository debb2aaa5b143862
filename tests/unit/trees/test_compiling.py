"""Compiled code is cached, but not used once any of its source files has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import spinney
from spinney.trees._kernels import compiling, hashing, level, rows

SCRIPT = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from spinney.trees._kernels import level
keys = np.empty(2, np.uint64)
level.child_keys(np.array([7], np.uint64), keys)
hits = sum(level.child_keys.stats.cache_hits.values())
print(int(keys[0]), hits)
"""


def child_key(folder):
    """Return a key from a new process, and how much of the code came from the cache."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    found = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    key, hits = found.stdout.split()
    return int(key), int(hits)


@pytest.fixture
def package(tmp_path):
    """A copy of the package, with no compiled code."""
    source = Path(spinney.__file__).parent
    shutil.copytree(source, tmp_path / "spinney", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_a_constant_of_another_file_is_not_taken_from_stale_code(package):
    """`level.child_keys` has the hash of `hashing` compiled into it."""
    first, hits = child_key(package)
    assert hits == 0
    assert child_key(package) == (first, 1)
    changed = package / "spinney" / "trees" / "_kernels" / "hashing.py"
    text = changed.read_text()
    assert text.count("0x9E3779B97F4A7C15") == 1
    changed.write_text(text.replace("0x9E3779B97F4A7C15", "0x9E3779B97F4A7C17"))
    second, hits = child_key(package)
    assert hits == 0
    assert second != first


@pytest.mark.parametrize("kernel", [hashing.bootstrap_weights, level.draw_slots, rows.partition])
def test_every_kernel_s_code_is_stamped_with_all_files(kernel):
    if not hasattr(kernel, "_cache"):
        pytest.skip("kernels are not compiled in this run")
    assert kernel._cache._cache_file._source_stamp == compiling._digest_of_all_kernels()
