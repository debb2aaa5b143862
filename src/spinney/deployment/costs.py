"""What a job will cost, said before it starts: rounds, bytes, time. Bounds, not promises."""

from typing import Any

import msgspec

from spinney.deployment.job import Agreed
from spinney.deployment.party.policy import epsilon_of
from spinney.transport.flare.jobs import JOB_LIMIT

_SETUP_ROUNDS = 7  # schemas, facts, three of edges, quality, the finished model


_UNKNOWN_DEPTH = 20


_SECONDS_A_ROUND = 0.2


_SECONDS_TO_START = 20.0


_BYTES_A_SECOND = 10e6


_BITS_A_COUNT = 4


class Cost(msgspec.Struct, frozen=True):
    """What a job may cost each party."""

    epsilon: str  # "none added" where the job is not private
    rounds: int
    bytes: int
    seconds: float


def cost_of(job: Agreed) -> Cost:
    """Return a job's cost, from its settings alone."""
    settings = job.protocol_settings()
    depth = getattr(settings, "max_depth", None) or _UNKNOWN_DEPTH
    rounds = depth + _SETUP_ROUNDS
    if job.is_masked:
        rounds = 2 * rounds + 2 * (1 + rounds // 32) + 2
    size = _bytes(job, settings, depth)
    seconds = _SECONDS_TO_START + rounds * _SECONDS_A_ROUND + size / _BYTES_A_SECOND
    epsilon = epsilon_of(settings)
    return Cost("no noise" if epsilon is None else f"{float(epsilon):g}", rounds, size, seconds)


def _bytes(job: Agreed, settings: Any, depth: int) -> int:
    """Return how many bytes of counts a party sends at most, were every node split."""
    trees = getattr(settings, "n_estimators", 1)
    columns = len(job.schema.columns or ()) or 10
    slots = int(settings.n_slots(columns)) if hasattr(settings, "n_slots") else columns
    cells = int(min(getattr(settings, "max_cells", 33), getattr(settings, "max_bins", 256)))
    counts = slots * cells * max(1, len(job.schema.classes or ()) or 4)
    nodes = int(trees) * (2 ** min(depth, 12) - 1)
    bits = 8 * 4 if job.is_masked else _BITS_A_COUNT
    return int(nodes * counts * bits // 8) + JOB_LIMIT
