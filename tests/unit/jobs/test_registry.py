"""The registry of protocols and what job files may name."""

import pytest

from spinney.errors import SettingError
from spinney.jobs.file import PROTOCOLS
from spinney.jobs.registry import ENTRIES, entry_of


def test_job_files_may_name_the_registered_protocols_and_no_other():
    assert tuple(entry.name for entry in ENTRIES) == PROTOCOLS


def test_an_unknown_protocol_is_refused_by_name():
    with pytest.raises(SettingError, match=r"protocol must be .*got 'boosting'"):
        entry_of("boosting")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_questions_have_names_of_their_own_and_sums_are_among_them(entry):
    names = [ask.__name__ for ask in entry.asks]
    assert len(set(names)) == len(names)
    assert set(entry.summed) <= set(entry.asks)
