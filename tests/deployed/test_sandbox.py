"""The cage of a party's process: even code that runs in it reaches only the party's own things."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from deployed.handmade import coordinator_in, write_party  # type: ignore[import-not-found]
from spinney.deployment import sandbox
from spinney.jobs import secrets
from spinney.trees.linear_hash import hash_keys, linear_hash, n_hash_keys

pytestmark = pytest.mark.skipif(not sandbox.version(), reason="this system has no Landlock")
SOURCE = Path(__file__).parents[2] / "src"


TRIES = """
import json, os, socket, subprocess, sys, tempfile
from pathlib import Path
from spinney.deployment import process, sandbox
from spinney.deployment.party.config import load_party
from spinney.jobs.tables import source_of

def tried(what):
    try:
        return str(what())
    except PermissionError as error:
        return "denied"

party, others, port = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
file = load_party(party)
from spinney.deployment.party.tables import open_ledger
open_ledger(file).close()
cage = process._party_cage(party, file, port)
sandbox.confine(cage)
tempfile.tempdir = str(file.records / "tmp")
home = party.parent
kernels = Path(process.__file__).parents[1] / "trees" / "_kernels"
print(json.dumps({
    "table": tried(lambda: len(source_of(file.table, file.folder).stream().names()) > 3),
    "records": tried(lambda: (home / "records" / "x").write_text("1")),
    "temporary": tried(lambda: tempfile.TemporaryFile().write(b"1")),
    "party file": tried(lambda: len(party.read_text()) > 0),
    "another party's table": tried(lambda: (others / "table.csv").read_text()),
    "the authority's key": tried(lambda: (others / "rootCA.key").read_bytes()),
    "passwords": tried(lambda: Path("/etc/shadow").read_bytes()),
    "environment": tried(lambda: Path("/proc/self/environ").read_bytes()),
    "shared memory": tried(lambda: Path("/dev/shm/spinney-test").write_text("1")),
    "another process": tried(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()),
    "writing elsewhere": tried(lambda: (others / "x").write_text("1")),
    "deleting elsewhere": tried(lambda: (others / "table.csv").unlink()),
    "others' compiled code": tried(lambda: (kernels / "__pycache__" / "x.nbi").write_text("")),
    "writing code": tried(lambda: Path(process.__file__).write_text("")),
    "a program": tried(lambda: subprocess.run(["/bin/ls"])),
    "a port of its own": tried(lambda: socket.socket().bind(("127.0.0.1", 0))),
    "another machine": tried(lambda: socket.create_connection(("127.0.0.1", port + 1), 2)),
    "the party's file, to write": tried(lambda: party.write_text("")),
    "a neighbour's new file": tried(lambda: (home / "sitecustomize.py").write_text("")),
    "the ledger": tried(lambda: open_ledger(file).close()),
    "a signal": tried(lambda: os.kill(os.getppid(), 0)),
}))
"""


WORK = ("table", "the ledger", "records", "temporary", "party file")


def test_code_in_a_party_s_process_reaches_its_own_things_only(tmp_path):
    table = tmp_path / "data" / "visits.csv"
    table.parent.mkdir()
    table.write_text("visit,age,stay,smokes,readmitted\na,1,2,yes,no\nb,3,4,no,yes\n")
    party = write_party(tmp_path, "north", table=f'source = "csv"\npath = "{table}"')
    others = tmp_path / "others"
    others.mkdir()
    (others / "table.csv").write_text("secret")
    (others / "rootCA.key").write_text("secret")
    done = subprocess.run(
        [sys.executable, "-c", TRIES, str(party), str(others), "18002"],
        env=os.environ | {"PYTHONPATH": str(SOURCE), "DB_URL": "postgresql://x:y@z/w"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    denied = {what for what, said in found.items() if said == "denied"}
    assert {name: found[name] for name in WORK} == {
        "table": "True",
        "the ledger": "None",
        "records": "1",
        "temporary": "1",
        "party file": "True",
    }
    ports = {"a port of its own", "another machine"} if sandbox.version() >= 4 else set()
    by_version = {"a port of its own", "another machine", "a signal"}
    assert denied - by_version == {
        "the party's file, to write",
        "a neighbour's new file",
        "another party's table",
        "the authority's key",
        "passwords",
        "environment",
        "shared memory",
        "another process",
        "writing elsewhere",
        "deleting elsewhere",
        "writing code",
        "others' compiled code",
        "a program",
    }
    assert ports <= denied
    assert "a signal" in denied or sandbox.version() < 6
    assert (others / "table.csv").read_text() == "secret"


def test_the_coordinator_s_process_cannot_read_the_authority_s_key(tmp_path):
    coordinator_in(tmp_path)
    for name in ("ca", "kit", "runs", "members"):
        (tmp_path / name).mkdir()
    (tmp_path / "ca" / "rootCA.key").write_text("secret")
    tries = (
        "import sys; from pathlib import Path; from spinney.deployment import process, sandbox\n"
        "from spinney.deployment.coordinator.config import load_coordinator\n"
        "home = Path(sys.argv[1]); path = home / 'coordinator.toml'\n"
        "sandbox.confine(process._coordinator_cage(path, load_coordinator(path)))\n"
        "(home / 'runs' / 'x').write_text('1')\n"
        "try:\n    (home / 'ca' / 'rootCA.key').read_text()\n"
        "except PermissionError:\n    print('denied')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", tries, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "denied\n", done.stderr


def test_a_process_in_a_cage_loads_and_keeps_compiled_code_in_its_own_folder(tmp_path):
    """Numba unpickles its cache: what an attacked process wrote must not run outside its cage."""
    one = [np.ones(3, np.uint32)]
    words = np.ones(n_hash_keys(one), np.uint64)
    assert linear_hash(one, hash_keys(words), 1) == (3, 3, 0, 0)  # it is compiled now
    tries = (
        "import os, sys\nfrom pathlib import Path\nfrom spinney.deployment import sandbox\n"
        "if 'SPINNEY_CAGE' not in os.environ:\n"
        "    os.execve = lambda program, arguments, environment: os_execve(program,"
        " [program, *sys.orig_argv[1:]], environment)\n"
        "    own = sys.argv[1]\n"
        "    sandbox.start_again(sandbox.Cage(write=(own,), kernels=own + '/kernels'))\n"
        "sandbox.enter_if_given()\n"
        "from spinney.trees._kernels import compiling, linear_hash\n"
        "print(compiling.cache_folder().is_relative_to(sys.argv[1]))\n"
        "before = len(list(compiling.cache_folder().glob('*.nbi')))\n"
        "import numpy as np\n"
        "from spinney.trees.linear_hash import hash_keys, linear_hash, n_hash_keys\n"
        "one = [np.ones(3, np.uint32)]\n"
        "words = np.ones(n_hash_keys(one), np.uint64)\n"
        "print(linear_hash(one, hash_keys(words), 1), before > 0)\n"
    )
    script = tmp_path / "tries.py"
    script.write_text("import os; os_execve = os.execve\n" + tries)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["True", "(3, 3, 0, 0) True"], done.stderr


def test_a_secret_is_taken_from_a_credential_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "_TAKEN", {})
    monkeypatch.setenv("DB_URL", "from the environment")
    assert secrets.secret_called("DB_URL") == "from the environment"
    (tmp_path / "DB_URL").write_text("from a credential\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert secrets.secret_called("DB_URL") == "from a credential"
    secrets.keep_secret("DB_URL", "from the cage")
    assert secrets.secret_called("DB_URL") == "from the cage"
    assert secrets.secret_called("OTHER") is None


def test_a_program_that_starts_again_is_confined_before_it_loads_anything():
    """It has one thread then, its secrets are not in its environment, and it cannot get out."""
    tries = (
        "import os, sys, threading\n"
        "from spinney.deployment import sandbox\n"
        "if os.environ.get('SPINNEY_CAGE') is None:\n"
        "    os.execve = lambda program, arguments, environment: os_execve(program,"
        " [program, '-c', open('/proc/self/cmdline').read().split(chr(0))[2]], environment)\n"
        "    sandbox.start_again(sandbox.Cage(secrets={'DB_URL': 'secret'}))\n"
        "cage = sandbox.enter_if_given()\n"
        "assert 'numpy' not in sys.modules\n"
        "def tried():\n"
        "    try:\n        open('/etc/shadow').read(); print('read')\n"
        "    except PermissionError:\n        print('denied')\n"
        "thread = threading.Thread(target=tried); thread.start(); thread.join()\n"
        "print(cage.secrets, os.environ.get('DB_URL'), 'SPINNEY_CAGE' in os.environ)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import os; os_execve = os.execve\n" + tries],
        env=os.environ | {"PYTHONPATH": str(SOURCE), "DB_URL": "secret"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["denied", "{'DB_URL': 'secret'} None False"], done.stderr
