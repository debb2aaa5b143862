"""A process that is told to stop does, whichever of its threads the system tells."""

import subprocess
import sys

TOLD = """
import signal
from threading import Thread, get_ident
from time import sleep
from spinney.deployment.process import until_stopped, wait_for

def tell():
    sleep(0.2)  # the first thread waits by then
    signal.pthread_kill(get_ident(), signal.SIGTERM)

stopped = until_stopped()
Thread(target=tell, daemon=True).start()
wait_for(stopped)
print("stopped")
"""


def test_a_signal_that_another_thread_takes_stops_a_party_or_a_coordinator():
    """GRPC's threads block no signals; Python handles one only when its first thread wakes."""
    told = subprocess.run(
        [sys.executable, "-c", TOLD], capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout == "stopped\n"
