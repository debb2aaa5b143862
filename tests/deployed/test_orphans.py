"""A job's process must not outlive the engine's main process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

CHILD = """
import time
from spinney.transport.flare.engine import end_with_parent
end_with_parent()
print("watching", flush=True)
time.sleep(600)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_a_process_ends_with_its_parent_however_that_ended():
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"watching\n"
        (child,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        assert is_alive(child)
        os.kill(parent.pid, signal.SIGKILL)
        assert parent.stdout.read() == b""  # ends when the child has closed its end, too
    until = time.monotonic() + 60  # only ends a hang
    while is_alive(child):
        assert time.monotonic() < until
        time.sleep(0.05)


def is_alive(pid):
    """Tell whether a process runs: neither gone nor dead and not yet buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
