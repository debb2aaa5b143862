"""Three parties with different columns of the same customers, on a real federation."""

import json
from pathlib import Path

from deployed.loopback import CLINICS, EXAMPLES, Federation  # type: ignore[import-not-found]

LABEL_PARTY = CLINICS[0]
COLUMNS = {
    CLINICS[0]: (
        'age = { kind = "number", range = [18, 100] }\n'
        'balance = { kind = "number", range = [-10000, 100000] }\n'
    ),
    CLINICS[1]: 'mortgage = { kind = "boolean" }\n',
    CLINICS[2]: (
        'visits = { kind = "number", range = [0, 100] }\n'
        'basket = { kind = "number", range = [0, 1000] }\n'
        'branch = { kind = "category", values = ["city", "station", "village"] }\n'
    ),
}
_FILES = dict(zip(CLINICS, ("bank", "bank", "shop"), strict=True))


def _table(name: str) -> str:
    path = EXAMPLES / f"{_FILES[name]}.csv"
    return f'source = "csv"\npath = "{path}"\nquery = "from source"\nrow_id = "customer"\n'


def write_parties(federation: Federation) -> None:
    """Give every party its own columns of the bank's and the shop's customers."""
    for name in CLINICS:
        table = f"{_table(name)}[table.columns]\n{COLUMNS[name]}"
        federation.write_party(name, table, more='[ledger]\ndata = "customers"\n')


def write_job(federation: Federation, name: str, **settings: object) -> Path:
    """Write a job over those columns."""
    chosen = {
        "n_estimators": 4,
        "max_depth": 3,
        "bootstrap": False,  # two runs of one job draw other samples of rows
        "label_party": LABEL_PARTY,
        "matching": "keyed_hash",
    } | settings
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in chosen.items())
    parties = json.dumps(CLINICS)
    path = Path(federation.root) / "lead" / f"{name}.toml"
    path.write_text(
        f'[job]\nname = "{name}"\nprotocol = "vertical_forest"\nparties = {parties}\n'
        f'[settings]\n{lines}\n[schema]\nlabel = "left"\nclasses = ["no", "yes"]\n'
        "[simulation]\nheld_out = 0.0\n"
    )
    return path


def simulated(federation: Federation, path: Path) -> bytes:
    """Return the joined model of the same job as `spinney simulate` makes it."""
    tables = "\n".join(
        f'[[party]]\nname = "{name}"\n{_table(name)}[party.columns]\n{COLUMNS[name]}'
        for name in CLINICS
    )
    whole = path.with_name(f"simulated-{path.name}")
    whole.write_text(f"{path.read_text()}\n{tables}")
    out = path.with_suffix("")
    federation.spinney("simulate", str(whole), "--out", str(out))
    return (out / "model.spinney").read_bytes()
