"""Boosting over columns, as everything outside this folder sees it."""

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
from spinney.protocols.vertical_boosting.matched import ASKS, Party, train
from spinney.protocols.vertical_boosting.settings import (
    NAME,
    MatchedSettings,
    VerticalBoostingJobSettings,
    settings_of,
)
from spinney.transport.channel import Channel
from spinney.trees.dtypes import MAX_BINS
from spinney.typing import Progress

_AROUND = 8  # rounds: holdings, labels, start twice, finish, scoring, claims, parts


class VerticalBoostingSpec(MatchedSpec[MatchedSettings]):
    """Gradient boosting over parties that hold different columns."""

    name = NAME
    settings = MatchedSettings
    job_settings = VerticalBoostingJobSettings
    asks = ASKS
    side = Party

    def settings_of(self, given: VerticalBoostingJobSettings, facts: JobFacts) -> MatchedSettings:
        """Return the settings of a job file, checked."""
        return settings_of(given, facts)

    def train(
        self, channel: Channel, settings: MatchedSettings, *, n_jobs: int | None, progress: Progress
    ) -> VerticalTraining:
        """Match the parties' rows and boost trees over them."""
        return train(channel, settings, n_jobs=n_jobs, progress=progress)

    def needs_ranges(self, settings: MatchedSettings) -> bool:
        """Return whether bins are laid over declared ranges."""
        return settings.vertical.boosting.binning == "ranges"

    def smallest_leaf(self, settings: MatchedSettings) -> int | float:
        """Return the fewest rows of a leaf."""
        return settings.vertical.boosting.min_samples_leaf

    def n_trees(self, settings: MatchedSettings) -> int:
        """Return how many trees grow for an output."""
        return settings.vertical.boosting.max_iter

    def steps_at_most(self, settings: MatchedSettings) -> int | None:
        """Return the levels of all batches."""
        boosting = settings.vertical.boosting
        return boosting.n_batches * boosting.max_depth

    def bound(self, settings: MatchedSettings, size: JobSize) -> Bound:
        """Return the bound for two or three rounds per level; bytes grow with the rows."""
        boosting = settings.vertical.boosting
        is_encrypted = settings.vertical.labels == "encrypted"
        a_level = 3 if is_encrypted else 2
        rounds = MATCHING_ROUNDS[settings.matching] + _AROUND
        rounds += boosting.n_batches * (a_level * boosting.max_depth + 1)
        trees = boosting.max_iter * (size.n_classes if size.n_classes > 2 else 1)
        columns = max(size.n_columns, 10)
        a_row = ID_BYTES + 16 + 2 * trees  # ids, labels, leaf sets
        a_row += trees * boosting.max_depth * (32 + 24 * columns)  # offers, gains, partitions
        if is_encrypted:
            cells = min(MAX_BINS, boosting.max_cells + 1)
            a_row += trees * CIPHERTEXT * 2  # gradients, and a party that starts again
            a_row += trees * boosting.max_depth * columns * (8 * cells + CIPHERTEXT)
        a_row *= size.n_parties  # the label party receives what the others send
        return Bound(rounds, rounds * HEAD * size.n_parties + 64 * columns, a_row)

    def baseline(self, settings: MatchedSettings) -> tuple[str, MatchedSettings]:
        """Return the same trees for one party "all" that holds everything, with true labels."""
        plain = replace(settings.vertical, labels="shared", label_epsilon=None, job="")
        one: dict[str, Any] = {"label_party": "all", "matching": None, "held_out": 0.0}
        return NAME, replace(settings, vertical=plain, **one)

    def small(self, settings: MatchedSettings) -> MatchedSettings:
        """Return one tree of two levels."""
        boosting = replace(settings.vertical.boosting, max_iter=1, batch_trees=1, max_depth=2)
        return replace(settings, vertical=replace(settings.vertical, boosting=boosting))

    def described(self, settings: MatchedSettings) -> dict[str, Any]:
        """Return the trees' and the job's settings together."""
        shown = {**asdict(settings.vertical.boosting), **settings.described()}
        return shown | {"privacy": settings.vertical.label_epsilon}


SPEC = VerticalBoostingSpec()
