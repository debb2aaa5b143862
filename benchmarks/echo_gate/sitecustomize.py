"""Where this folder is on a process's path, its kit lets the classes of `bench_deployed` in."""

import json
from collections.abc import Callable
from pathlib import Path

from spinney.transport.remote import kits


def let_in(settle: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return a step that settles a kit and then lets the benchmark's own classes in."""

    def settle_and_let_in(kit: Path) -> None:
        settle(kit)
        path = kit / "local" / "resources.json"
        settings = json.loads(path.read_text())
        settings["class_allow_list"].append("bench_deployed.")
        settings.pop("app_validator", None)
        path.write_text(json.dumps(settings))

    return settle_and_let_in


kits.settle_server, kits.settle_party = let_in(kits.settle_server), let_in(kits.settle_party)
