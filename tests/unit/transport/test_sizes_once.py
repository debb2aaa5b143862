"""Parts that every question of a job repeats are measured once."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from spinney.transport import codec


@dataclass(frozen=True)
class Job:
    name: str
    edges: tuple[Any, ...]


@dataclass(frozen=True)
class LevelAsk:
    job: Job
    level: int


def test_a_job_of_many_columns_is_measured_once_for_all_questions():
    job = Job("wide", tuple(np.zeros(i % 300, np.float32) for i in range(70_000)))
    first = LevelAsk(job, 1)
    assert codec.encoded_size(first) == len(codec.encode(first))
    kept = dict(job.__dict__)
    second = LevelAsk(job, 70_000)
    assert codec.encoded_size(second) == len(codec.encode(second))
    assert job.__dict__ == kept
    assert job == Job("wide", job.edges)
    few = LevelAsk(Job("few", job.edges[:3]), 2)
    assert codec.encoded_size(few) == len(codec.encode(few))
