"""A vertical forest, as everything outside this folder sees it."""

from dataclasses import asdict, replace
from typing import Any

from spinney.protocols.columns.agreeing import VerticalTraining
from spinney.protocols.columns.contract import (
    CIPHERTEXT,
    HEAD,
    ID_BYTES,
    MATCHING_ROUNDS,
    MatchedSpec,
)
from spinney.protocols.spec import Bound, JobFacts, JobSize
from spinney.protocols.vertical_forest.matched import ASKS, Party, train
from spinney.protocols.vertical_forest.settings import (
    NAME,
    MatchedSettings,
    VerticalJobSettings,
    settings_of,
)
from spinney.transport.channel import Channel
from spinney.typing import Progress

_AROUND = 9  # rounds: holdings, labels, start twice, finish, leaves, scoring, claims, parts
_CELLS = 256


class VerticalForestSpec(MatchedSpec[MatchedSettings]):
    """S2: a random forest over parties that hold different columns."""

    name = NAME
    settings = MatchedSettings
    job_settings = VerticalJobSettings
    asks = ASKS
    side = Party

    def settings_of(self, given: VerticalJobSettings, facts: JobFacts) -> MatchedSettings:
        """Return the settings of a job file, checked."""
        return settings_of(given, facts)

    def train(
        self, channel: Channel, settings: MatchedSettings, *, n_jobs: int | None, progress: Progress
    ) -> VerticalTraining:
        """Match the parties' rows and grow a forest over them."""
        return train(channel, settings, n_jobs=n_jobs, progress=progress)

    def needs_ranges(self, settings: MatchedSettings) -> bool:
        """Return whether bins are laid over declared ranges."""
        return settings.vertical.forest.binning in ("ranges", "magnitudes")

    def smallest_leaf(self, settings: MatchedSettings) -> int | float:
        """Return the fewest rows of a leaf."""
        return settings.vertical.forest.min_samples_leaf

    def n_trees(self, settings: MatchedSettings) -> int:
        """Return how many trees grow."""
        return settings.vertical.forest.n_estimators

    def steps_at_most(self, settings: MatchedSettings) -> int | None:
        """Return how deep trees may grow."""
        return settings.vertical.forest.max_depth

    def bound(self, settings: MatchedSettings, size: JobSize) -> Bound:
        """Return the bound for two or three rounds per level; bytes grow with the rows."""
        forest = settings.vertical.forest
        depth = forest.max_depth
        if depth is None:
            return Bound(None, None)
        is_encrypted = settings.vertical.labels == "encrypted"
        rounds = MATCHING_ROUNDS[settings.matching] + _AROUND + depth * (3 if is_encrypted else 2)
        rounds += 1  # encrypting
        columns = max(size.n_columns, 10)
        slots = forest.n_slots(columns)
        nodes = forest.n_estimators  # open nodes per tree and level: no more than rows
        a_row = ID_BYTES + 16 + 2 * forest.n_estimators  # ids, labels, leaf sets
        a_row += nodes * depth * (32 + 24 * slots)  # gains, offers, partitions
        if is_encrypted:
            n_planes = max(size.n_classes, 2)
            a_row += CIPHERTEXT * n_planes
            cells = min(_CELLS, forest.max_cells + 1)
            a_row += nodes * depth * slots * (8 * cells + CIPHERTEXT * n_planes)
        a_row *= size.n_parties  # the label party receives what the others send
        return Bound(rounds, rounds * HEAD * size.n_parties + 64 * columns, a_row)

    def baseline(self, settings: MatchedSettings) -> tuple[str, MatchedSettings]:
        """Return the same forest for one party "all" that holds everything, with true labels."""
        forest = replace(settings.vertical, labels="shared", label_epsilon=None, job="")
        one: dict[str, Any] = {"label_party": "all", "matching": None, "held_out": 0.0}
        return NAME, replace(settings, vertical=forest, **one)

    def small(self, settings: MatchedSettings) -> MatchedSettings:
        """Return a tree of two levels."""
        forest = replace(settings.vertical.forest, n_estimators=1, max_depth=2)
        return replace(settings, vertical=replace(settings.vertical, forest=forest))

    def described(self, settings: MatchedSettings) -> dict[str, Any]:
        """Return the forest's and the job's settings together."""
        shown = {**asdict(settings.vertical.forest), **settings.described()}
        return shown | {"privacy": settings.vertical.label_epsilon}


SPEC = VerticalForestSpec()
