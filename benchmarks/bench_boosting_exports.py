"""Boosted trees in other runtimes, on every table of the shared data: the largest difference.

Each export (ONNX, treelite, LightGBM's text, scikit-learn's boosting) predicts the same rows in its
own runtime. ONNX and treelite are float32, the others float64.
Run: python benchmarks/bench_boosting_exports.py [--fast] [--rows 3000]
"""

import warnings
from typing import Any

import lightgbm
import numpy as np
import onnxruntime
import pandas as pd
import treelite

from data import SHARED
from harness import arguments, save, table
from spinney import HorizontalBoostingClassifier, HorizontalBoostingRegressor


def main() -> None:
    warnings.simplefilter("ignore")
    asked = arguments(__doc__, rows=3000)
    names = sorted(path.stem for path in SHARED.glob("*.parquet"))
    rows = []
    for name in names[:3] if asked.fast else names:
        frame = pd.read_parquet(SHARED / f"{name}.parquet")
        frame = frame.sample(min(len(frame), asked.rows), random_state=0)
        rows.append({"table": name} | judged(frame.drop(columns="target"), frame["target"]))
        print(rows[-1], flush=True)
    table("largest difference of a prediction, over that of the largest prediction", rows)
    save("bench_boosting_exports", "relative difference", {"exports": rows})


def judged(X: Any, y: Any) -> dict[str, float]:
    """Return how far each runtime's predictions are from ours."""
    is_class = y.dtype == "category"
    y = y.cat.remove_unused_categories() if is_class else y
    kind = HorizontalBoostingClassifier if is_class else HorizontalBoostingRegressor
    model = kind(max_iter=20, random_state=0, n_jobs=1).fit(X, y)
    encoded = model.encoded(X)

    def predicted(which: Any) -> Any:
        return which.predict_proba(X) if is_class else which.predict(X)[:, None]

    ours = predicted(model)
    short = ours[:, 1:] if ours.shape[1] == 2 else ours
    session = onnxruntime.InferenceSession(model.to_onnx().SerializeToString())
    booster = lightgbm.Booster(model_str=model.to_lightgbm())
    shape = (len(encoded), -1)
    found = {
        "ONNX": (session.run(None, {"X": encoded})[-1], ours),
        "treelite": (treelite.gtil.predict(model.to_treelite(), encoded).reshape(shape), short),
        "LightGBM": (booster.predict(encoded, num_threads=1).reshape(shape), short),
        "scikit-learn": (predicted(model.to_sklearn()), ours),
    }
    return {
        name: float(np.abs(theirs - own).max() / np.abs(own).max())
        for name, (theirs, own) in found.items()
    }


if __name__ == "__main__":
    main()
