"""FATE's SecureBoost on the rows of `bench_vertical_boosting.py`, with its own Paillier encryption.

FATE needs an environment of its own: pip install pyfate "pandas<2.2" "numpy<2" scikit-learn. Its
two parties run as processes and print how long one tree of depth 6 took; the key has 1024 bits,
which is not an option. Run there:
ROWS=5000 python benchmarks/fate_secureboost.py --parties guest:9999 host:10000 --log_level ERROR
"""

import os
import time
from typing import Any

import pandas as pd
from fate.arch.dataframe import PandasReader
from fate.arch.launchers.multiprocess_launcher import launch
from fate.ml.ensemble.algo.secureboost.hetero.guest import HeteroSecureBoostGuest
from fate.ml.ensemble.algo.secureboost.hetero.host import HeteroSecureBoostHost
from sklearn.datasets import make_classification

_ROWS = int(os.environ.get("ROWS", "5000"))
_TREE = {"num_trees": 1, "max_depth": 6, "max_bin": 32}


def _held(ctx: Any) -> Any:
    """Return the columns of a party, and at the guest the labels."""
    X, y = make_classification(20_000, 40, n_informative=16, random_state=0)
    columns = range(20) if ctx.is_on_guest else range(20, 40)
    table = pd.DataFrame({f"x{column}": X[:_ROWS, column] for column in columns})
    table["sample_id"] = table["match_id"] = [str(row) for row in range(_ROWS)]
    names = {"sample_id_name": "sample_id", "match_id_name": "match_id", "dtype": "float32"}
    if ctx.is_on_guest:
        table["y"], names["label_name"] = y[:_ROWS], "y"
    return PandasReader(**names).to_frame(ctx, table)


def _run(ctx: Any) -> None:
    """Train as one of the parties."""
    rows = _held(ctx)
    if ctx.is_on_guest:
        booster = HeteroSecureBoostGuest(objective="binary:bce", learning_rate=0.1, **_TREE)
    else:
        booster = HeteroSecureBoostHost(**_TREE)
    begin = time.perf_counter()
    booster.fit(ctx, rows)
    print(f"{_ROWS} rows, a tree: {time.perf_counter() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    launch(_run)
