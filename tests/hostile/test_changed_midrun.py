"""What changes while a run waits: a rule, a table, a file; models and leads that are made up."""

from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from deployed.handmade import (  # type: ignore[import-not-found]
    ASKER,
    CLINICS,
    EXAMPLES,
    Authority,
    Sites,
    agreed_job,
    attempt_of,
    clinics_in,
    coordinator_in,
    write_party,
)
from spinney.deployment.coordinator.process import Run
from spinney.deployment.evaluation import digest_of
from spinney.deployment.identity import KitIdentity
from spinney.deployment.job import EVALUATE, Agreed, words_signed
from spinney.deployment.party.config import load_party
from spinney.deployment.party.gate import admit
from spinney.deployment.party.pins import fingerprint_of
from spinney.errors import PolicyError, ProtocolError, TableError
from spinney.protocols.explanation import question_of
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.model import ForestModel
from spinney.protocols.verified.channel import VerifiedSums
from spinney.report.file_names import MODEL
from spinney.transport.remote.certificates import LEAD
from spinney.transport.remote.frames import Offer
from spinney.typing import silent

NORTH = 'source = "csv"\npath = "table.csv"\nrow_id = "visit"'


def train(job, channel):
    return job.spec.train(channel, job.protocol_settings(), n_jobs=1, progress=silent)


class Stopped(Exception):  # noqa: N818  it is no error
    """The coordinator dies here."""


class Dying(VerifiedSums):
    """A coordinator that dies after it has opened the third level, and asks for it again."""

    at: Any = None

    def sum(self, ask, *, quorum=None):
        state = (self._number, self._before, self._story)
        total = super().sum(ask, quorum=quorum)
        if isinstance(ask, LevelAsk) and len(ask.levels) == 2:
            self.at = (ask, state)
            raise Stopped
        return total

    def again(self, ask, state):
        self._number, self._before, self._story = state
        return super().sum(ask)


def opened_again(folder, change):
    """Open a level, change something at a party, and open the level again."""
    clinics_in(folder)
    (folder / "north" / "table.csv").write_bytes((EXAMPLES / "north.csv").read_bytes())
    write_party(folder, "north", table=NORTH)
    job = agreed_job(folder, secure_sum="true", max_depth="6")
    sites = Sites(folder, job)
    channel = Dying(sites.keyed())
    with pytest.raises(Stopped):
        train(job, channel)
    sites.close()
    change()
    sites = Sites(folder, job, attempt=2)
    try:
        return Dying(sites.keyed()).again(*channel.at)
    finally:
        sites.close()


def test_a_rule_that_hides_rows_does_not_change_within_a_run(tmp_path):
    """The sums before and after would differ by what the rule hides."""
    with pytest.raises(PolicyError, match=r"'min_own_rows' of this party changed since this run"):
        opened_again(
            tmp_path,
            lambda: write_party(tmp_path, "north", policy="min_own_rows = 20", table=NORTH),
        )


def test_a_run_does_not_go_on_with_another_table_though_the_job_was_accepted_again(tmp_path):
    def shorten():
        table = tmp_path / "north" / "table.csv"
        lines = table.read_text().splitlines(keepends=True)
        table.write_text("".join(lines[:-1]))
        for path in (tmp_path / "north" / "records" / "accepted").glob("*.json"):
            path.unlink()  # so it accepts the job anew

    with pytest.raises(TableError, match="The table changed since this run began"):
        opened_again(tmp_path, shorten)


def test_a_run_that_has_ended_takes_no_step_again(tmp_path):
    """Its steps are forgotten, so it would be told other sums, and be asked other questions."""
    clinics_in(tmp_path)
    job = agreed_job(tmp_path)
    sites = Sites(tmp_path, job)
    Run(coordinator_in(tmp_path), job, attempt_of(job), sites.bytes_to).conduct()
    sites.close()
    kept = tmp_path / "north" / "records" / "runs" / "run-1" / "steps"
    assert sorted(path.name for path in kept.iterdir()) == ["derived"]
    sites = Sites(tmp_path, job, attempt=2)
    with pytest.raises(ProtocolError, match="This run has ended at this party"):
        train(job, VerifiedSums(sites.keyed()))
    sites.close()


def test_nothing_that_opens_a_blind_run_is_left_when_it_has_ended(tmp_path):
    clinics_in(tmp_path)
    job = agreed_job(tmp_path, secure_sum="true", coordinator='"blind"')
    sites = Sites(tmp_path, job)
    Run(coordinator_in(tmp_path), job, attempt_of(job), sites.bytes_to).conduct()
    sites.close()
    for name in CLINICS:
        kept = tmp_path / name / "records" / "runs" / "run-1" / "steps"
        assert sorted(path.name for path in kept.iterdir()) == ["derived"]


