"""`spinney demo`: five telephone companies predict together which customers will leave."""

from pathlib import Path

from spinney.jobs.file import SimulationConfig
from spinney.jobs.registry import spec_of
from spinney.jobs.rows import deal_out
from spinney.protocols import horizontal_forest
from spinney.protocols.settings import ForestSettings
from spinney.report.file_names import DEMO
from spinney.report.run_folder import require_no_run, require_writable
from spinney.simulation.comparison import Running, compare
from spinney.simulation.outcome import Outcome
from spinney.simulation.progress import Stages
from spinney.simulation.run import write_outcome
from spinney.simulation.telco import telco_table

PARTIES = ("north", "east", "south", "west", "centre")


FOLDER = Path(DEMO)


OPENING = (
    "Telco churn: which customers leave? Five simulated companies hold 7,043 customers. Each\n"
    "trains on 80 % of its own rows; all forests are scored on the rest. No row leaves its company."
)


def run_demo(n_trees: int, folder: Path | None, stages: Stages) -> Outcome:
    """Deal out the Telco table to five parties, train the forests, write the joint one.

    Parameters
    ----------
    n_trees
        The number of trees in each forest.
    folder
        The folder to write to; it must hold no run. Default: spinney-demo, with a number behind
        the name if that folder holds a run.
    stages
        Receives the progress.
    """
    settings = ForestSettings(
        task="classification",
        n_estimators=n_trees,
        max_depth=10,
        min_samples_leaf=5,
        max_features=0.5,
        class_weight="balanced",  # a quarter of the customers leave
    )
    require_writable(folder or FOLDER)
    if folder is not None:
        require_no_run(folder)
    stages.begin("reading the Telco table")
    simulation = SimulationConfig(n_parties=len(PARTIES), stratified=True)
    parties = deal_out(telco_table(), simulation, PARTIES)
    running = Running(spec_of(horizontal_forest.NAME))
    return write_outcome("demo", compare(parties, settings, running, stages), folder or FOLDER)
