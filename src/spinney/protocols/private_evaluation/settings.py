"""The settings of an evaluation with noise."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import numpy as np

from spinney.errors import SettingError
from spinney.protocols.settings import PrivacySettings, Task, as_text, require_choice
from spinney.seeds import derive_seed, mix
from spinney.tables.records import plain_ids_of
from spinney.tables.table import Batch
from spinney.typing import Integers

NAME: Final = "private_evaluation"
_MOST_FOLDS: Final = 100
_FOLDS: Final = 7  # the purpose of the seed


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an evaluation fixes before it starts; every party sees it.

    Attributes
    ----------
    privacy
        The price and its noise.
    models
        The digests of the models: one, or one for each fold.
    task
        What the models predict.
    by
        The column whose categories are the subgroups; None: there are none.
    per_party
        Whether each party's own quality is measured too. Its noise is then its own.
    seed
        Deals the rows to folds.
    """

    privacy: PrivacySettings
    models: tuple[str, ...]
    task: Task = "classification"
    by: str | None = None
    per_party: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        require_choice("task", self.task, ("classification", "regression"))
        if not 1 <= len(self.models) <= _MOST_FOLDS:
            raise SettingError(
                f"An evaluation needs one model, or one for each of at most {_MOST_FOLDS} folds; "
                f"got {len(self.models)}."
            )
        if self.per_party and self.privacy.in_shares:
            raise SettingError(
                "per_party shows each party's own histograms, so parties cannot share the noise of "
                "one masked sum. Drop per_party, or secure_sum."
            )


def evaluation_settings(
    name: str,
    models: tuple[str, ...],
    task: Task,
    epsilon: object,
    *,
    by: str | None = None,
    per_party: bool = False,
    honest: int | None = None,
    in_shares: bool = True,
    seed: int = 0,
) -> Settings:
    """Return the settings of an evaluation.

    The ledger's name of the job says what is evaluated and how. The same evaluation is therefore
    paid once and answered from the stored reply; another one is another job.
    """
    amount = as_text(epsilon, "epsilon")
    shares = in_shares and not per_party
    asked = repr((models, amount, by, per_party, shares, honest, seed))
    return Settings(
        privacy=PrivacySettings(
            job=f"{name} {sha256(asked.encode()).hexdigest()[:16]}",
            epsilon=amount,
            tree_rows="all",
            in_shares=shares,
            honest=honest if shares else None,
        ),
        models=models,
        task=task,
        by=by,
        per_party=per_party,
        seed=seed,
    )


def digest_of(model: bytes) -> str:
    """Return the digest by which a job names a model."""
    return sha256(model).hexdigest()


def fold_of(batch: Batch, n_folds: int, seed: int) -> Integers:
    """Return each row's fold, drawn by its id or its cells alone: no other row can move it."""
    draws = mix(plain_ids_of(batch) ^ np.uint64(derive_seed(seed, _FOLDS)))
    return (draws % np.uint64(n_folds)).astype(np.int64)
