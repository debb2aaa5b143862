"""The version of this library, and a warning if another one lies in the same folder."""

import os
import warnings

__version__ = "0.2.0"

# The index has a package "Spinney" (physics of solids) whose files land in the same folder. It has
# an `__about__.py`, which we do not. Everything imports this module, whichever was installed last.
if os.path.exists(os.path.join(os.path.dirname(__file__), "__about__.py")):  # noqa: PTH110, PTH118, PTH120  pathlib costs an import
    warnings.warn(
        "The files of another package, 'Spinney', lie in the folder of Spinney: run "
        "`pip uninstall spinney spinney-trees`, then `pip install spinney-trees`.",
        stacklevel=2,
    )
