"""Where this folder is on a process's path, the process knows the tests' own protocol."""

import toy_protocol  # type: ignore[import-not-found]

from spinney.jobs.registry import SPECS

SPECS[toy_protocol.NAME] = toy_protocol.SPEC
