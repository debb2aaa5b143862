"""What the contracts of protocols over columns share, as everything outside sees them."""

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, TypeVar

from spinney.protocols.columns.labels import (
    LabelAccount,
    label_spend,
    label_terms,
    noise_of,
)
from spinney.protocols.columns.leakage import LabelLeakage, measure_label_leakage
from spinney.protocols.columns.matched import SUMMED, MatchedParty
from spinney.protocols.columns.matching_messages import CommonAsk
from spinney.protocols.columns.matching_party import MatchingLimit
from spinney.protocols.columns.model import join_model
from spinney.protocols.columns.predicting import (
    PREDICTION_ASKS,
    PredictingWithPart,
    predict_matched_rows,
)
from spinney.protocols.columns.seat import Seat
from spinney.protocols.columns.settings import MatchedRows
from spinney.protocols.model import ForestModel
from spinney.protocols.spec import Charges, ColumnsSpec, PartySite
from spinney.protocols.training import Roles
from spinney.tables.holding import Holding
from spinney.transport.channel import Channel

M = TypeVar("M", bound=MatchedRows)
MATCHING_ROUNDS = {"psi": 8, "keyed_hash": 6, None: 0}
HEAD = 4096  # bytes of a message besides its arrays
ID_BYTES = 160  # per row id: elliptic-curve matching, and the common tags
CIPHERTEXT = 2 * 3072 // 8  # bytes; Paillier's are twice the modulus


class MatchedSpec(ColumnsSpec[M]):
    """A protocol over columns, whose parties match their rows first.

    Attributes
    ----------
    side
        A party's side, from its own table to its part.
    """

    summed = SUMMED
    begins_anew_until = CommonAsk
    prediction_asks = PREDICTION_ASKS
    side: ClassVar[type[MatchedParty]]

    def party(self, table: Holding, settings: M, site: PartySite) -> MatchedParty:
        """Return a party's side; the label party pays from its ledger for randomised labels."""
        pays = settings.privacy is not None
        account = LabelAccount(site.ledger, site.data, site.read_facts) if pays else LabelAccount()
        return self.side(
            table,
            settings,
            site.name,
            folder=site.folder,
            n_jobs=site.n_jobs,
            account=account,
            seat=_seat_of(settings, site),
            limit=_limit_of(site),
        )

    def charges(self, table: Holding, settings: M, n_parties: int, data: str) -> Charges | None:
        """Return what the label party pays for randomised labels."""
        epsilon = settings.vertical.label_epsilon
        if epsilon is None or table.label is None:
            return None
        noise = noise_of(epsilon, len(table.label.classes or ()))
        terms = label_terms(settings.vertical.job, data, n_parties, noise)
        return Charges(terms, [label_spend(noise, table.n_rows)])

    def shows(self, settings: M) -> str:
        """Say that with randomised labels everything else is exact."""
        return "adds noise to labels only (label_epsilon)" if settings.privacy is not None else ""

    def is_pooled(self, settings: M) -> bool:
        """Return whether the labels are the true ones."""
        return settings.privacy is None

    # --- vertical protocols only -----------------------------------------------------------------

    def label_party(self, settings: M) -> str:
        """Return who holds the labels."""
        return settings.label_party

    def join(self, sides: Mapping[str, MatchedParty]) -> ForestModel:
        """Return the forest joined from all parts, without consent: only in a simulation."""
        parts = {name: side.finished_model for name, side in sides.items()}
        return join_model(parts, tuple(parts))

    def predicting_party(
        self, held: Holding, settings: M, trained: Path, site: PartySite
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

    def predict(self, channel: Channel, settings: M, roles: Roles, *, n_jobs: int | None) -> int:
        """Match the parties' present rows and predict them."""
        assert settings.matching is not None  # a deployed job always matches
        return predict_matched_rows(channel, roles, settings.matching, n_jobs=n_jobs)

    def label_leakage(self, side: MatchedParty) -> LabelLeakage:
        """Return how many labels node membership reveals, as the label party measures it."""
        return measure_label_leakage(side.forest)


def _seat_of(settings: MatchedRows, site: PartySite) -> Seat | None:
    """Return the party's seat in the run; None if it has no identity."""
    if site.identity is None:
        return None
    return Seat(site.name, site.run, site.parties, settings.label_party, site.identity)


def _limit_of(site: PartySite) -> MatchingLimit:
    return MatchingLimit(site.max_match_ids, site.ledger, site.data)
