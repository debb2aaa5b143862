"""What a job file means where it says nothing about leaves and masks, and which jobs are weaker.

The estimators keep scikit-learn's defaults. A job file is about other people's rows, so its
defaults are careful: leaves of at least five rows, and masked sums where three or more parties
join. They are written into the job that parties accept, so that a job which was accepted before
means what it meant. Jobs with noise keep their own rules, because noise hides small leaves and
single parties, and the ledger counts how well.
"""

from typing import Any, Final

import msgspec

from spinney.protocols.release_terms import Hardening
from spinney.protocols.spec import Spec, is_masked
from spinney.report.words import some

SMALLEST_LEAF: Final = 5
FEWEST_PARTIES: Final = 3
"""With fewer, each party can subtract its own counts from every sum."""


def careful_settings(spec: Spec[Any], given: Any, settings: Any, n_parties: int) -> Any:
    """Return the [settings] of a job without noise, with careful values where it gives none."""
    changes: dict[str, Any] = {}
    if getattr(given, "min_samples_leaf", 0) is None:
        changes["min_samples_leaf"] = SMALLEST_LEAF
    many = n_parties >= FEWEST_PARTIES
    if given.secure_sum is None and many and spec.masks(given, n_parties):
        changes["secure_sum"] = True
    is_masked = changes.get("secure_sum", given.secure_sum)
    if given.coordinator is None and many and is_masked and _can_be_blind(spec, settings):
        changes["coordinator"] = "blind"
    return msgspec.structs.replace(given, **changes)


def _can_be_blind(spec: Spec[Any], settings: Any) -> bool:
    return spec.is_verified(settings) and spec.permits_blind(settings)


def _sees_needlessly(spec: Spec[Any], given: Any, settings: Any) -> bool:
    by_rows = spec.divides == "rows"
    return by_rows and given.coordinator != "blind" and _can_be_blind(spec, settings)


def weaker_than_default(
    spec: Spec[Any], given: Any, settings: Any, n_parties: int, release: Hardening
) -> tuple[str, ...]:
    """Say by what a job was weaker than a job file's defaults; empty if it was not."""
    found = []
    if settings.privacy is None:
        least = spec.smallest_leaf(settings)
        if hasattr(given, "min_samples_leaf") and (
            isinstance(least, float) or least < SMALLEST_LEAF
        ):
            found.append(f"min_samples_leaf = {least}: a leaf may hold fewer than 5 rows")
        by_rows = spec.divides == "rows"
        if by_rows and n_parties >= FEWEST_PARTIES and not is_masked(given, settings):
            found.append("sums were not masked: the coordinator saw each party's own counts")
        elif n_parties >= FEWEST_PARTIES and _sees_needlessly(spec, given, settings):
            found.append('coordinator = "sighted": the coordinator saw the sums over parties')
        if by_rows and n_parties < FEWEST_PARTIES:
            told = some(n_parties, "party", "parties")
            found.append(f"{told}: each can subtract its own counts from every sum")
    name = release.shows_more_than(Hardening())
    if name:
        found.append(
            f"the model left with {release.told(name)}; the default is {Hardening().told(name)}"
        )
    return tuple(found)
