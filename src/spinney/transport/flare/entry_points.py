"""The classes that the engine loads by name: the only imports by string there are.

A start kit and an engine job name them in their files. This is the one place where a lower layer
knows of a higher one; a test imports each of them.
"""

from typing import Final

CONDUCTOR: Final = "spinney.deployment.coordinator.process.Conductor"
KEEPER: Final = "spinney.deployment.coordinator.supervisor.Keeper"
SITE: Final = "spinney.deployment.party.process.Site"
GATE: Final = "spinney.deployment.party.gate.Gate"
PLACE: Final = "spinney.deployment.place.Place"
LOG_FORMAT: Final = "spinney.deployment.logs.JsonLines"
EARLIER: Final = "spinney.service."
"""What earlier versions of Spinney called them began so."""
