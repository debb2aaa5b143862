"""Trees over columns from the parties' own tables: rows are matched, then the trees grow.

`columns.matching` finds the rows that all parties share, and a protocol grows its trees over them.
This module combines both in one job that several organisations agree to. It also holds out some
rows for scoring, and a party answers only for the job it agreed to.

**Who learns what.** First as in `columns.matching`, then as in the protocol; with encrypted labels
as in `columns.encrypted_coordinator`. Leaf sets, for scoring, and joined parts are as in
`columns.prediction`, claims as in `accounts.account`. A job that all parties see contains its
`random_state`: anyone who knows it can derive, by number, which columns were drawn. With
`join_parts` the coordinator gets every party's part, and so the whole model; a party that agrees to
such a job consents to this.
**Who never learns what.** As in those modules. About labels a party answers only what the job's
`labels` and `label_epsilon` allow, and it keeps to the common rows that it received first. What
must come from a certain party is signed by it for this run (`columns.seat`).

The common order is secret and drawn again for every run, and so are a forest's samples: two runs of
one job differ as two seeds do. Without a bootstrap and held-out rows two forests are the same.
Boosted trees draw rows by their ids, which all parties that share them know: without held-out rows
two runs give the same trees.

**Rounds and bytes.** The sum of both; one more with `join_parts`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from spinney.errors import ProtocolError, SchemaError, TableError
from spinney.privacy.matching import Ids
from spinney.protocols.columns import matching_messages
from spinney.protocols.columns.agreeing import VerticalTraining
from spinney.protocols.columns.labels import LabelAccount
from spinney.protocols.columns.matching import match
from spinney.protocols.columns.matching_messages import CommonAsk
from spinney.protocols.columns.matching_party import NOTES, MatchingLimit, MatchingParty
from spinney.protocols.columns.messages import FinishAsk
from spinney.protocols.columns.model import PART, PartialModel
from spinney.protocols.columns.notebook import RUN, Notebook
from spinney.protocols.columns.party import ColumnsParty
from spinney.protocols.columns.prediction import JudgeAsk, PartAsk, PartReply, join_parts
from spinney.protocols.columns.seat import Seat
from spinney.protocols.columns.settings import MatchedRows
from spinney.protocols.training import Phases
from spinney.seeds import mix
from spinney.tables.holding import Holding
from spinney.transport.channel import Ask, Channel
from spinney.typing import Integers, Progress

_ROWS = "rows"
_NOTHING = LabelAccount()
_NO_LEDGER = MatchingLimit()
SUMMED: tuple[type[Ask[Any]], ...] = ()  # parties hold different columns: nothing is summed
Term = tuple[str, object, object]  # its name, what is asked, what was agreed


def matched_asks(asks: tuple[type[Ask[Any]], ...]) -> tuple[type[Ask[Any]], ...]:
    """Return every question of a job that begins with matching."""
    return (*matching_messages.ASKS, *asks, PartAsk)


class MatchedParty(ABC):
    """One organisation's side, from its own table to its part of the forest.

    Parameters
    ----------
    holding
        Its whole table, with ids if rows are to be matched.
    settings
        The job that it agreed to.
    name
        The party's name in the job.
    folder
        Where it keeps what a job must not lose: its cuts, its rows' common order, its part of the
        forest, and at the label party the key. None: in memory only.
    account
        The account from which the label party pays in a job with `label_epsilon`; others need none.
    seat
        Its seat in the run; None: there is one process, and rows are not matched.
    limit
        How many ids it answers for in the matching, and the ledger that records them.
    """

    def __init__(
        self,
        holding: Holding,
        settings: MatchedRows,
        name: str,
        *,
        folder: Path | None = None,
        n_jobs: int | None = None,
        account: LabelAccount = _NOTHING,
        seat: Seat | None = None,
        limit: MatchingLimit = _NO_LEDGER,
    ) -> None:
        _require_label(holding, settings, name)
        self._holding = holding
        self._settings = settings
        self._folder = folder
        self._n_jobs = n_jobs
        self._account = account if holding.label is not None else _NOTHING
        self._seat = seat
        self._limit = limit
        self._notebook = Notebook(folder)
        self._matching: MatchingParty | None = None
        self._rows = self._known_rows()
        self._forest: ColumnsParty | None = None

    def answer(self, ask: Ask[Any]) -> Any:
        """Answer a question of the job."""
        if isinstance(ask, CommonAsk):
            return self._settled(ask)
        if type(ask) in matching_messages.ASKS:
            return self._matched().answer(ask)
        self._require_agreed(ask)
        if isinstance(ask, PartAsk):
            return PartReply(self.finished_model.to_bytes())
        reply = self.forest.answer(ask)
        if isinstance(ask, FinishAsk) and not reply.is_behind and self._folder is not None:
            self.finished_model.save(self._folder / PART)
        return reply

    kind: ClassVar[type[ColumnsParty]]  # the side that grows the trees

    @abstractmethod
    def _own_terms(self, ask: Any) -> list[Term]:
        """Return what a question that states the job says besides labels, and what was agreed."""

    @property
    def forest(self) -> ColumnsParty:
        """The side that grows the trees, over the common rows that are not held out."""
        if self._forest is None:
            key = self._notebook.note(NOTES, "key")
            goes_on_unsigned = key is None and self._settings.matching is not None  # from 0.1.0
            self._forest = self.kind(
                self.training,
                notebook=self._folder,
                n_jobs=self._n_jobs,
                account=self._account_of_rows(),
                seat=None if goes_on_unsigned else self._seat,
                group_key=key,
            )
        return self._forest

    def _account_of_rows(self) -> LabelAccount:
        """Return the account, with the ids that find randomised labels again."""
        ids = self._holding.ids
        if self._account.ledger is None or ids is None:
            return self._account
        return replace(self._account, rows=tuple(repr(ids[row]) for row in self._trained_rows))

    @property
    def training(self) -> Holding:
        """The party's data for the rows that are trained on."""
        rows, ids = self._trained_rows, self._holding.ids
        chosen = self._holding.select(rows)
        if ids is None or not self.kind.draws_by_id:
            return chosen
        # All parties know the ids of the rows that they share: the order, which is drawn anew for
        # every run, then decides nothing.
        return replace(chosen, own_keys=mix(Ids([ids[row] for row in rows.tolist()]).hashes()))

    @property
    def _trained_rows(self) -> Integers:
        return self.rows[~self._settings.is_held_out(self.rows.size)]

    @property
    def held_out(self) -> Holding:
        """The party's data for the held-out rows."""
        return self._holding.select(self.rows[self._settings.is_held_out(self.rows.size)])

    @property
    def rows(self) -> Integers:
        """The party's rows that all parties share, in the common order."""
        if self._rows is None:
            raise ProtocolError("The rows of this party have not been matched.")
        return self._rows

    @property
    def finished_model(self) -> PartialModel:
        """The party's part of the finished forest."""
        return self.forest.finished_model

    def _known_rows(self) -> Integers | None:
        if self._settings.matching is None:
            return np.arange(self._holding.n_rows)
        note = self._notebook.note(RUN, _ROWS)
        return None if note is None else np.frombuffer(note, np.int64)

    def _matched(self) -> MatchingParty:
        if self._settings.matching is None:
            raise ProtocolError("The job does not match rows.")
        if self._matching is None:
            if self._holding.ids is None:
                raise TableError("The table names no row id, which matching needs.")
            if self._seat is None:
                raise ProtocolError("This party has no seat in the run, which matching needs.")
            self._matching = MatchingParty(
                self._holding.ids,
                self._seat,
                self._settings.matching,
                notebook=self._notebook,
                limit=self._limit,
            )
        return self._matching

    def _settled(self, ask: CommonAsk) -> Any:
        """Accept the common rows once; different ones would be another job."""
        side = self._matched()
        reply = side.answer(ask)
        if self._rows is not None and not np.array_equal(self._rows, side.rows):
            raise ProtocolError(
                "This party already received different common rows. Nothing was released."
            )
        self._rows = side.rows
        self._notebook.keep_note(RUN, _ROWS, side.rows.astype(np.int64).tobytes())
        return reply

    def _require_agreed(self, ask: Ask[Any]) -> None:
        """Raise if a question is not about the job that this party agreed to."""
        agreed = self._settings.vertical
        if isinstance(ask, PartAsk) and not self._settings.join_parts:
            raise _outside("join_parts")
        terms: list[Term] = []
        if isinstance(ask, JudgeAsk):
            place = "label_party" if ask.named.ownership is not None else "coordinator"
            terms += [("intersect_at", place, agreed.intersect_at)]
        if isinstance(ask, self.kind.states_job):
            stated: Any = ask
            job = stated.job
            terms += [
                *self._own_terms(ask),
                ("labels", job.labels, agreed.labels),
                ("label_epsilon", job.label_epsilon, agreed.label_epsilon),
                ("name", job.name, agreed.job),
            ]
            if self._seat is not None:  # one party alone would hide no gain from the coordinator
                terms += [("number of parties", job.n_parties, len(self._seat.parties))]
        for name, asked, right in terms:
            if asked != right:
                raise _outside(name)


