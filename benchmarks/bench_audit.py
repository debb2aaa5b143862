"""What `spinney audit` gets out of ten tables, before and after hardening and under noise.

At most 2,000 rows of each table, a quarter held out, five parties. Ranges and classes are declared,
as a deployed job must. Run: python benchmarks/bench_audit.py [--fast] [--only NAME]
"""

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from data import SHARED, shared
from harness import arguments, save, table
from spinney.audit.reconstruction import rebuild_from_trees
from spinney.audit.rehearsal import rehearsal_of
from spinney.audit.run import Effort, audit
from spinney.audit.sums import listen, rebuild_from_sums
from spinney.report.audited import Audit, Rebuilt, Released

_TABLES = (
    "adult",
    "bank_additional_full",
    "credit_card_default",
    "letter",
    "nursery",
    "spambase",
    "tb_california",
    "tb_compas",
    "telco_churn",
    "waveform",
)
_MOST_ROWS = 2000
_JOBS: dict[str, dict[str, Any]] = {
    "forest, leaves of 1": {"protocol": "horizontal_forest", "min_samples_leaf": 1},
    "forest, leaves of 5": {"protocol": "horizontal_forest", "min_samples_leaf": 5},
    "forest, leaves of 20": {"protocol": "horizontal_forest", "min_samples_leaf": 20},
    "private forest, epsilon 1": {"protocol": "private_forest", "epsilon": 1.0},
    "private tree, epsilon 1": {
        "protocol": "private_tree",
        "epsilon": 1.0,
        "method": "histograms",
    },
    "private boosting, epsilon 1": {"protocol": "private_boosting", "epsilon": 1.0},
    "noisy forest, epsilon 1": {
        "protocol": "horizontal_forest",
        "epsilon": 1.0,
        "n_estimators": 10,
        "max_depth": 4,
    },
}


def written(folder: Path, name: str, n_rows: int) -> tuple[str, Path]:
    """Write a sample of a table, and return the [schema] that declares it."""
    X, y = shared(name)
    frame = X.assign(target=y.astype(str)).sample(min(len(X), n_rows), random_state=0)
    columns, kept = [], {}
    for column in X.columns:
        cells = frame[column]
        if cells.dtype.kind in "fiub":
            cells = cells.astype(float)
            low, high = float(cells.min()), float(cells.max())
            if low == high:
                continue
            columns.append(f'{json.dumps(column)} = {{ kind = "number", range = [{low}, {high}] }}')
        else:
            cells = cells.astype(str).where(cells.notna())
            values = json.dumps(sorted(set(cells.dropna())))
            columns.append(f'{json.dumps(column)} = {{ kind = "category", values = {values} }}')
        kept[column] = cells
    classes = json.dumps(sorted(set(frame["target"])))
    file = folder / f"{name}.parquet"
    pd.DataFrame({**kept, "target": frame["target"]}).to_parquet(file)
    schema = f'[schema]\nlabel = "target"\nclasses = {classes}\n[schema.columns]\n'
    return schema + "\n".join(columns), file


def audited(folder: Path, name: str, case: str, n_rows: int, effort: Effort) -> Audit:
    """Audit one kind of job on one table."""
    schema, file = written(folder, name, n_rows)
    facts = dict(_JOBS[case])
    protocol = facts.pop("protocol")
    settings = "\n".join(f"{key} = {json.dumps(value)}" for key, value in facts.items())
    job = folder / "job.toml"
    job.write_text(
        f'[job]\nname = "{name}"\nprotocol = "{protocol}"\n[settings]\n{settings}\n{schema}\n'
        f'[table]\nsource = "parquet"\npath = "{file.name}"\n[simulation]\nheld_out = 0.25\n',
        encoding="utf-8",
    )
    return audit(job, effort=effort)


def line_of(name: str, one: Released) -> dict[str, Any]:
    """Return what a reader gets, as a line of a table."""
    found = one.membership
    assert found is not None
    few, many = found.at
    cells = one.rebuilt.cells
    return {
        "table": name,
        "model": one.name,
        "smallest leaf": "noisy" if one.groups.noisy else one.groups.smallest_leaf,
        **of_view(one.rebuilt),
        "error": one.rebuilt.error if cells is not None else "-",
        "error, guessed": one.rebuilt.guessed_error if cells is not None else "-",
        "found at 0.1 %": f"needs {few.rows_needed}" if few.rows_needed else percent(few.found),
        "found at 1 %": percent(many.found),
        "area": found.area,
        "attribute": attribute(one),
        "AUC": one.auc,
    }


