"""Prediction as a job, for a forest in parts: all parties must take part.

The parties match the rows of their present tables and pass them through their parts of the forest.
The label party writes the predictions, each with its row's id, into its records. The coordinator
sees predictions in an order that does not reveal which row is which.
"""

import csv
from io import StringIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from spinney.errors import ProtocolError, SettingError, TableError
from spinney.files import write_whole
from spinney.protocols.columns import matching_messages
from spinney.protocols.columns.matching import match
from spinney.protocols.columns.matching_party import MatchingLimit, MatchingParty
from spinney.protocols.columns.model import PART, PartialModel
from spinney.protocols.columns.notebook import Notebook
from spinney.protocols.columns.prediction import (
    LeavesAsk,
    PredictingParty,
    ValuesAsk,
    predict_rows,
    require_signed_sets,
    signed_sets,
)
from spinney.protocols.columns.seat import Seat
from spinney.protocols.training import Roles
from spinney.tables.holding import Holding
from spinney.transport import codec
from spinney.transport.channel import Ask, Channel
from spinney.typing import Floats

PREDICTION_ASKS: tuple[type[Ask[Any]], ...] = (*matching_messages.ASKS, LeavesAsk, ValuesAsk)
PREDICTIONS: Final = "predictions.csv"


class PredictingWithPart:
    """A party that predicts with its part of a forest.

    Parameters
    ----------
    held
        Its present table, with ids.
    trained
        Its records of the run that trained the forest.
    folder
        The folder to which the label party writes predictions, and in which it keeps what it
        answers only once.
    seat, way
        Its seat in the run, and how rows are matched.
    intersect_at
        Who intersects leaf sets: "label_party" or "coordinator".
    limit
        How many ids it answers for in the matching, and the ledger that records them.
    """

    def __init__(
        self,
        held: Holding,
        trained: Path,
        folder: Path,
        *,
        seat: Seat,
        way: str,
        intersect_at: str,
        limit: MatchingLimit,
        n_jobs: int | None = None,
    ) -> None:
        if held.ids is None:
            raise TableError("The table names no row_id, which matching rows needs.")
        path = trained / PART
        if not path.is_file():
            raise SettingError("This party has no part of the forest of that run. Train it first.")
        self._held, self._ids = held, held.ids
        self._part = PartialModel.load(path)
        self._folder = folder
        self._n_jobs = n_jobs
        self._intersect_at = intersect_at
        self._seat = seat
        self._notebook = Notebook(folder)
        self._matching = MatchingParty(held.ids, seat, way, notebook=self._notebook, limit=limit)

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question."""
        if type(ask) in matching_messages.ASKS:
            return self._matching.answer(ask)
        rows = self._matching.rows
        chosen = self._held.select(rows)
        side = PredictingParty(self._part, chosen.features, chosen.n_rows, n_jobs=self._n_jobs)
        if isinstance(ask, ValuesAsk):
            require_signed_sets(self._seat, ask.named, self._part.part, PREDICTIONS)
            self._require_once(ask, rows.size)
        reply = side.answer(ask)
        if isinstance(ask, LeavesAsk):
            return signed_sets(self._seat, reply.sets, PREDICTIONS)
        if isinstance(ask, ValuesAsk):
            self._write([self._ids[row] for row in rows.tolist()], reply.values)
        return reply

    def _require_once(self, ask: ValuesAsk, n_rows: int) -> None:
        """Raise unless leaves are of the matched rows, and found as the job says; once in a run.

        Whoever may name leaves as it likes reads the values of all of them.
        """
        named = ask.named
        given = named.ownership is None
        if given == (self._intersect_at == "label_party"):
            raise ProtocolError("The question's leaves are not found where the job says.")
        if given and named.leaves.shape[1:] != (n_rows,):
            raise ProtocolError("The question names leaves of other rows than were matched.")
        self._notebook.settle(PREDICTIONS, "values", codec.encode(ask))

    def _write(self, ids: list[Any], values: Floats) -> None:
        label = self._part.label
        names = [str(name) for name in (label.classes if label else None) or ("prediction",)]
        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["id", *names])
        writer.writerows(
            [identity, *row] for identity, row in zip(ids, values.tolist(), strict=True)
        )
        write_whole(self._folder / PREDICTIONS, text.getvalue().encode())


def predict_matched_rows(channel: Channel, roles: Roles, way: str, *, n_jobs: int | None) -> int:
    """Let the parties match their rows and predict them; return the number of rows."""
    match(channel, way, lead=roles.label_party)
    values = predict_rows(roles, channel, n_jobs=n_jobs)
    assert np.isfinite(values).all()
    return len(values)
