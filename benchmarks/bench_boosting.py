"""Boosted trees against LightGBM, XGBoost and scikit-learn: seconds, bytes, quality.

Speed: 200,000 x 30, 100 trees, depth 6, 255 bins, binning included, in turns in one process; one
party, five parties, masked, and the default in batches. On a busy machine `--one-thread 1` compares
CPU time on one thread. `--splits 5` also scores real tables, at equal trees, depth and rate; every
score is kept in a file beside the results, and a run that was interrupted goes on after the last.
`--most 30` ends after so many, `--repeats 0` leaves the speed out.
Run: python benchmarks/bench_boosting.py [--fast] [--one-thread 1] [--splits 5] [--repeats 3]
"""

import json
import warnings
from collections.abc import Callable
from typing import Any

import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import roc_auc_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from xgboost import XGBClassifier, XGBRegressor

from data import SHARED, drawn
from harness import (
    CORES,
    RESULTS,
    arguments,
    foreign,
    interleaved,
    median,
    ratio,
    save,
    table,
    timed,
    timed_by_cpu,
)
from spinney import HorizontalBoostingClassifier, HorizontalBoostingRegressor, deal_rows
from spinney.errors import PrivacyLeakWarning

N_TREES, DEPTH, RATE = 100, 6, 0.1
IN_SEQUENCE: dict[str, Any] = {
    "batch_trees": 1,
    "learning_rate": RATE,
    "max_depth": DEPTH,
    "subsample": 1.0,
    "colsample_bytree": 1.0,
}
SEQUENCE, BATCHES = "in sequence", "in batches"
OF_FEW_ROWS = {"min_samples_leaf": 5, "max_cells": 33}  # as XGBoost, whose leaves may be small
TABLES = (
    "adult", "audit_2018_trial", "bank_additional_full", "credit_card_default", "ionosphere",
    "spambase", "tb_bank_marketing", "tb_california", "tb_compas", "tb_creditcard",
    "tb_eye_movements", "tb_house_16H_clf", "tb_pol", "telco_churn", "waveform", "tb_abalone",
    "tb_bike_sharing", "tb_elevators", "tb_houses", "tb_wine_quality",
)  # fmt: skip


def main() -> None:
    warnings.simplefilter("ignore", PrivacyLeakWarning)
    warnings.simplefilter("ignore", UserWarning)  # LightGBM's, on names of columns
    asked = arguments(__doc__, one_thread=0, repeats=3, splits=0, most=10_000)
    tables = {"speed": speed(asked)} if asked.repeats else {}
    if asked.splits:
        scores = scored(1 if asked.fast else asked.splits, asked.most)
        tables |= {"quality": quality(scores), "differences": differences(scores)}
    save("bench_boosting", "median, ratios by turn", tables)


def speed(asked: Any) -> list[dict[str, Any]]:
    """Return the seconds of each case, beside those of one party."""
    split = drawn(20_000 if asked.fast else 200_000, n_test=20_000)
    site = deal_rows(split.y, 5, random_state=0)
    jobs = 1 if asked.one_thread else CORES

    def ours(party: Any = None, **how: Any) -> Any:
        chosen = IN_SEQUENCE | how
        model = HorizontalBoostingClassifier(
            max_iter=N_TREES, random_state=0, n_jobs=jobs, **chosen
        )
        return model.fit(split.X, split.y, party=party)

    def lightgbm() -> Any:
        model = LGBMClassifier(
            n_estimators=N_TREES, max_depth=DEPTH, num_leaves=2**DEPTH, n_jobs=jobs, verbose=-1,
            force_col_wise=True,
        )  # fmt: skip
        return model.fit(split.X, split.y)

    def xgboost() -> Any:
        model = XGBClassifier(
            n_estimators=N_TREES, max_depth=DEPTH, learning_rate=RATE, max_bin=255, n_jobs=jobs
        )
        return model.fit(split.X, split.y)

    default = {"batch_trees": 10, "learning_rate": 0.6, "max_depth": 8}
    default |= {"subsample": 0.8, "colsample_bytree": 0.6}
    cases: dict[str, Callable[[], Any]] = {
        "one party": ours,
        "five parties": lambda: ours(site),
        "five parties, masked": lambda: ours(site, secure_sum=True),
        "one party, batches": lambda: ours(**default),
        "five parties, batches": lambda: ours(site, **default),
        "five parties, batches, masked": lambda: ours(site, secure_sum=True, **default),
        "LightGBM": lightgbm,
        "XGBoost": xgboost,
    }
    for case in cases.values():
        case()  # kernels are compiled, threads begun
    clock = timed_by_cpu if asked.one_thread else timed
    samples, models = interleaved(cases, 1 if asked.fast else asked.repeats, clock=clock)
    rows = [
        {
            "model": name,
            "seconds": median(samples[name]),
            "times one party": ratio(samples[name], samples["one party"]),
            "foreign CPU": foreign(samples[name]),
            "AUC": roc_auc_score(split.y_test, models[name].predict_proba(split.X_test)[:, 1]),
            **traffic(models[name]),
        }
        for name in cases
    ]
    predicting = {name: models[name] for name in ("one party", "LightGBM")}
    seen, _ = interleaved(
        {name: lambda m=m: m.predict_proba(split.X) for name, m in predicting.items()},
        3,
        clock=clock,
    )
    rows.append(
        {
            "model": "LightGBM predicting, of our time",
            "seconds": median(seen["LightGBM"]),
            "times one party": ratio(seen["LightGBM"], seen["one party"]),
        }
    )
    unit = "CPU seconds on one thread" if asked.one_thread else "seconds"
    table(f"{len(split.X):,} x 30, {N_TREES} trees, depth {DEPTH}, {unit}", rows)
    return rows