def test_a_model_that_the_party_did_not_train_is_not_evaluated(tmp_path):
    """Trees that somebody makes up count the rows in any box."""
    clinics_in(tmp_path)
    job = agreed_job(tmp_path, secure_sum="true")
    sites = Sites(tmp_path, job, run="never-finished")
    model: Any = train(job, VerifiedSums(sites.keyed())).model
    sites.close()
    digest = digest_of(model.to_bytes())
    judging = msgspec.structs.replace(job, kind=EVALUATE, name="q3-evaluation", model=digest)
    sites = Sites(tmp_path, judging, run="run-2")
    with pytest.raises(PolicyError, match="has not trained the model that is to be evaluated"):
        sites.keyed().sum(question_of(model))
    sites.close()


def judged(folder, job, run, **changes):
    """Evaluate the model of a training of a job that says something else, and return the sum."""
    kept = (folder / "north" / "records" / "runs" / "run-1" / MODEL).read_bytes()
    name, digest = "q3-evaluation", digest_of(kept)
    asked = msgspec.structs.replace(job, kind=EVALUATE, name=name, model=digest, **changes)
    sites = Sites(folder, Agreed.of_bytes(asked.to_bytes()), run=run)
    try:
        return sites.keyed().sum(question_of(ForestModel.from_bytes(kept, name="the model")))
    finally:
        sites.close()


def test_a_model_is_evaluated_on_the_rows_that_its_own_training_held_back(tmp_path):
    """A lead that chose the rows by hand read the label of one row at a time, through masks."""
    clinics_in(tmp_path)
    job = agreed_job(tmp_path, secure_sum="true", held_out=0.25)
    sites = Sites(tmp_path, job)
    Run(coordinator_in(tmp_path), job, attempt_of(job), sites.bytes_to).conduct()
    sites.close()
    said = "This party trained the model that is to be evaluated in a job with other settings, "
    changed: list[dict[str, Any]] = [{"held_out": 0.00115}, {"held_out_seed": 7}, {"quorum": 2}]
    for n, changes in enumerate(changed):
        with pytest.raises(PolicyError, match=said):
            judged(tmp_path, job, f"other-{n}", **changes)
    assert int(judged(tmp_path, job, "same").judged[0].sum()) == 300


def test_an_exact_job_is_about_no_fewer_rows_than_a_leaf_may_hold(tmp_path):
    """North has 400 rows: one remains of a training that holds back all others."""
    clinics_in(tmp_path)
    write_party(tmp_path, "north", policy="min_samples_leaf = 101")
    job = agreed_job(tmp_path, secure_sum="true", held_out=0.25, min_samples_leaf=101)
    sites = Sites(tmp_path, job)
    Run(coordinator_in(tmp_path), job, attempt_of(job), sites.bytes_to).conduct()
    sites.close()
    said = "the job is about fewer than 101 rows of 'north', whose policy allows no leaf of so few"
    with pytest.raises(PolicyError, match=said):
        judged(tmp_path, job, "few")
    few = msgspec.structs.replace(job, name="q4", held_out=0.998)
    sites = Sites(tmp_path, few, run="run-2")
    with pytest.raises(PolicyError, match=said):
        train(few, VerifiedSums(sites.keyed()))
    sites.close()


def test_a_lead_whose_certificate_is_not_the_pinned_one_is_refused(tmp_path):
    """Whoever has the authority's key can sign a certificate in any name."""
    clinics_in(tmp_path)
    authority, true, false = Authority(), *(rsa.generate_private_key(65537, 2048) for _ in "ab")
    shown = {
        key: authority.signed(ASKER, key, role=LEAD).public_bytes(serialization.Encoding.PEM)
        for key in (true, false)
    }
    known = {
        name: (tmp_path / name / "kit" / "startup" / "client.crt").read_bytes()
        for name in ("st-mary", "lakeside")
    } | {ASKER: shown[true]}
    pins = "\n".join(f'"{name}" = "{fingerprint_of(one)}"' for name, one in known.items())
    write_party(tmp_path, "north", policy=f'askers = ["{ASKER}"]\n[policy.peers]\n{pins}')
    job = agreed_job(tmp_path)
    party = load_party(tmp_path / "north" / "party.toml")

    class Signing(KitIdentity):
        def __init__(self, key):
            self._key = key

    def offer(key):
        signature = Signing(key).sign(words_signed("run-1", job.to_bytes()))
        return Offer(1, "run-1", 1, CLINICS, job.to_bytes(), shown[key], signature)

    with pytest.raises(PolicyError, match=f"certificate of '{ASKER}' is not the one that"):
        admit(party, offer(false))
    side, *_ = admit(party, offer(true))
    side.close()
