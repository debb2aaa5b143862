"""A vertical forest, as everything outside this folder sees it."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from spinney.protocols.model import ForestModel
from spinney.protocols.spec import Bound, Charges, ColumnsSpec, JobFacts, JobSize, PartySite
from spinney.protocols.training import Roles
from spinney.protocols.vertical_forest.coordinator import VerticalTraining
from spinney.protocols.vertical_forest.labels import (
    LabelAccount,
    label_spend,
    label_terms,
    noise_of,
)
from spinney.protocols.vertical_forest.leakage import LabelLeakage, measure_label_leakage
from spinney.protocols.vertical_forest.matched import ASKS, SUMMED, Party, train
from spinney.protocols.vertical_forest.matching_messages import CommonAsk
from spinney.protocols.vertical_forest.matching_party import MatchingLimit
from spinney.protocols.vertical_forest.model import join_model
from spinney.protocols.vertical_forest.predicting import (
    PREDICTION_ASKS,
    PredictingWithPart,
    predict_matched_rows,
)
from spinney.protocols.vertical_forest.seat import Seat
from spinney.protocols.vertical_forest.settings import (
    NAME,
    MatchedSettings,
    VerticalJobSettings,
    settings_of,
)
from spinney.tables.holding import Holding
from spinney.transport.channel import Channel
from spinney.typing import Progress

_MATCHING = {"psi": 8, "keyed_hash": 6, None: 0}  # rounds
_AROUND = 9  # rounds: holdings, labels, start twice, finish, leaves, scoring, claims, parts
_HEAD = 4096  # bytes of a message besides its arrays
_ID_BYTES = 160  # per row id: elliptic-curve matching, and the common tags
_CIPHERTEXT = 2 * 3072 // 8  # bytes; Paillier's are twice the modulus
_CELLS = 256


class VerticalForestSpec(ColumnsSpec[MatchedSettings]):
    """S2: a random forest over parties that hold different columns."""

    name = NAME
    settings = MatchedSettings
    job_settings = VerticalJobSettings
    asks = ASKS
    summed = SUMMED
    begins_anew_until = CommonAsk
    prediction_asks = PREDICTION_ASKS

    def settings_of(self, given: VerticalJobSettings, facts: JobFacts) -> MatchedSettings:
        """Return the settings of a job file, checked."""
        return settings_of(given, facts)

    def party(self, table: Holding, settings: MatchedSettings, site: PartySite) -> Party:
        """Return a party's side; the label party pays from its ledger for randomised labels."""
        pays = settings.privacy is not None
        account = LabelAccount(site.ledger, site.data, site.read_facts) if pays else LabelAccount()
        return Party(
            table,
            settings,
            site.name,
            folder=site.folder,
            n_jobs=site.n_jobs,
            account=account,
            seat=_seat_of(settings, site),
            limit=_limit_of(site),
        )

    def train(
        self, channel: Channel, settings: MatchedSettings, *, n_jobs: int | None, progress: Progress
    ) -> VerticalTraining:
        """Match the parties' rows and grow a forest over them."""
        return train(channel, settings, n_jobs=n_jobs, progress=progress)

    def charges(
        self, table: Holding, settings: MatchedSettings, n_parties: int, data: str
    ) -> Charges | None:
        """Return what the label party pays for randomised labels."""
        epsilon = settings.vertical.label_epsilon
        if epsilon is None or table.label is None:
            return None
        noise = noise_of(epsilon, len(table.label.classes or ()))
        terms = label_terms(settings.vertical.job, data, n_parties, noise)
        return Charges(terms, [label_spend(noise, table.n_rows)])

    def needs_ranges(self, settings: MatchedSettings) -> bool:
        """Return whether bins are laid over declared ranges."""
        return settings.vertical.forest.binning in ("ranges", "magnitudes")

    def shows(self, settings: MatchedSettings) -> str:
        """Say that with randomised labels everything else is exact."""
        return "adds noise to labels only (label_epsilon)" if settings.privacy is not None else ""

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
        rounds = _MATCHING[settings.matching] + _AROUND + depth * (3 if is_encrypted else 2)
        rounds += 1  # encrypting
        columns = max(size.n_columns, 10)
        slots = forest.n_slots(columns)
        nodes = forest.n_estimators  # open nodes per tree and level: no more than rows
        a_row = _ID_BYTES + 16 + 2 * forest.n_estimators  # ids, labels, leaf sets
        a_row += nodes * depth * (32 + 24 * slots)  # gains, offers, partitions
        if is_encrypted:
            n_planes = max(size.n_classes, 2)
            a_row += _CIPHERTEXT * n_planes
            cells = min(_CELLS, forest.max_cells + 1)
            a_row += nodes * depth * slots * (8 * cells + _CIPHERTEXT * n_planes)
        a_row *= size.n_parties  # the label party receives what the others send
        return Bound(rounds, rounds * _HEAD * size.n_parties + 64 * columns, a_row)

    def baseline(self, settings: MatchedSettings) -> tuple[str, MatchedSettings]:
        """Return the same forest for one party "all" that holds everything, with true labels."""
        forest = replace(settings.vertical, labels="shared", label_epsilon=None, job="")
        one: dict[str, Any] = {"label_party": "all", "matching": None, "held_out": 0.0}
        return NAME, replace(settings, vertical=forest, **one)

    def is_pooled(self, settings: MatchedSettings) -> bool:
        """Return whether the labels are the true ones."""
        return settings.privacy is None

    def small(self, settings: MatchedSettings) -> MatchedSettings:
        """Return a tree of two levels."""
        forest = replace(settings.vertical.forest, n_estimators=1, max_depth=2)
        return replace(settings, vertical=replace(settings.vertical, forest=forest))

    def described(self, settings: MatchedSettings) -> dict[str, Any]:
        """Return the forest's and the job's settings together."""
        shown = {**asdict(settings.vertical.forest), **settings.described()}
        return shown | {"privacy": settings.vertical.label_epsilon}

    # --- vertical protocols only -----------------------------------------------------------------

    def label_party(self, settings: MatchedSettings) -> str:
        """Return who holds the labels."""
        return settings.label_party

    def join(self, sides: Mapping[str, Party]) -> ForestModel:
        """Return the forest joined from all parts, without consent: only in a simulation."""
        parts = {name: side.finished_model for name, side in sides.items()}
        return join_model(parts, tuple(parts))

    def predicting_party(
        self, held: Holding, settings: MatchedSettings, trained: Path, site: PartySite
    ) -> PredictingWithPart:
        """Return a party that matches its present rows and passes them through its part."""
        seat = _seat_of(settings, site)
        assert seat is not None  # a deployed party has an identity
        assert site.folder is not None
        assert settings.matching is not None
        return PredictingWithPart(
            held,
            trained,
            site.folder,
            seat=seat,
            way=settings.matching,
            intersect_at=settings.vertical.intersect_at,
            limit=_limit_of(site),
            n_jobs=site.n_jobs,
        )

    def predict(
        self, channel: Channel, settings: MatchedSettings, roles: Roles, *, n_jobs: int | None
    ) -> int:
        """Match the parties' present rows and predict them."""
        assert settings.matching is not None  # a deployed job always matches
        return predict_matched_rows(channel, roles, settings.matching, n_jobs=n_jobs)

    def label_leakage(self, side: Party) -> LabelLeakage:
        """Return how many labels node membership reveals, as the label party measures it."""
        return measure_label_leakage(side.forest)


def _seat_of(settings: MatchedSettings, site: PartySite) -> Seat | None:
    """Return the party's seat in the run; None if it has no identity."""
    if site.identity is None:
        return None
    return Seat(site.name, site.run, site.parties, settings.label_party, site.identity)


def _limit_of(site: PartySite) -> MatchingLimit:
    return MatchingLimit(site.max_match_ids, site.ledger, site.data)


SPEC = VerticalForestSpec()
