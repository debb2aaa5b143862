"""Python reads this at its start: in every process of a side whose clock is wrong in a test.

gRPC alone is told the true time: it hands deadlines to its C core, which has the machine's clock.
(For that reason a clock that is faked below Python, as by libfaketime, stops it altogether.)
"""

import os
import sys
import time

_true = time.time
_ahead = float(os.environ["SPINNEY_TEST_AHEAD"])


def _wrong() -> float:
    caller = sys._getframe(1).f_globals.get("__name__", "")
    return _true() + (0.0 if caller.startswith("grpc") else _ahead)


time.time = _wrong
