"""A protocol of the tests' own: the parties count their labels, the model predicts the shares.

**Who learns what.** The coordinator learns each party's schema and, summed over parties, how many
rows have each class.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from spinney.errors import ProtocolError
from spinney.protocols.model import ForestModel
from spinney.protocols.rows.setup import SchemaAsk, SchemaReply, agree_on_schema
from spinney.protocols.settings import PrivacySettings
from spinney.protocols.spec import Bound, JobSettings, Spec
from spinney.protocols.training import Training
from spinney.transport.channel import Ask
from spinney.transport.messages import message
from spinney.trees.forest import Forest
from spinney.typing import Integers

NAME = "label_counts"


@dataclass(frozen=True, kw_only=True)
class ToySettings:
    task: str
    times: int = 1
    privacy: PrivacySettings | None = None


class ToyJobSettings(JobSettings, frozen=True, kw_only=True, omit_defaults=True):
    times: int | None = None
    secure_sum: bool | None = None
    honest: int | None = None
    random_state: int = 0
    n_jobs: int | None = None


@message
class LabelsCountedReply:
    counts: Integers

    def vectors(self):
        return (self.counts,)

    @classmethod
    def of_vectors(cls, vectors):
        return cls(vectors[0])


@message
class CountLabelsAsk(Ask[LabelsCountedReply]):
    """How many of your rows have each class?"""

    settings: ToySettings
    time: int
    reveals: ClassVar[str] = "counts of rows by class"
    reply_type: ClassVar[type[Any]] = LabelsCountedReply

    @property
    def step(self) -> int:
        return self.time


class ToyParty:
    def __init__(self, table):
        self.table = table

    def answer(self, ask):
        if isinstance(ask, SchemaAsk):
            return SchemaReply(self.table.schema)
        if not isinstance(ask, CountLabelsAsk):
            raise ProtocolError(f"A party in {NAME} does not answer {ask.called()}.")
        counts = np.zeros(len(self.table.schema.label.classes), np.int64)
        for batch in self.table.batches():
            counts += np.bincount(batch.target, minlength=counts.size)
        return LabelsCountedReply(counts)


def train(channel, settings, *, n_jobs=None, progress=lambda *_: None):
    del n_jobs
    schema = agree_on_schema(channel)
    for time in range(settings.times):
        progress("counting", time, settings.times)
        counts = channel.sum(CountLabelsAsk(settings, time)).counts
    none = np.zeros(1)
    forest = Forest(
        tree_start=np.array([0, 1]),
        feature=np.full(1, -1, np.int32),
        threshold=none.astype(np.float32),
        left=none.astype(np.uint32),
        missing_left=none.astype(np.bool_),
        subset=np.full(1, -1, np.int32),
        bin_sets=np.zeros((0, 4), np.uint64),
        moments=counts[None],
        gain=none,
        value=counts[None] / counts.sum(),
    )
    bins = tuple(np.zeros(len(column.categories or ()), np.uint8) for column in schema.columns)
    model = ForestModel(NAME, schema, forest, bins)
    rounds = tuple(channel.rounds)
    return Training(model, channel.parties, rounds, {}, {}, None, asdict(settings))


class Toy(Spec[ToySettings]):
    name = NAME
    settings = ToySettings
    job_settings = ToyJobSettings
    asks = (SchemaAsk, CountLabelsAsk)
    summed = (CountLabelsAsk,)

    def settings_of(self, given, facts):
        return ToySettings(task=facts.task, times=given.times or 1)

    def party(self, table, settings, site):
        del settings, site
        return ToyParty(table)

    def train(self, channel, settings, *, n_jobs, progress):
        return train(channel, settings, n_jobs=n_jobs, progress=progress)

    def needs_ranges(self, settings):  # noqa: ARG002
        return False

    def shows(self, settings):  # noqa: ARG002
        return ""

    def smallest_leaf(self, settings):  # noqa: ARG002
        return 1_000_000

    def n_trees(self, settings):  # noqa: ARG002
        return 1

    def steps_at_most(self, settings):
        return settings.times

    def bound(self, settings, size):
        return Bound(1 + settings.times, 100_000 + settings.times * (8 * size.n_classes + 4096))

    def baseline(self, settings):
        return NAME, settings

    def is_pooled(self, settings):  # noqa: ARG002
        return True

    def small(self, settings):
        return replace(settings, times=1)


SPEC = Toy()
