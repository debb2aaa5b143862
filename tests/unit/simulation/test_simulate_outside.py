"""A simulated private job changes what lies outside its schema, as real parties do, and warns."""

import shutil
from pathlib import Path

import pytest

from spinney.errors import SchemaError, SpinneyWarning
from spinney.simulation.progress import Stages
from spinney.simulation.run import simulate

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
ODD = "v9999,inf,2,1,nowhere,true,perhaps"
ODD_BANK = "c99999,old,1,true,perhaps"


def copied(folder, job, odd):
    """Copy an example's job and tables; one table gets one more row."""
    for path in EXAMPLES.glob("*.csv"):
        shutil.copyfile(path, folder / path.name)
    for name, line in odd.items():
        end = b"\r\n" if b"\r\n" in (folder / name).read_bytes() else b"\n"
        with (folder / name).open("ab") as file:
            file.write(line.encode() + end)
    path = folder / "job.toml"
    path.write_text(job)
    return path


@pytest.mark.filterwarnings("ignore:Several parties hold the same rows")
def test_rows_outside_the_schema_are_changed_with_a_warning(tmp_path):
    job = (EXAMPLES / "private_clinics.toml").read_text()
    path = copied(tmp_path, job, {"north.csv": ODD})
    with pytest.warns(SpinneyWarning, match="Values outside the schema were changed") as caught:
        simulate(path, tmp_path / "run", Stages())
    told = next(str(one.message) for one in caught if "outside" in str(one.message))
    assert "Column 'ward': 1 cell is not declared and counts as 'other'." in told
    assert "Label 'readmitted': 1 row has no label and is left out." in told
    exact = job.replace("epsilon = 4.0", "").replace('mechanism = "noisy_histograms"', "")
    exact = exact.replace('tree_rows = "disjoint"', "")
    with pytest.raises(SchemaError, match="holds a category that the schema does not name"):
        simulate(copied(tmp_path, exact, {"north.csv": ODD.replace("inf", "5")}), None, Stages())


def test_a_label_party_keeps_rows_without_a_label(tmp_path):
    job = (EXAMPLES / "bank_and_shop.toml").read_text()
    job = job.replace("n_estimators = 100", "n_estimators = 3\nlabel_epsilon = 4")
    path = copied(tmp_path, job, {"bank.csv": ODD_BANK, "shop.csv": "c99999,1,2,city"})
    with pytest.warns(SpinneyWarning, match="Values outside the schema were changed") as caught:
        simulate(path, tmp_path / "run", Stages())
    told = " ".join(str(one.message) for one in caught)
    assert "Column 'age': 1 cell is no number and counts as missing." in told
    assert "Label 'left': 1 row has no label and is given a class at random." in told
