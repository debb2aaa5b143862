"""Text and marks on a page can be told from its paper, light or dark."""

import re
from importlib.resources import files

import pytest

from spinney.report.page.charts import COLOURS, OTHER_STYLE, STYLE_OF_MODEL

LIGHT, DARK = "#ffffff", "#0d1117"


def brightness(colour):
    digits = colour.lstrip("#")
    digits = "".join(2 * one for one in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """The ratio that WCAG 2 defines."""
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("paper", [LIGHT, DARK])
def test_marks_have_a_contrast_of_three(paper):
    marks = (*COLOURS, OTHER_STYLE[0], *(colour for colour, _ in STYLE_OF_MODEL.values()))
    assert min(contrast(mark, paper) for mark in marks) >= 3


def test_texts_have_a_contrast_of_four_and_a_half():
    css = (files("spinney.report.page") / "page.css").read_text(encoding="utf-8")
    for colours in re.findall(r":root \{([^}]*--warn[^}]*)\}", css):
        value = dict(re.findall(r"--(\w+): (#[0-9a-f]+)", colours))
        for ink in ("ink", "soft", "accent", "warn"):
            for paper in ("paper", "wash"):
                assert contrast(value[ink], value[paper]) >= 4.5, (ink, paper)


def test_the_drawing_has_the_charts_colours():
    script = (files("spinney.report.page") / "looks.js").read_text(encoding="utf-8")
    (listed,) = re.findall(r"COLOURS = \[(.*?)\]", script)
    assert tuple(re.findall("#[0-9a-f]{6}", listed)) == COLOURS
