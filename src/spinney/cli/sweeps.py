"""`spinney simulate JOB --skews ...`, `--sizes ...`, `--by ...`: what if the parties differ?"""

from math import isfinite
from pathlib import Path
from typing import Final

from spinney.errors import SettingError
from spinney.simulation.progress import Stages
from spinney.simulation.sweep import Over, Sweep, sweep_deals

_OVER: Final[dict[str, Over]] = {"--skews": "skew", "--sizes": "size", "--by": "by"}


def sweep(
    job: Path, asked: dict[str, str], label: str | None, out: Path | None, stages: Stages
) -> Sweep:
    """Run a job in every deal that the command line names, by option."""
    if len(asked) > 1:
        raise SettingError(
            f"{' and '.join(asked)} cannot be used together: each deals out the rows its own way."
        )
    ((option, said),) = asked.items()
    if label is not None:
        raise SettingError(
            f"{option} needs a job file. Write one first: spinney check FILE --label NAME --write "
            "job.toml."
        )
    if out is not None:
        raise SettingError(
            f"{option} writes nothing, so there is nothing for --out. Leave --out away; --json "
            "prints what a program can read."
        )
    over = _OVER[option]
    deals = [*dict.fromkeys(said.split(","))] if over == "by" else _numbers(option, said)
    return sweep_deals(job, over, deals, stages)


def _numbers(option: str, said: str) -> list[float]:
    least, example = (0, "0,1,4") if option == "--skews" else (1, "1,4,16")
    try:
        wanted = sorted({float(one) for one in said.split(",")})
    except ValueError:
        wanted = []
    if not wanted or wanted[0] < least or not all(map(isfinite, wanted)):
        raise SettingError(
            f"{option} must be numbers of at least {least} with commas between them, such as "
            f"{example}; got {said!r}."
        )
    return wanted
