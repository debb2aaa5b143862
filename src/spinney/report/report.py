"""The report of a job, as a frozen value; print it to read it."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from spinney.errors import SettingError, StorageError
from spinney.files import write_whole
from spinney.privacy.ledger import Ledger
from spinney.protocols.columns.leakage import LabelLeakage
from spinney.protocols.explanation import Explained
from spinney.protocols.model import ForestModel
from spinney.protocols.private_evaluation.measures import PrivateQuality
from spinney.protocols.release_terms import EXACT, Hardening
from spinney.protocols.training import PartyClaim, Trained
from spinney.protocols.verified.blind import NOT_SEEN
from spinney.report import door, plots
from spinney.report.audited import Audit
from spinney.report.budgets import budgets_of
from spinney.report.explained import explanation_of, impurity_importances, with_losses
from spinney.report.facts import (
    FORMAT,
    DisclosureRow,
    Holder,
    PartyQuality,
    ReportFacts,
    RoundTraffic,
)
from spinney.report.file_names import MODEL, PAGE, REPORT, file_in
from spinney.report.frame import frame_of
from spinney.report.hardening import withhold
from spinney.report.page.page import page_of, summary_of
from spinney.report.privacy import Seen, merged, privacy_of, with_exact_rounds
from spinney.report.render import as_text
from spinney.report.settings import with_masks
from spinney.report.verdicts import Joining, joinings
from spinney.report.words import as_json
from spinney.tables.schema import join_words
from spinney.transport.channel import Round
from spinney.version import __version__


class Report(ReportFacts, frozen=True, dict=True):
    """Quality, traffic, time, disclosures and privacy of one job; print it to read it."""

    @classmethod
    def of(
        cls,
        training: Trained,
        *,
        ledgers: Mapping[str, Ledger] | None = None,
        label_leakage: LabelLeakage | None = None,
        holders: tuple[Holder, ...] = (),
        release: Hardening | None = None,
        ended: str = "",
    ) -> "Report":
        """Return the report of a training.

        Parameters
        ----------
        training
            The trained model and the record of its training.
        ledgers
            Ledgers of the local parties; the report includes their accounts.
        label_leakage
            For a vertical training: the finding of the party with the labels.
        holders
            For a vertical training: what each party holds of the forest.
        release
            The terms on which the model may leave; None: as it was trained.
        ended
            For an `Unfinished` training: a sentence that says why it stopped.
        """
        shape = training.shape
        forest = training.model
        quality = (
            PartyQuality(party, found.rows, found.n_rows, _known(found.scores))
            for party, found in training.quality.items()
        )
        traffic = (_traffic(r, r.number) for r in training.rounds)
        report = cls(
            shape.protocol,
            training.parties,
            shape.n_trees,
            shape.depth,
            shape.n_nodes,
            tuple(quality),
            tuple(traffic),
            {phase: round(seconds, 6) for phase, seconds in training.seconds.items()},
            _disclosures(training.rounds),
            with_masks(training.settings, training.rounds),
            privacy=privacy_of(training),
            history=training.history,
            label_leakage=label_leakage,
            importances=() if forest is None else impurity_importances(forest),
            budgets=budgets_of(ledgers or {}),
            ended=ended,
            holders=holders,
            release=release,
            adds_up=training.adds_up,
            curves=dict(training.curves),
            own_curves=dict(training.own_curves),
        )
        report.__dict__["model"] = forest  # for drawing; not part of the value
        return report

    def explained(self, model: ForestModel, found: Explained, rows: str) -> "Report":
        """Return the report with an explanation of the model, counted over `rows`."""
        shown, _ = withhold(model, (self.release or Hardening()).smallest_leaf)
        return msgspec.structs.replace(
            self,
            importances=with_losses(self.importances, model.schema, found),
            explanation=explanation_of(shown, found, rows),
        )

    def of_leaving(self, model: ForestModel) -> "Report":
        """Return the report with the importances of the model that leaves, not of the trained one.

        Gains of single splits could be read from those of a small forest.
        """
        lost = {one.column: one for one in self.importances}
        found = tuple(
            msgspec.structs.replace(lost.get(one.column, one), impurity=one.impurity)
            for one in impurity_importances(model)
        )
        return msgspec.structs.replace(self, importances=found)

    def hardened_by(self, done: Sequence[str], model: ForestModel) -> "Report":
        """Return the report with what was done to the trained model before it left as `model`."""
        told = f"in {MODEL} and {PAGE}: {'; '.join(done)}"
        return msgspec.structs.replace(self, hardened=(told, *self.hardened)).of_leaving(model)

    def asked(self, rounds: Sequence[Round]) -> "Report":
        """Return the report with the questions that the parties answered after training."""
        number = len(self.traffic)
        return msgspec.structs.replace(
            self,
            traffic=(*self.traffic, *(_traffic(r, number + r.number) for r in rounds)),
            disclosures=(*self.disclosures, *_disclosures(rounds)),
            privacy=with_exact_rounds(self.privacy, self._seen(), rounds),
        )

    def evaluated(
        self, quality: PrivateQuality, claims: Sequence[PartyClaim], rounds: Sequence[Round]
    ) -> "Report":
        """Return the report with an evaluation that was answered with noise after training.

        One that was asked before has the answer that it had, and costs nothing more.
        """
        found = merged(claims)
        if quality == self.evaluation and all(one in self.evaluation_privacy for one in found):
            return self
        number = len(self.traffic)
        return msgspec.structs.replace(
            self,
            traffic=(*self.traffic, *(_traffic(r, number + r.number) for r in rounds)),
            disclosures=(*self.disclosures, *_disclosures(rounds)),
            evaluation=quality,
            evaluation_privacy=(*self.evaluation_privacy, *found),
        )

    def _seen(self) -> list[Seen]:
        """Return the rounds so far, as far as the report remembers them."""
        kinds = {entry.question: entry for entry in self.disclosures}
        return [
            Seen(
                r.question,
                kinds[r.question].statistic,
                kinds[r.question].protection,
                tuple(party for party, n_bytes in r.bytes_up.items() if n_bytes),
            )
            for r in self.traffic
            if r.question in kinds
        ]

    @property
    def joining(self) -> tuple[Joining, ...]:
        """What joining brought by each score: helped, hurt or no clear difference."""
        return joinings(self.quality) if len(self.parties) > 1 else ()

    def __str__(self) -> str:
        return as_text(self)

    def plot_gain(self, ax: Any = None) -> Any:
        """Draw each party's scores alone and together; needs `spinney[plot]`."""
        return plots.gain(self, ax)

    def plot_budget(self, ax: Any = None) -> Any:
        """Draw the budget that each party has spent and has left; needs `spinney[plot]`."""
        return plots.budget(self, ax)

    def plot_importances(self, ax: Any = None) -> Any:
        """Draw the feature importances; needs `spinney[plot]`."""
        return plots.importances(self.importances, ax)

    def plot_tree(self, number: int, model: ForestModel | None = None, ax: Any = None) -> Any:
        """Draw a tree, numbered from 0; a loaded report needs its `model` (`forest.model_`)."""
        found = model or self.__dict__.get("model")
        if found is None:
            raise SettingError(
                "This report was loaded without its model. Give one: "
                "report.plot_tree(0, model=load_model(folder).model_)."
            )
        return plots.tree(found, number, ax)

    def to_frame(self) -> Any:
        """Return what the report tells of each party as a pandas data frame, a line a party.

        Its scores and what joining did, the bytes that it sent and got, and what it spent of its
        privacy budget and has left. An evaluation with noise has a line for all parties together,
        and for each subgroup that it tells of.
        """
        return frame_of(self)

    def _repr_html_(self) -> str:
        return summary_of(self)

    def to_json(self) -> str:
        """Return the report as JSON."""
        found = self._leaving()
        told = msgspec.to_builtins(found.joining)
        verdicts = [
            {**one, "overall": own.overall} for one, own in zip(told, found.joining, strict=True)
        ]
        return as_json(
            {**msgspec.to_builtins(found), **({"joining": verdicts} if verdicts else {})}
        )

    def _leaving(self) -> "Report":
        """Return the report as it leaves this process: of the model as it may leave."""
        model = self.__dict__.get("model")
        if model is None or self.release is None:
            return self
        return self.of_leaving(door.release(model, self.release)[0])

    def to_html(
        self,
        path: str | os.PathLike[str],
        model: ForestModel | None = None,
        audit: Audit | None = None,
    ) -> None:
        """Write the report as one page that needs no network.

        It shows the trees of `model`, and what an audit found. The model passes the door: it is
        hardened on the terms of this report, if it has any.
        """
        drawn = None if model is None else door.release(model, self.release or EXACT)[0]
        write_whole(path, page_of(self._leaving(), drawn, audit).encode())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON, whole or not at all."""
        write_whole(path, self.to_json().encode())


def load_report(path: str | os.PathLike[str]) -> Report:
    """Read a saved report, or the report in a run's folder."""
    source = file_in(path, REPORT)
    try:
        data = source.read_bytes()
        _require_format(msgspec.json.decode(data, type=_Head), str(source))
        report = msgspec.json.decode(data, type=Report)
    except OSError as error:
        raise StorageError(
            f"Cannot read {str(source)!r}: {error.strerror or error}. Check the path."
        ) from None
    except msgspec.MsgspecError as error:
        raise StorageError(
            f"{str(source)!r} is not a report that this Spinney can read. "
            "Give the path of a report.json that Spinney wrote.",
            local=str(error),
        ) from None
    _require_known_parties(report, str(source))
    return report


