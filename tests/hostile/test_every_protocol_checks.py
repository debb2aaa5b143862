"""Every protocol over rows: a told sum that is not the parties' sum ends the run."""

from dataclasses import replace

import pytest

from deployed.handmade import Sites, clinics_in  # type: ignore[import-not-found]
from deployed.test_every_protocol import EXACT, NOISY, job_of  # type: ignore[import-not-found]
from hostile.cheats import with_opened, with_sum  # type: ignore[import-not-found]
from spinney.errors import ProtocolError
from spinney.jobs.registry import SPECS
from spinney.protocols.verified.channel import VerifiedSums
from spinney.typing import silent

QUIETLY = (
    "private_tree distilled",
    "private_tree histograms",
    "private_forest",
    "private_boosting",
    "private_boosting regression",
    "extra_trees laplace",
)
CASES = {**EXACT, **{case: NOISY[case] for case in QUIETLY}}


class Changing(VerifiedSums):
    """A coordinator that adds one to a told sum, or swaps replies that all parties see."""

    changed = ""

    def _step(self, verb, ask):
        step = super()._step(verb, ask)
        if not self._before or not self._before[-1].results:
            return step
        self.changed = ask.called()
        told = with_opened(step, lambda opened: replace(opened, results=opened.results[::-1]))
        if len(self._before[-1].results) == 1:
            told = with_sum(step, lambda numbers: numbers.__setitem__(..., numbers + 1))
        return told.derived(ask).after(self._story)


def test_every_protocol_over_rows_is_tried():
    over_rows = {spec.name for spec in SPECS.values() if spec.divides == "rows"}
    assert {case.split()[0] for case in CASES} == over_rows


@pytest.mark.parametrize("case", CASES)
def test_a_changed_sum_of_any_protocol_ends_the_run(tmp_path, case):
    clinics_in(tmp_path)
    agreed = job_of(tmp_path, case, CASES[case])
    assert agreed.is_verified
    sites = Sites(tmp_path, agreed)
    channel = Changing(sites.keyed())
    with pytest.raises(ProtocolError, match="is not what the parties replied"):
        agreed.spec.train(channel, agreed.protocol_settings(), n_jobs=1, progress=silent)
    assert channel.changed
    sites.close()
