"""What a user is told when the installation is not as it should be."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import spinney
from spinney.errors import MissingExtraError

PACKAGE = Path(spinney.__file__).parent
ROOT = Path(__file__).parents[2]


def ran(folder, code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_another_package_in_the_same_folder_is_named_in_one_sentence(tmp_path):
    (tmp_path / "spinney").mkdir()
    for name in ("__init__.py", "version.py"):
        shutil.copy(PACKAGE / name, tmp_path / "spinney")
    assert ran(tmp_path, "import spinney").stderr == ""
    (tmp_path / "spinney" / "__about__.py").write_text("")  # as physics' Spinney 0.9a2 has
    told = ran(tmp_path, "import spinney")
    assert told.returncode == 0
    assert (
        "The files of another package, 'Spinney', lie in the folder of Spinney: run "
        "`pip uninstall spinney spinney-trees`, then `pip install spinney-trees`."
    ) in told.stderr


NOWHERE = """
import errno, sys
from numba.core import caching
def refuse(self):
    raise OSError(errno.EROFS, "Read-only file system")
caching._CacheLocator.ensure_cache_path = refuse
import numpy as np
from spinney.trees._kernels import hashing, compiling
print(compiling.cache_folder(), compiling._FLAGS["cache"])
"""


def test_where_nothing_can_be_written_kernels_compile_and_the_remedy_is_named(tmp_path):
    """As in a container with a read-only root, for a user without a home."""
    told = ran(PACKAGE.parent, NOWHERE, HOME="/nonexistent")
    assert told.stdout == "None False\n"
    assert "Set NUMBA_CACHE_DIR to a folder of your own." in told.stderr


def test_a_missing_extra_is_named_with_its_command():
    error = MissingExtraError("gmpy2", "he", "labels='encrypted'")
    assert str(error) == (
        "labels='encrypted' needs the package 'gmpy2': pip install 'spinney-trees[he]'."
    )


OLD = """#!/bin/sh
exec {python} -c 'import sys; sys.version_info = (3, 10); exec(sys.argv[1])' "$2"
"""


def made(folder, python):
    return subprocess.run(
        ["make", "-C", str(ROOT), "demo", f"VENV={folder}/venv", f"PYTHON={python}"],
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_old_python_is_refused_before_anything_is_made(tmp_path):
    old = tmp_path / "python3.10"
    old.write_text(OLD.format(python=sys.executable))
    old.chmod(0o755)
    told = made(tmp_path, old)
    assert told.returncode
    assert "Spinney needs Python 3.11 or newer. Name one: make demo PYTHON=" in told.stderr
    assert not (tmp_path / "venv").exists()


def test_an_interrupted_installation_is_made_again(tmp_path):
    """The mark that all is installed comes last: `make` goes on where it was stopped."""
    (tmp_path / "venv").mkdir()
    fails = tmp_path / "python3"
    fails.write_text("#!/bin/sh\necho asked $2 >> $(dirname $0)/asked; test $1 = -c\n")
    fails.chmod(0o755)
    for _ in range(2):
        assert made(tmp_path, fails).returncode
        assert not (tmp_path / "venv" / ".demo").exists()
    assert (tmp_path / "asked").read_text().count("asked venv") == 2
