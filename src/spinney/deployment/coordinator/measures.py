"""What is measured of a running coordinator."""

from collections import Counter
from time import time

from spinney.deployment.coordinator.config import CoordinatorFile
from spinney.deployment.coordinator.runs import OVER, PAUSED, QUEUED, RUNNING, WAITING, run_folders
from spinney.deployment.expiry import authority_of, days_left
from spinney.deployment.metrics import Measuring, Reading, measures_of
from spinney.deployment.standing import StandingFile
from spinney.transport.remote import kits

STATES = (QUEUED, RUNNING, WAITING, PAUSED, *OVER)


def coordinator_measures(file: CoordinatorFile, standing: StandingFile) -> Measuring:
    """Return a function that measures a coordinator."""
    own = kits.certificate_in(file.kit, "server", "spinney coordinator init").not_valid_after_utc
    authority = authority_of(file.kit).not_valid_after_utc

    def measure() -> list[Reading]:
        now = standing.now
        days = {"own": days_left(own), "authority": days_left(authority)}
        since = {name: time() - at for name, at in now.heard.items()}
        states = {state: float(number) for state, number in runs_by_state(file).items()}
        return [
            *measures_of(now, file.runs, days),
            Reading("parties_connected", "How many parties are connected.", len(now.heard)),
            Reading("last_contact_seconds", "Since a party was heard.", since, "party"),
            Reading("runs", "Runs by state.", states, "state"),
        ]

    return measure


def runs_by_state(file: CoordinatorFile) -> dict[str, int]:
    """Return how many runs are in each state."""
    found = (folder.status() for folder in run_folders(file.runs))
    count = Counter(status.state for status in found if status is not None)
    return {state: count[state] for state in STATES}
