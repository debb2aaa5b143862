"""`spinney coordinator status`: whether it runs, who is connected, and what needs attention."""

from pathlib import Path
from typing import Any

from spinney.deployment.condition import (
    certificate_facts,
    connected_in,
    disk_facts,
    process_facts,
    warnings_of,
)
from spinney.deployment.coordinator.config import load_coordinator
from spinney.deployment.coordinator.heads import KeptHeads
from spinney.deployment.coordinator.measures import runs_by_state
from spinney.deployment.expiry import authority_of, authority_warning, coordinator_warning
from spinney.deployment.process import is_running
from spinney.transport.remote import kits


def status(path: Path) -> dict[str, Any]:
    """Return a coordinator's status."""
    file = load_coordinator(path)
    running = is_running(file.kit)
    facts: dict[str, Any] = {"coordinator": file.coordinator.name}
    facts |= process_facts(file.kit, running=running)
    facts["ports"] = f"{file.address.port} for parties, {file.address.admin_port} for people"
    facts["connected"] = connected_in(file.kit, running=running)
    facts["disk"] = disk_facts(file.runs)
    facts["runs"] = runs_by_state(file)
    expiring = []
    if (file.kit / "startup").exists():
        own = kits.certificate_in(file.kit, "server", "spinney coordinator init")
        facts["certificate"] = certificate_facts(own)
        facts["ledgers"] = KeptHeads(file.kit).ends()
        facts["authority"] = certificate_facts(authority_of(file.kit))
        expiring = [coordinator_warning(file.kit, path.name)(), authority_warning(file.kit)()]
    facts["kit"] = "none" if not (file.kit / "startup").exists() else str(file.kit)
    facts["warnings"] = warnings_of(facts, expiring)
    return facts
