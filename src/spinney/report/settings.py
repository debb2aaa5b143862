"""A job's settings as a report holds them, and in words."""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

from msgspec import UNSET

from spinney.protocols.private_tree.settings import DISTILLED_LEAVES
from spinney.report.privacy import is_masked
from spinney.transport.channel import Round

_HONEST: Final = re.compile(r"while (\d+) of \d+ parties")
_FRACTION: Final = re.compile(r"\d+/\d+", re.ASCII)
_NAMES: Final = {"seed": "seed, made from random_state"}


def with_masks(settings: Mapping[str, object], rounds: Sequence[Round]) -> dict[str, Any]:
    """Return a training's settings, with `secure_sum` and `honest` as its rounds were asked.

    They say how a job runs, not what it grows, so the protocol's settings lack them.
    """
    masked = [r.protection for r in rounds if is_masked(r)]
    found = _without_unset(settings) | {"secure_sum": bool(masked)}
    if masked and (honest := _HONEST.search(masked[0])):
        found["honest"] = int(honest[1])
    return found


def _without_unset(settings: Mapping[str, object]) -> dict[str, Any]:
    """Return settings without those that are left out, at any depth."""
    return {
        name: _without_unset(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if value is not UNSET
    }


def settings_in_words(settings: Mapping[str, object]) -> dict[str, str]:
    """Return each setting as text; those of the privacy one by one, without what is not set."""
    told: dict[str, str] = {}
    for name, value in _applying(settings).items():
        if name == "privacy":
            told[name] = "no noise" if value is None else "noise"
        if isinstance(value, Mapping):
            inner = {
                f"{name}, {key}": one
                for key, one in value.items()
                if one is not None and one not in ((), [])
            }
            told |= settings_in_words(inner)
        elif name == "privacy":
            told |= {} if value is None else {f"{name}, label_epsilon": _word(value)}
        else:
            told[_NAMES.get(name, name)] = _word(value)
    return told


def _applying(settings: Mapping[str, object]) -> Mapping[str, object]:
    """Return the settings without those that this job has no use for."""
    privacy, unused = settings.get("privacy"), set[str]()
    if "bounds_share" in settings and settings.get("method") != "save_budget":
        unused.add("bounds_share")
    if settings.get("method") == "distilled":
        unused.add("n_bins")
    found = {name: value for name, value in settings.items() if name not in unused}
    if not isinstance(privacy, Mapping):
        return found
    is_tree = "bounds_share" in settings  # a private tree reads all rows, whatever is said
    unused = {"tree_rows"} if is_tree else set()
    if is_tree or privacy.get("tree_rows") != "sampled":
        unused.add("sample_rate")
    if privacy.get("mechanism") != "randomised_labels":
        unused.add("label_scheme")
    kept = {name: value for name, value in privacy.items() if name not in unused}
    if settings.get("method") == "distilled" and "leaf_share" in kept:
        kept["leaf_share"] = str(min(Fraction(str(kept["leaf_share"])), DISTILLED_LEAVES))
    return found | {"privacy": kept}


def _word(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and _FRACTION.fullmatch(value):
        return f"{float(Fraction(value)):g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_word, value))
    return str(value)
