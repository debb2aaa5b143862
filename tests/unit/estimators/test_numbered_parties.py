"""Rows are dealt to parties by their labels, of any kind."""

import numpy as np
import pytest

from spinney.estimators.inputs import _numbered

LABELS = {
    "numbers": [3, -2, 7],
    "far numbers": [2**62, -(2**62), 0],
    "few letters": ["north", "south", "nord", ""],
    "beyond ASCII": ["ä", "b", "ß", "東京"],
    "many letters": [f"site {i:x} of {i * 7919}" for i in range(300)],
    "one": ["all"],
    "halves": [0.5, 1.5],
    "truths": [True, False],
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_are_numbered_as_when_they_are_sorted(case):
    drawn = np.random.default_rng(0).integers(0, len(LABELS[case]), 1000)
    labels = np.array(LABELS[case])[drawn]
    for given in (labels, labels[::2], labels[:1], labels[:0]):
        names, number = _numbered(given)
        expected, places = np.unique(given, return_inverse=True)
        assert np.array_equal(names, expected)
        assert np.array_equal(number, places)