class _Head(msgspec.Struct, frozen=True):
    """The fields with which a report of any format begins."""

    format: int
    version: str = "that wrote it"


def _require_format(head: _Head, name: str) -> None:
    """Raise if a report has another format."""
    if head.format != FORMAT:
        raise StorageError(
            f"{name!r} has report format {head.format}; this Spinney ({__version__}) reads format "
            f"{FORMAT}. Install Spinney {head.version} or a newer one."
        )


def _require_known_parties(report: Report, name: str) -> None:
    """Raise if a report mentions parties that are not in its list of parties."""
    met = {party for r in report.traffic for party in (*r.bytes_up, *r.bytes_down)}
    met.update(party for entry in report.disclosures for party in entry.bytes_up)
    unknown = sorted(met - set(report.parties))
    if unknown:
        raise StorageError(
            f"{name!r} is not a valid report: it mentions {join_words(map(repr, unknown))}, not "
            "listed among its parties. Use the file as Spinney wrote it."
        )


def _known(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores that are defined; a party with one row has no R2."""
    return {name: score for name, score in scores.items() if math.isfinite(score)}


def _traffic(r: Round, number: int) -> RoundTraffic:
    up, down = dict(r.bytes_up), dict(r.bytes_down)
    return RoundTraffic(number, r.question, down, up, round(r.seconds, 6))


def seen_by(question: str, protection: str, verb: str) -> str:
    """Return who sees the replies, and whether only as a sum; of a hand-out, who gets it."""
    if question in ("Model", "Derived"):
        return "every party and the lead"
    if question == "Head":
        return "the coordinator and the other parties"
    if verb == "ask":
        return "the coordinator, party by party"
    if protection.endswith(NOT_SEEN):
        return f"the parties, as a sum; {NOT_SEEN}"
    if protection.startswith("masked"):
        return "the coordinator, as a sum"
    return "the coordinator, summed, not masked"


def _disclosures(rounds: Sequence[Round]) -> tuple[DisclosureRow, ...]:
    """Return one entry for each kind of question, in the order in which they were first asked."""
    found: dict[str, DisclosureRow] = {}
    for r in rounds:
        before = found.get(r.question)
        up = dict(r.bytes_up)
        if before is not None:
            parties = dict.fromkeys((*before.bytes_up, *up))  # not every round asks every party
            up = {p: before.bytes_up.get(p, 0) + up.get(p, 0) for p in parties}
        found[r.question] = DisclosureRow(
            r.question,
            r.reveals,
            (before.times if before else 0) + 1,
            up,
            seen_by(r.question, r.protection, r.verb),
            r.protection,
        )
    return tuple(found.values())
