"""`spinney simulate FILE --label ...`: a file of one's own becomes a report with one command."""

import re

import numpy as np
import pytest

from spinney import load_model, load_report


def test_a_csv_with_gaps_and_odd_names_becomes_a_report_that_can_be_read(place):
    """A column whose splits ask only whether it is known has no number to look at."""
    random = np.random.default_rng(0)
    rows = []
    for number in range(300):
        known = random.random() < 0.6
        city = random.choice(["Köln", "東京", "<b>Roma</b>", ""])
        age = random.integers(18, 90)
        ill = "yes" if (not known) ^ (age > 60) else "no"
        rows.append(
            (number, age if known else "", city, "1.0" if random.random() < 0.5 else "", ill)
        )
    place.csv("own.csv", rows, header=("id", "age", "città", "flag", "left?"))
    told = place.run("simulate", "own.csv", "--label", "left?")
    assert told.exit_code == 0, told.stderr
    report = load_report("runs/own")
    assert np.isinf(load_model("runs/own").model_.forest.threshold).any()
    assert {one.column for one in report.explanation.dependence} == {"age", "città", "flag"}
    page = (place.folder / "runs/own/report.html").read_text(encoding="utf-8")
    assert "Infinity" not in re.findall(r'id="trees-head">(.*?)</script>', page)[0]
    assert place.run("report", "show", "runs/own").exit_code == 0


def test_a_csv_of_ones_own_becomes_a_report_with_one_command(place):
    told = place.run("simulate", "visits.csv", "--label", "ill")
    assert told.exit_code == 0, told.stderr
    assert "Page    runs/visits/report.html" in told.stdout
    assert "warning" in told.stderr  # its classes were read from the rows
    told = place.run("simulate", "visits.csv", "--label", "age", "--task", "regression")
    assert told.exit_code == 0, told.stderr
    code, line = place.refused("simulate", "visits.csv")
    assert code == 10
    assert line.endswith("not a job file. Say which of its columns to predict: --label NAME.")
    code, line = place.refused("simulate", "visits.csv", "--label", "sick")
    assert code == 21
    assert "The table has no column 'sick', the label. Name the column to predict: --label" in line
    code, line = place.refused("simulate", "visits.csv", "--label", "il")
    assert line.endswith("Did you mean 'ill'? It has: age, ward, ill.")


def test_an_empty_file_is_called_empty(place):
    (place.folder / "own.csv").write_text("")
    code, line = place.refused("simulate", "own.csv", "--label", "ill")
    assert code == 20
    assert "The CSV file is empty. Write the columns' names into its first line" in line


@pytest.mark.parametrize("as_text", [True, False])
def test_an_id_is_not_asked_about_and_that_is_said(place, as_text):
    ids = [f"P{n:04d}" if as_text else n + 1000 for n in range(120)]
    rows = [(one, *row) for one, row in zip(ids, place.visits(), strict=True)]
    place.csv("own.csv", rows, header=("patient", "age", "ward", "ill"))
    told = place.run("simulate", "own.csv", "--label", "ill")
    assert told.exit_code == 0, told.stderr
    assert "warning: Column 'patient' is unique in every row; it was left out as an" in told.stderr
    assert "list it among the columns of a job file" in told.stderr
    assert load_model("runs/own").model_.schema.names == ("age", "ward")


def test_of_several_ids_none_is_asked_about(place):
    rows = [(f"a{n}", f"b{n}", *row) for n, row in enumerate(place.visits())]
    place.csv("own.csv", rows, header=("patient", "mail", "age", "ward", "ill"))
    told = place.run("simulate", "own.csv", "--label", "ill")
    assert "warning: Columns 'patient', 'mail' are unique in every row" in told.stderr
    assert load_model("runs/own").model_.schema.names == ("age", "ward")


def test_what_only_looks_like_an_id_is_a_column(place):
    """Numbers that repeat, have gaps or are measured; and ids, where there is nothing else."""
    counted = [n if n != 7 else 8 for n in range(120)]
    rows = [
        (one, one + 0.5, row[0], row[2]) for one, row in zip(counted, place.visits(), strict=True)
    ]
    place.csv("own.csv", rows, header=("repeats", "halves", "age", "ill"))
    told = place.run("simulate", "own.csv", "--label", "ill")
    assert "unique in every row" not in told.stderr
    assert load_model("runs/own").model_.schema.names == ("repeats", "halves", "age")
    place.csv(
        "own.csv", [(n, row[2]) for n, row in enumerate(place.visits())], header=("id", "ill")
    )
    told = place.run("simulate", "own.csv", "--label", "ill")
    assert told.exit_code == 0, told.stderr
    assert load_model("runs/own-2").model_.schema.names == ("id",)