def traffic(model: Any) -> dict[str, Any]:
    """Return the rounds, and megabytes from and to the busiest party."""
    if not hasattr(model, "report_"):
        return {}
    rounds = model.report_.traffic
    parties = rounds[0].bytes_up
    up = max(sum(one.bytes_up[name] for one in rounds) for name in parties)
    down = max(sum(one.bytes_down[name] for one in rounds) for name in parties)
    return {"rounds": len(rounds), "MB up": up / 1e6, "MB down": down / 1e6}


def rivals(is_class: bool) -> dict[str, Any]:  # noqa: FBT001
    """Return models at equal trees, depth and rate, and our default."""
    ours = HorizontalBoostingClassifier if is_class else HorizontalBoostingRegressor
    how: dict[str, Any] = {"n_estimators": N_TREES, "max_depth": DEPTH, "n_jobs": 1}
    theirs = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
    alone: dict[str, Any] = {"max_iter": N_TREES, "random_state": 0, "n_jobs": 1}
    return {
        SEQUENCE: ours(**alone, **IN_SEQUENCE | OF_FEW_ROWS),
        "in sequence, leaves of 20": ours(**alone, **IN_SEQUENCE),
        BATCHES: ours(**alone),
        "LightGBM": (LGBMClassifier if is_class else LGBMRegressor)(
            num_leaves=2**DEPTH, verbose=-1, **how
        ),
        "XGBoost": (XGBClassifier if is_class else XGBRegressor)(
            learning_rate=RATE, enable_categorical=True, **how
        ),
        "scikit-learn": theirs(
            max_iter=N_TREES, max_depth=DEPTH, max_leaf_nodes=2**DEPTH, early_stopping=False
        ),
    }


def scored(n_splits: int, most: int) -> pd.DataFrame:
    """Return the AUC, or RMSE, of each model on each split of each table; compute at most some."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "bench_boosting_quality.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    known = [json.loads(line) for line in lines]
    done = {(one["table"], one["split"], one["model"]) for one in known}
    for name in TABLES:
        frame = pd.read_parquet(SHARED / f"{name}.parquet")
        X, y = frame.drop(columns="target"), frame["target"]
        X.columns = [f"x{number}" for number in range(X.shape[1])]  # LightGBM refuses some names
        is_class = y.dtype == "category"
        y = y.cat.codes if is_class else y
        for split in range(n_splits):
            stratify = y if is_class else None
            parts = train_test_split(X, y, test_size=0.25, random_state=split, stratify=stratify)
            for kind, model in rivals(is_class).items():
                if (name, split, kind) in done or len(known) == len(done) + most:
                    continue
                found = {"table": name, "split": split, "model": kind, "is_class": is_class}
                known.append(found | {"score": score(model, *parts)})
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(known[-1]) + "\n")
    scores = pd.DataFrame(known)
    return scores[(scores["split"] < n_splits) & scores["table"].isin(TABLES)]


def quality(scores: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the mean score of each model on each table."""
    means = scores.pivot_table(index="table", columns="model", values="score", sort=False)
    rows = [{"table": name, **line.to_dict()} for name, line in means.iterrows()]
    table(f"AUC, or RMSE, {scores['split'].nunique()} splits", rows)
    return rows


def differences(scores: pd.DataFrame) -> list[dict[str, Any]]:
    """Return how our models differ from the others: mean AUC, the worst table, RMSE as a ratio."""
    rows = []
    for ours in (SEQUENCE, "in sequence, leaves of 20", BATCHES):
        for theirs in ("LightGBM", "XGBoost", "scikit-learn", "in sequence, leaves of 20"):
            found: dict[str, Any] = {"ours": ours, "theirs": theirs}
            for is_class, kept in scores.groupby("is_class"):
                means = kept.pivot_table(index="table", columns="model", values="score")
                if is_class:
                    apart = means[ours] - means[theirs]
                    found |= {"AUC": apart.mean(), "worst": apart.min(), "at": apart.idxmin()}
                else:
                    found |= {"RMSE, times": float((means[ours] / means[theirs]).mean())}
            rows.append(found)
    table("ours against theirs", rows)
    return rows


def score(model: Any, X: Any, X_test: Any, y: Any, y_test: Any) -> float:
    """Return the AUC or the RMSE of a model on held-out rows."""
    model.fit(X, y)
    if not hasattr(model, "predict_proba"):
        return float(root_mean_squared_error(y_test, model.predict(X_test)))
    shares = model.predict_proba(X_test)
    shares = shares[:, 1] if shares.shape[1] == 2 else shares
    return float(roc_auc_score(y_test, shares, multi_class="ovr"))


if __name__ == "__main__":
    main()
