"""`spinney simulate JOB --skews ...`: what if the parties differ?"""

from pathlib import Path

from spinney.errors import SettingError
from spinney.simulation.progress import Stages
from spinney.simulation.sweep import Sweep, sweep_skews


def sweep(job: Path, skews: str, label: str | None, stages: Stages) -> Sweep:
    """Run a job at every skew that the command line names."""
    if label is not None:
        raise SettingError(
            "--skews needs a job file. Write one first: spinney check FILE --label NAME --write "
            "job.toml."
        )
    try:
        wanted = [float(one) for one in skews.split(",")]
    except ValueError:
        raise SettingError(
            f"--skews must be numbers with commas between them, such as 0,1,4; got {skews!r}."
        ) from None
    return sweep_skews(job, wanted, stages)
