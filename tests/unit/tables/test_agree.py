"""Parties' schemas are compared, and every difference is named."""

import pytest

from spinney.errors import SchemaError, SettingError
from spinney.tables.agree import agree
from spinney.tables.schema import Column, Label, Schema

LABEL = Label("ill", "class", ("no", "yes"))
AGE = Column("age", "number", range=(0, 110))
WARD = Column("ward", "category", categories=("surgery", "other"))


def test_equal_schemas_agree():
    schema = Schema((AGE, WARD), LABEL)
    assert agree({"north": schema, "south": schema}) == schema


def test_another_order_is_a_difference():
    turned = Schema(
        (Column("ward", "category", categories=("other", "surgery")), AGE),
        Label("ill", "class", ("yes", "no")),
    )
    with pytest.raises(SchemaError) as refusal:
        agree({"north": Schema((AGE, WARD), LABEL), "south": turned})
    text = refusal.value.public
    assert "Party 'south' orders its columns differently from party 'north': ward, age." in text
    assert "Declare them at both in the order age, ward." in text
    assert text.count("Only their order differs, and the order matters.") == 2


@pytest.mark.parametrize(
    ("theirs", "wording"),
    [
        (
            (Schema((WARD,), LABEL)),
            (
                r"Party 'south' has no column 'age', which party 'north' has\. It has: ward\. "
                "Rename it, or drop it from the job"
            ),
        ),
        (
            Schema((AGE, WARD, Column("sex", "boolean")), LABEL),
            "Party 'south' has a column 'sex', which party 'north' does not have",
        ),
        (
            Schema((Column("age", "number", range=(0, 120)), WARD), LABEL),
            (
                r"Party 'south' declares range \[0\.0, 120\.0\] for column 'age'; party 'north' "
                r"declares \[0\.0, 110\.0\]\. Declare the same range at both"
            ),
        ),
        (
            Schema((Column("age", "number"), WARD), LABEL),
            "Party 'south' declares range nothing for column 'age'",
        ),
        (
            Schema((AGE, Column("ward", "category", categories=("surgery", "eye"))), LABEL),
            (
                r"categories \['surgery', 'eye'\] for column 'ward'; party 'north' declares "
                r"\['surgery', 'other'\].*Only one of them names 'other', 'eye'"
            ),
        ),
        (
            Schema((AGE, WARD), Label("ill", "class", ("no", "yes", "maybe"))),
            "Party 'south' declares classes .* for the label.* names 'maybe'",
        ),
        (
            Schema((AGE, WARD), Label("sick", "class", ("no", "yes"))),
            "declares name 'sick' for the label; party 'north' declares 'ill'",
        ),
        (
            Schema((AGE, WARD), Label("ill", "number")),
            "declares kind 'number' for the label; party 'north' declares 'class'",
        ),
    ],
)
def test_a_difference_names_party_column_and_both_values(theirs, wording):
    with pytest.raises(SchemaError, match=wording):
        agree({"north": Schema((AGE, WARD), LABEL), "south": theirs})


def test_a_difference_of_kind_is_told_once():
    theirs = Schema((Column("age", "category", categories=(1, 2)), WARD), LABEL)
    with pytest.raises(SchemaError) as caught:
        agree({"north": Schema((AGE, WARD), LABEL), "south": theirs})
    assert "declares kind 'category' for column 'age'" in caught.value.public
    assert "range" not in caught.value.public


def test_all_differences_of_all_parties_are_named_at_once():
    south = Schema((Column("age", "number", range=(0, 99)), WARD), LABEL)
    east = Schema((AGE,), Label("ill", "class", ("no", "YES")))
    with pytest.raises(SchemaError) as caught:
        agree({"north": Schema((AGE, WARD), LABEL), "south": south, "east": east})
    told = caught.value.public
    assert "'south' declares range" in told
    assert "'east' has no column 'ward'" in told
    assert "'east' declares classes" in told
    assert "'south' declares classes" not in told


def test_one_party_agrees_with_itself_and_none_is_refused():
    schema = Schema((AGE,), LABEL)
    assert agree({"north": schema}) == schema
    with pytest.raises(SettingError, match="no schemas to compare"):
        agree({})