def _outside(what: str) -> ProtocolError:
    return ProtocolError(
        f"The question does not fit the job that this party agreed to: different {what}. Nothing "
        "was released."
    )


def _require_label(holding: Holding, settings: MatchedRows, name: str) -> None:
    has_label = holding.label is not None
    if has_label and name != settings.label_party:
        raise SchemaError(
            f"Party {name!r} has a label column, but label_party is {settings.label_party!r}. "
            "Exactly one party holds the labels: leave the label out at the others."
        )
    if not has_label and name == settings.label_party:
        raise SchemaError(
            f"label_party is {name!r}, but its table names no label. Say which of its columns is "
            "the label."
        )


def match_then(
    channel: Channel,
    settings: MatchedRows,
    progress: Progress,
    grow: Callable[[], VerticalTraining],
) -> VerticalTraining:
    """Match the parties' rows and grow trees over them.

    The training has a model only with `join_parts`.
    """
    phases = Phases()
    if settings.matching is not None:
        with phases.phase("matching"):
            progress("matching", 0, 0)
            match(channel, settings.matching, lead=settings.label_party)
    training = grow()
    model = join_parts(channel) if settings.join_parts else None
    return replace(
        training,
        model=model,
        rounds=tuple(channel.rounds),
        seconds=phases.seconds | training.seconds,
        settings=training.settings | settings.described(),
    )
