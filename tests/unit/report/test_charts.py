"""The page's small charts: round numbers on axes, every name written out, no empty columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.report.explained import Dependence, Explanation, Importance
from spinney.report.page.charts import Dot, dots, round_steps
from spinney.report.page.why import why
from spinney.report.report import Report


@given(st.floats(-100, 100), st.floats(1e-3, 1e3))
def test_an_axis_has_a_few_round_numbers(low, length):
    steps = round_steps(low, low + length)
    assert 3 <= len(steps) <= 7
    assert all(low - 1e-9 <= step <= low + length + 1e-9 for step in steps)


@pytest.mark.parametrize(
    ("low", "high", "steps"),
    [(0.128, 0.848, [0.2, 0.4, 0.6, 0.8]), (12, 61, [20, 30, 40, 50, 60])],
)
def test_round_numbers_are_those_a_person_would_choose(low, high, steps):
    assert round_steps(low, high) == steps


def test_parties_with_the_same_score_still_have_an_axis():
    drawn = dots("F1 at each party", [("a", [Dot("alone", 0.0)]), ("b", [Dot("alone", 0.0)])])
    assert drawn.count("<circle") == 3  # two parties and the key


def told(importances, classes, *dependence):
    explained = (
        Explanation("held-out", 240, "accuracy", 0.8, (), dependence) if dependence else None
    )
    report = Report(
        "horizontal_forest", ("a",), 1, 1, 3, (), (), {}, (), {},
        importances=importances, explanation=explained,
    )  # fmt: skip
    return why(report, classes)


def test_every_category_has_its_name_and_two_classes_one_line():
    ward = Dependence("ward", ("eye", "heart", "knee"), ((0.9, 0.1), (0.4, 0.6), (0.7, 0.3)))
    text = told((Importance("ward", 1.0, 0.2, 0.01),), ("no", "yes"), ward)
    assert all(f">{name}</text>" in text for name in ("eye", "heart", "knee"))
    assert "The mean predicted share of “yes” over 240 held-out rows of all parties" in text
    assert 'class="key"' not in text
    assert "yes: 0.6 at heart" in text


def test_lines_of_more_classes_are_named_not_only_coloured():
    age = Dependence("age", (1.0, 2.0), ((0.1, 0.2, 0.7), (0.3, 0.3, 0.4)))
    text = told((Importance("age", 1.0, 0.2, 0.01),), ("<b>", "mid", "old"), age)
    assert text.count('class="key"') == 3
    assert "&lt;b&gt;</span>" in text
    assert "The mean predicted share of each class over" in text


def test_what_was_not_asked_has_no_empty_columns():
    assert "permutation</th>" not in told((Importance("age", 1.0),), ("no", "yes"))
    half = told((Importance("age", 0.9, 0.1, 0.02), Importance("ward", 0.1)), ("no", "yes"))
    assert "0.1000 ± 0.0200" in half
    assert 'data-label="permutation">-</td>' in half


def test_no_column_is_said_to_matter_where_none_does():
    age = Dependence("age", (1.0, 2.0), ((0.1, 0.9), (0.1, 0.9)))
    idle = (Importance("age", 0.7, 0.0, 0.0), Importance("ward", 0.3, 0.0, 0.0))
    none = told(idle, ("n", "y"), age)
    assert "No column matters by permutation importance" in none
    some = told((Importance("age", 0.7, 0.01, 0.0), Importance("ward", 0.3)), ("n", "y"), age)
    assert "age matters most by permutation importance" in some
