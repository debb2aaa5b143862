"""Run one peer once, in whatever environment has it: python child.py adapter.py rows.npz settings.

Prints one line of JSON: seconds and CPU seconds of training, growth of peak memory, bytes that
travelled where they are known, accuracy. Training is first done on a few rows, untimed: what is
compiled or imported late is not counted. Nothing but numpy is needed here.
"""

import gc
import json
import resource
import runpy
import sys
import time
import warnings
from pathlib import Path

import numpy as np

_WARM_UP = 400


def main() -> None:
    warnings.simplefilter("ignore")
    adapter, path, settings = sys.argv[1:]
    sys.path.insert(0, str(Path(adapter).parent))
    trained = runpy.run_path(adapter)["trained"]
    how = json.loads(settings)
    rows = dict(np.load(path))
    few = {name: rows[name][:_WARM_UP] for name in ("X", "y", "party")}
    trained(few, **how)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    predict, facts = trained({name: rows[name] for name in few}, **how)
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    right = np.asarray(predict(rows["X_test"])).astype(int) == rows["y_test"]
    found = {
        "seconds": seconds,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak MB": (after.ru_maxrss - before.ru_maxrss) / 1024,
        "accuracy": float(right.mean()),
        **facts,
    }
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
