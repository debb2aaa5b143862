"""`spinney tune`: settings by cross-validation over parties."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spinney.errors import SettingError
from spinney.jobs.own_table import BY_DRAFT, require_no_table
from spinney.jobs.tuning import Tuned


def tune_job(
    job: Path,
    tries: Sequence[str],
    n_folds: int,
    epsilon: float | None,
    kit: Path | None,
    *,
    remark: Callable[[str], None],
) -> Tuned:
    """Tune a job, over the values that the command line names or over those of its protocol."""
    require_no_table(job, BY_DRAFT)
    grid = dict(map(_parsed, tries)) or None
    if kit is None:
        from spinney.simulation.tuning import tune  # noqa: PLC0415

        return tune(job, grid, n_folds, epsilon)
    from spinney.deployment.tuning import tune_deployed  # noqa: PLC0415

    return tune_deployed(job, kit, grid, n_folds, epsilon, remark=remark)


def _parsed(text: str) -> tuple[str, list[Any]]:
    """Return a setting and its values, from "max_depth=4,8"."""
    name, mark, values = text.partition("=")
    if not (name and mark and values):
        raise SettingError(f"--try must be a setting and its values, max_depth=4,8; got {text!r}.")
    return name.strip(), [_value(one.strip()) for one in values.split(",")]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
