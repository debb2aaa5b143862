"""`evaluate` and `cross_validate`: how good a model is, measured with noise and paid for."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spinney.estimators.inputs import check_features, deal_tables
from spinney.estimators.private import ledgers_of
from spinney.tables.frames import columns_of, encode_target
from spinney.tables.table import MemoryTable
from spinney.trees.threads import thread_count

if TYPE_CHECKING:
    from spinney.estimators.cross_validating import CrossValidated
    from spinney.protocols.private_evaluation import PrivateQuality


def tables_for(estimator: Any, X: Any, y: Any, party: Any) -> dict[str, MemoryTable]:
    """Return the parties' tables of rows to evaluate a fitted estimator on."""
    check_is_fitted(estimator)
    schema = estimator.model_.schema
    X = check_features(estimator, X, estimator.categorical_features, reset=False)
    columns = columns_of(X, schema, unknown_categories=estimator.unknown_categories)
    target = encode_target(np.asarray(y), schema.label)
    threads = thread_count(estimator.n_jobs)
    return deal_tables(MemoryTable(schema, columns, target, n_threads=threads), party)


def _meaning(model: str, tables: dict[str, MemoryTable], asked: tuple[Any, ...]) -> str:
    """Return what an evaluation is about: asked twice, it is answered once."""
    state = sha256(repr((model, asked)).encode())
    for name, table in tables.items():
        state.update(name.encode() + b"\0")
        for batch in table.batches():
            state.update(np.ascontiguousarray(batch.keys).tobytes())
    return state.hexdigest()[:32]


class Evaluates:
    """The method `evaluate` of estimators over parties that hold different rows."""

    def evaluate(
        self,
        X: Any,
        y: Any,
        party: Any = None,
        *,
        epsilon: Any,
        by: str | None = None,
        per_party: bool = False,
    ) -> PrivateQuality:
        """Measure with noise how good the model is on rows that it was not trained on.

        Each party counts its rows by class and by score. The counts carry noise, shared by the
        parties of a masked sum, and `ledger_` shows what they cost. `report_` shows the result, and
        what training and evaluations cost together. The same question about the same rows gets the
        same answer, and costs nothing more.

        Parameters
        ----------
        X, y
            The rows and their labels.
        party
            The party of each row; None: one party holds all rows.
        epsilon
            The budget of the evaluation, in addition to that of the training: pure, record-level
            differential privacy for a record that is added or removed.
        by
            A column of categories, for rates by subgroup.
        per_party
            Whether to measure each party's rows too. Each party then adds its own whole noise.
        """
        from spinney.protocols.private_evaluation.settings import (  # noqa: PLC0415  loads numba
            digest_of,
            evaluation_settings,
        )
        from spinney.protocols.private_evaluation.simulated import (  # noqa: PLC0415
            evaluate_models,
        )
        from spinney.report.hardening import with_shown_classes  # noqa: PLC0415

        tables = tables_for(self, X, y, party)
        model = self.model_  # type: ignore[attr-defined]
        digest = digest_of(model.to_bytes())
        settings = evaluation_settings(
            f"evaluation {_meaning(digest, tables, (str(epsilon), by, per_party))}",
            (digest,),
            "classification" if model.schema.label.kind == "class" else "regression",
            epsilon,
            by=by,
            per_party=per_party,
            honest=getattr(self, "honest", None) if len(tables) > 1 else None,
            in_shares=len(tables) > 1,
        )
        held = dict(getattr(self, "ledger_", {}))
        held |= ledgers_of([name for name in tables if name not in held])
        found = evaluate_models(
            (model,),
            tables,
            held,
            settings,
            rows="given",
            n_jobs=self.n_jobs,  # type: ignore[attr-defined]
        )
        self.ledger_ = held
        report: Any = getattr(self, "report_", None)  # a loaded model has none
        if report is not None:
            quality = found.quality
            if report.release is not None:
                fewest = report.release.smallest_leaf
                quality = with_shown_classes(quality, model, fewest)
            self.report_ = report.evaluated(quality, found.claims, found.rounds)
        return found.quality

    def cross_validate(
        self,
        X: Any,
        y: Any,
        party: Any = None,
        *,
        epsilon: Any,
        n_folds: int = 5,
        by: str | None = None,
    ) -> CrossValidated:
        """Measure how good such models are on rows that they were not trained on.

        One fifth of the budget pays for the evaluation. The trainings, one without each fold,
        share the rest equally, so each has less than a `fit` with the whole budget would have. A
        row's fold depends on its own cells only. This estimator stays as it is.

        Parameters
        ----------
        X, y, party
            As in `fit`.
        epsilon
            The budget of everything together; it replaces that of the estimator. Each party's
            ledger refuses to spend more. A record is in all trainings but one, and in one cell of
            the evaluation, so its cost is even a little less than this.
        n_folds
            The number of folds.
        by
            A column of categories, for rates by subgroup.
        """
        from spinney.estimators.cross_validating import cross_validated  # noqa: PLC0415

        return cross_validated(self, X, y, party, epsilon=epsilon, n_folds=n_folds, by=by)
