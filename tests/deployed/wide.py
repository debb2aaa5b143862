"""Tables large enough that a job on them can be interrupted in its middle."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd

from deployed.loopback import Federation  # type: ignore[import-not-found]

COLUMNS = tuple(f"x{number}" for number in range(12))


def write_tables(federation: Federation, n_rows: int = 12_000) -> None:
    """Give every party a table of its own."""
    for number, name in enumerate(federation.parties):
        random = np.random.RandomState(number)
        cells = np.round(random.standard_normal((n_rows, len(COLUMNS))), 3)
        score = cells[:, 0] * cells[:, 1] + cells[:, 2] + random.standard_normal(n_rows)
        frame = pd.DataFrame(cells, columns=COLUMNS)
        frame["sick"] = np.where(score > 0, "yes", "no")
        frame.to_csv(federation.root / name / "table.csv", index=False)
        write_party(federation, name)


def write_party(federation: Federation, name: str, policy: str = "", more: str = "") -> None:
    """Write a party's file over its table; every attempt at a job is a job to the engine."""
    table = 'source = "csv"\npath = "table.csv"\nquery = "from source"'
    federation.write_party(name, table, f"jobs_per_hour = 1000\n{policy}", more)


def write_job(
    federation: Federation, name: str, job: str = "", held_out: float = 0.0, **settings: object
) -> Path:
    """Write a job over those tables."""
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    facts = "\n".join(f'{column} = {{ kind = "number", range = [-9, 9] }}' for column in COLUMNS)
    parties = json.dumps(list(federation.parties))
    path = Path(federation.root) / "lead" / f"{name}.toml"
    head = f'[job]\nname = "{name}"\nparties = {parties}\n{job}\n[settings]\n{lines}\n'
    schema = f'[schema]\nlabel = "sick"\nclasses = ["no", "yes"]\n[schema.columns]\n{facts}\n'
    path.write_text(f"{head}{schema}[simulation]\nheld_out = {held_out}\n")
    return path


def simulated(federation: Federation, path: Path) -> bytes:
    """Return the model bytes of the same job in one process; jobs of the same settings share it."""
    settings = path.read_text().partition("[settings]")[2]
    out = path.with_name(f"simulated-{sha256(settings.encode()).hexdigest()[:16]}")
    if not out.exists():
        tables = "\n".join(
            f'[[party]]\nname = "{name}"\nsource = "csv"\npath = "../{name}/table.csv"\n'
            for name in federation.parties
        )
        whole = out.with_suffix(".toml")
        whole.write_text(f"{path.read_text()}\n{tables}")
        federation.spinney("simulate", str(whole), "--out", str(out))
    return (out / "model.spinney").read_bytes()
