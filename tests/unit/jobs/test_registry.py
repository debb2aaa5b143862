"""The registry of protocols: what each states, and what job files may name."""

import msgspec
import pytest

from spinney.errors import SettingError
from spinney.jobs.registry import SPECS, spec_of
from spinney.jobs.sections import section

WITHOUT_NOISE = ("vertical_forest", "vertical_boosting", "horizontal_boosting")
RUNNING = ("random_state", "n_jobs", "secure_sum", "honest")  # keys that every job file may have


def test_an_unknown_protocol_is_refused_by_name():
    with pytest.raises(SettingError, match=r"protocol must be .*got 'boosting'"):
        spec_of("boosting")
    with pytest.raises(SettingError, match=r"got 'private_tre'\. Did you mean 'private_tree'\?"):
        spec_of("private_tre")


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_known_keys_are_those_that_a_job_file_may_set(spec):
    with pytest.raises(SettingError, match="Known keys: ") as refused:
        section({"settings": {"zzz": 1}}, "settings", spec.job_settings, "'job.toml'")
    known = str(refused.value).split("Known keys: ")[1].rstrip(".").split(", ")
    assert "max_leaf_nodes" not in known
    assert ("epsilon" in known) == (spec.name not in WITHOUT_NOISE)


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_questions_have_names_of_their_own_and_sums_are_among_them(spec):
    names = [ask.__name__ for ask in spec.asks]
    assert len(set(names)) == len(names)
    assert set(spec.summed) <= set(spec.asks)


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_a_job_file_of_any_protocol_says_how_it_runs(spec):
    fields = {field.name: field.default for field in msgspec.structs.fields(spec.job_settings)}
    assert set(RUNNING) <= set(fields)
    others = {name: default for name, default in fields.items() if name != "random_state"}
    assert set(others.values()) == {None}  # what is left out has the estimator's default
    assert fields["random_state"] == 0
