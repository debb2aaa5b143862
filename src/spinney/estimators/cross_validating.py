"""k-fold cross-validation within one budget."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
from sklearn.base import clone

from spinney.errors import SettingError
from spinney.estimators.inputs import deal_tables, warn_of_leaks
from spinney.estimators.private import ledgers_of
from spinney.seeds import job_seed
from spinney.typing import silent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spinney.privacy.ledger import Ledger
    from spinney.protocols.model import ForestModel
    from spinney.protocols.private_evaluation import PrivateQuality
    from spinney.tables.table import MemoryTable

_DATA: Final = "cross-validated rows"
_EVALUATION_SHARE: Final = Fraction(1, 5)


@dataclass(frozen=True)
class CrossValidated:
    """The quality of models on rows that they were not trained on, and what it all cost.

    Attributes
    ----------
    quality
        Measured with noise, over all folds together.
    models
        The model of each fold, trained on the rows of the others.
    ledgers
        Each party's ledger, which refused to spend more than the whole budget.
    epsilon_of_training, epsilon_of_evaluation
        What one training cost, and the evaluation.
    """

    quality: PrivateQuality
    models: tuple[ForestModel, ...]
    ledgers: Mapping[str, Ledger]
    epsilon_of_training: Fraction
    epsilon_of_evaluation: Fraction

    def __str__(self) -> str:
        k = len(self.models)
        return (
            f"{self.quality}\n  cost: {k} trainings of epsilon {self.epsilon_of_training}, and an "
            f"evaluation of epsilon {self.epsilon_of_evaluation}"
        )


def cross_validated(
    estimator: Any, X: Any, y: Any, party: Any, *, epsilon: Any, n_folds: int, by: str | None
) -> CrossValidated:
    """Train a private estimator on all folds but one, in turn, and evaluate it on the other."""
    from spinney.privacy.budget import positive_epsilon  # noqa: PLC0415
    from spinney.protocols.settings import require_int  # noqa: PLC0415  loaded late

    require_int("n_folds", n_folds, 2, most=100)
    total = positive_epsilon(epsilon, "epsilon")
    share = total * _EVALUATION_SHARE
    each = (total - share) / n_folds
    model = clone(estimator).set_params(epsilon=each)
    if not model._is_private or model._spec.leaves != "one model":  # noqa: SLF001
        raise SettingError(
            f"cross_validate divides a budget among trainings with noise and their evaluation; "
            f"{type(estimator).__name__} does not train one model with an epsilon."
        )
    if getattr(model, "delta", None) is not None:
        raise SettingError(
            f"cross_validate adds up pure epsilons, and with delta={model.delta!r} "
            f"{type(estimator).__name__} counts in Gaussian noise. Set delta=None, or hold rows "
            "out and measure them by evaluate, which may follow a training with delta."
        )
    model._require_sound_parameters()  # noqa: SLF001
    given = model._given(X, y)  # noqa: SLF001
    facts = given.read_facts + model._sizes_read()  # noqa: SLF001
    warn_of_leaks(facts)
    tables = deal_tables(given.table, party)
    ledgers = _limited(list(tables), total)
    seed = job_seed(getattr(model, "random_state", None))
    folds = _folds(tables, n_folds, seed)
    models = tuple(
        _trained(model, _without(tables, folds, fold), ledgers, facts) for fold in range(n_folds)
    )
    quality = _judged(model, models, tables, ledgers, epsilon=share, by=by, seed=seed)
    return CrossValidated(quality, models, ledgers, each, share)


def _limited(parties: list[str], total: Fraction) -> dict[str, Ledger]:
    """Return ledgers that refuse to spend more on the rows than the whole budget."""
    from spinney.privacy.scopes import Budget  # noqa: PLC0415

    ledgers = ledgers_of(parties)
    for ledger in ledgers.values():
        ledger.allow_for_life(_DATA, [Budget.pure(total)])
    return ledgers


def _folds(tables: Mapping[str, MemoryTable], n_folds: int, seed: int) -> dict[str, Any]:
    """Return the fold of every row of every party."""
    from spinney.protocols.private_evaluation.settings import fold_of  # noqa: PLC0415  loads numba

    return {
        name: np.concatenate(
            [np.zeros(0, np.int64), *(fold_of(batch, n_folds, seed) for batch in table.batches())]
        )
        for name, table in tables.items()
    }


def _without(
    tables: Mapping[str, MemoryTable], folds: Mapping[str, Any], fold: int
) -> dict[str, MemoryTable]:
    """Return the tables without the rows of one fold."""
    return {
        name: table.select(np.flatnonzero(folds[name] != fold)) for name, table in tables.items()
    }


def _trained(
    model: Any, tables: dict[str, MemoryTable], ledgers: dict[str, Ledger], facts: tuple[str, ...]
) -> ForestModel:
    from spinney.protocols.settings import with_read_facts  # noqa: PLC0415  loaded late

    classes = next(iter(tables.values())).schema.label.classes or ()
    sizes = {name: table.n_rows for name, table in tables.items()}
    settings = with_read_facts(model._settings(classes, sizes), facts)  # noqa: SLF001
    training, _ = model._trained(tables, settings, ledgers, silent, _DATA)  # noqa: SLF001
    found: ForestModel = training.model
    return found


def _judged(
    model: Any,
    models: tuple[ForestModel, ...],
    tables: Mapping[str, MemoryTable],
    ledgers: Mapping[str, Ledger],
    *,
    epsilon: Fraction,
    by: str | None,
    seed: int,
) -> PrivateQuality:
    from spinney.protocols.private_evaluation.settings import (  # noqa: PLC0415  loads numba
        digest_of,
        evaluation_settings,
    )
    from spinney.protocols.private_evaluation.simulated import evaluate_models  # noqa: PLC0415

    settings = evaluation_settings(
        f"cross-validation {uuid4()}",
        tuple(digest_of(one.to_bytes()) for one in models),
        "classification" if models[0].schema.label.kind == "class" else "regression",
        epsilon,
        by=by,
        honest=model.honest if len(tables) > 1 else None,
        in_shares=len(tables) > 1,
        seed=seed,
    )
    return evaluate_models(
        models,
        tables,
        ledgers,
        settings,
        rows="cross-validated",
        n_jobs=model.n_jobs,
        data=_DATA,
    ).quality
