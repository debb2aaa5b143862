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
    how = {name: _as_tuple(value) for name, value in json.loads(settings).items()}
    rows = dict(np.load(path))
    few = {name: rows[name][:_WARM_UP] for name in ("X", "y", "party")}
    trained(few, **how)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak begins anew
    held, before = _kilobytes("VmRSS"), resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    predict, facts = trained({name: rows[name] for name in few}, **how)
    seconds = time.perf_counter() - begin
    after, peak = resource.getrusage(resource.RUSAGE_SELF), _kilobytes("VmHWM")
    right = np.asarray(predict(rows["X_test"])).astype(int) == rows["y_test"]
    found = {
        "seconds": seconds,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak MB": (peak - held) / 1024,
        "accuracy": float(right.mean()),
        **facts,
    }
    print("\n" + json.dumps(found))


def _as_tuple(value):
    """Return JSON's lists as tuples, which some packages ask for."""
    return tuple(value) if isinstance(value, list) else value


def _kilobytes(name: str) -> int:
    """Return the memory that this process holds (VmRSS) or held at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()