def of_view(one: Rebuilt) -> dict[str, Any]:
    isolated = 0.0 if one.isolated is None else one.isolated.share
    return {
        "isolated": f"{100 * isolated:.1f}",
        "cells": "-" if one.cells is None else f"{100 * one.cells.share:.1f}",
        "guessed": "-" if one.guessed is None else f"{100 * one.guessed:.1f}",
    }


def attribute(one: Released) -> str:
    found = one.attribute
    if found is None:
        return "-"
    return f"{100 * found.members.share:.1f} / {100 * found.others.share:.1f} ({found.column})"


def percent(share: Any) -> str:
    return f"{100 * share.share:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def as_published(folder: Path, name: str, *, bootstrap: bool) -> dict[str, Any]:
    """Rebuild 100 rows of yes and no from 100 trees, the setting of Ferry et al. (2024)."""
    X, y = shared(name)
    frame = X.assign(target=y.astype(str)).sample(100, random_state=0)
    cells: dict[str, Any] = {}
    for column in X.columns:
        values = frame[column]
        is_number = values.dtype.kind in "fiub"
        usual = values.median() if is_number else values.astype(str).mode()[0]
        found = values > usual if is_number else values.astype(str) == usual
        if len(set(found)) > 1:
            cells[column] = found.astype(float)
    pd.DataFrame({**cells, "target": frame["target"]}).to_parquet(folder / "binary.parquet")
    job = folder / "binary.toml"
    job.write_text(
        f'[job]\nname = "binary"\n[settings]\nbootstrap = {json.dumps(bootstrap)}\n'
        "min_samples_leaf = 1\n"
        '[schema]\nlabel = "target"\n[table]\nsource = "parquet"\npath = "binary.parquet"\n'
        "[simulation]\nn_parties = 2\nheld_out = 0\n",
        encoding="utf-8",
    )
    rehearsal, _ = rehearsal_of(job, None)
    training, heard = listen(rehearsal)
    model = rebuild_from_trees(training.model, rehearsal, is_noisy=False)
    (sums,) = rebuild_from_sums(training.model, rehearsal, heard, views=("the coordinator",))
    return {
        "table": name,
        "columns": len(cells),
        "bootstrap": bootstrap,
        "isolated": of_view(model)["isolated"],
        "error, model": model.error,
        "error, sums": sums.error,
        "error, guessed": model.guessed_error,
    }


def main() -> None:
    """Audit every table with every kind of job, and print one table for each kind."""
    given = arguments(__doc__ or "", only="", case="")
    warnings.simplefilter("ignore")
    names = [given.only] if given.only else list(_TABLES[:2] if given.fast else _TABLES)
    effort = Effort(4, 20) if given.fast else Effort(16, 40)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        published = [
            as_published(Path(folder), name, bootstrap=bootstrap)
            for name in ("tb_compas", "adult", "credit_card_default")
            for bootstrap in (False, True)
        ]
        table("100 rows of yes and no, 100 trees", published)
        found["100 rows of yes and no"] = published
        for case in [given.case] if given.case else list(_JOBS):
            models, sums, bounds = [], [], []
            for name in names:
                if not (SHARED / f"{name}.parquet").is_file():
                    continue
                n_rows = 400 if given.fast else _MOST_ROWS
                one = audited(Path(folder), name, case, n_rows, effort)
                models += [line_of(name, model) for model in one.models]
                sums += [{"table": name, "view": v.view, **of_view(v)} for v in one.sums]
                if one.epsilon is not None:
                    told = one.epsilon
                    bounds.append({"table": name, "claim": told.claim, "shown": told.bound})
                print(f"{case}: {name}", flush=True)
            table(f"{case}: what a reader of the model gets", models)
            table(f"{case}: what the sums show", sums)
            table(f"{case}: epsilon", bounds)
            found[case] = {"models": models, "sums": sums, "epsilon": bounds}
    save("audit", "one sample of each table", found)


if __name__ == "__main__":
    main()
