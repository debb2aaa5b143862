"""Rows have one budget: a table that gets another name in the ledger is noticed."""

from contextlib import closing
from pathlib import Path

import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    EXAMPLES,
    agreed_job,
    clinics_in,
    write_party,
)
from spinney.deployment.party.config import load_party
from spinney.deployment.party.sources import bind_data, plain_id
from spinney.deployment.party.tables import open_ledger, read_whole_table
from spinney.errors import LedgerError, PolicyError
from spinney.privacy.ledger_store import Bound

TABLE = EXAMPLES / "north.csv"


@pytest.fixture
def clinics(tmp_path):
    return clinics_in(tmp_path)


def bind(folder: Path, data: str, path: Path = TABLE, row_id: str = 'row_id = "visit"') -> None:
    """Bind a name to a table, as a private job does."""
    table = f'source = "csv"\npath = "{path}"\n{row_id}'
    written = write_party(folder, "north", table=table, more=f'[ledger]\ndata = "{data}"\n')
    party, job = load_party(written), agreed_job(folder, 'protocol = "private_forest"', epsilon=1.0)
    with closing(open_ledger(party)) as ledger:
        bind_data(party, ledger, read_whole_table(party, job))


def bound_in(folder: Path) -> list[Bound]:
    party = load_party(folder / "north" / "party.toml")
    with closing(open_ledger(party)) as ledger:
        return [one for several in ledger.bindings().values() for one in several]


def written(folder: Path, lines: list[str]) -> Path:
    path = folder / "other.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_same_table_under_another_name_is_refused(clinics):
    bind(clinics, "visits")
    words = (
        r"Rows of the data set 'fresh' of 'north' are in its ledger under the name 'visits', and "
        r"rows have one budget \(rule 'data'\)\. Nothing was released\."
    )
    with pytest.raises(PolicyError, match=words) as refused:
        bind(clinics, "fresh")
    assert "Say data = 'visits' in [ledger]." in refused.value.local
    bind(clinics, "visits")
    assert len(bound_in(clinics)) == 1  # the same is not written again


@pytest.mark.parametrize("row_id", ['row_id = "visit"', ""])
def test_the_same_rows_in_another_file_are_noticed(clinics, row_id):
    bind(clinics, "visits", row_id=row_id)
    head, *rows = TABLE.read_text().splitlines()
    some = written(clinics, [head, *reversed(rows[: len(rows) // 3])])
    with pytest.raises(PolicyError, match="under the name 'visits', and rows have one budget"):
        bind(clinics, "fresh", some, row_id)


def test_other_rows_get_a_name_of_their_own_and_only_that(clinics):
    bind(clinics, "visits")
    others = EXAMPLES / "lakeside.csv"
    with pytest.raises(PolicyError, match=r"'visits' of 'north' is bound to another table \(rule"):
        bind(clinics, "visits", others)
    bind(clinics, "more", others)
    assert [one.data for one in bound_in(clinics)] == ["visits", "more"]


def test_a_table_that_moved_or_grew_keeps_its_name(clinics):
    bind(clinics, "visits")
    head, *rows = TABLE.read_text().splitlines()
    bind(clinics, "visits", written(clinics, [head, *rows[: len(rows) // 2]]))
    assert [one.words for one in bound_in(clinics)] == ["csv north.csv", "csv other.csv"]


def test_marks_made_with_a_lost_key_are_noticed(clinics):
    bind(clinics, "visits")
    key = clinics / "north" / "ledger.db.key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.unlink()
    with pytest.raises(LedgerError, match="The key beside the ledger is not the one that made"):
        bind(clinics, "visits")
    key.write_bytes(b"short")
    with pytest.raises(LedgerError, match="The key beside the ledger is damaged"):
        bind(clinics, "visits")


def rewritten(rows: list[str], write) -> list[str]:
    """Return rows with their ids, the first cell, written otherwise."""
    return [",".join([write(row.split(",")[0]), *row.split(",")[1:]]) for row in rows]


WRITINGS = {
    "with zeros": lambda text: text.replace("v", "v000"),
    "in other letters": lambda text: f" {text.upper()}" if text.islower() else text.lower(),
    "with marks": lambda text: text.replace("v", "V/"),
    "replaced": lambda text: f"new {hash(text)}",
}


@pytest.mark.parametrize("writing", WRITINGS)
def test_a_slice_with_ids_written_otherwise_is_noticed(clinics, writing):
    bind(clinics, "visits")
    head, *rows = TABLE.read_text().splitlines()
    part = rewritten(rows[3 : 3 + max(6, len(rows) // 30)], WRITINGS[writing])
    assert part[0] not in rows
    with pytest.raises(PolicyError, match="under the name 'visits', and rows have one budget"):
        bind(clinics, "fresh", written(clinics, [head, *part]))


@pytest.mark.parametrize(
    ("one", "other"),
    [("7", "007"), ("7", "7.0"), ("7", " 7 "), ("P-007", "p7"), ("a b", "AB"), ("0", "000")],
)
def test_ids_that_mean_the_same_are_one(one, other):
    assert plain_id(one) == plain_id(other)


@pytest.mark.parametrize(("one", "other"), [("7", "70"), ("7", "7.5"), ("a1", "a10"), ("1", "11")])
def test_ids_that_differ_stay_apart(one, other):
    assert plain_id(one) != plain_id(other)
