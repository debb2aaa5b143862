"""Deployed parties remember randomised labels beside their ledger, under a key of their own."""

import shutil
import stat

import msgspec
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    ASKER,
    CLINICS,
    EXAMPLES,
    Sites,
    agreed_job,
    kits,
    write_party,
)
from spinney.deployment.costs import cost_of
from spinney.deployment.job import PROPOSE
from spinney.deployment.party.config import load_party
from spinney.deployment.party.policy import Policy, check_policy
from spinney.deployment.party.tables import open_table
from spinney.deployment.questions import ProposalAsk
from spinney.errors import PolicyError, SettingError
from spinney.privacy.budget import Unit
from spinney.privacy.label_memory import LabelMemory
from spinney.privacy.ledger import Ledger
from spinney.protocols.verified.channel import VerifiedSums
from spinney.tables.holding import Holding
from spinney.tables.records import records_of


@pytest.fixture
def clinics(tmp_path):
    """Three parties, of which north may change its table."""
    kits(tmp_path)
    for name in CLINICS:
        own = tmp_path / name / "own.csv"
        own.parent.mkdir(exist_ok=True)
        shutil.copyfile(EXAMPLES / f"{name}.csv", own)
        write_party(tmp_path, name, table='source = "csv"\npath = "own.csv"\nrow_id = "visit"')
    return tmp_path


def extra_job(folder, name="one", kind="train", **settings):
    chosen = {"label_privacy": '"local"', "n_estimators": "3"} | settings
    job = agreed_job(folder, 'protocol = "extra_trees"', kind=kind, **chosen)
    return msgspec.structs.replace(job, name=name)


def trained(folder, name="one", **changes):
    agreed = msgspec.structs.replace(extra_job(folder, name), **changes)
    sites = Sites(folder, agreed, run=name)
    settings = agreed.protocol_settings()
    try:
        channel = VerifiedSums(sites.keyed())
        training = agreed.spec.train(channel, settings, n_jobs=1, progress=lambda *_: None)
        return training.model.to_bytes()
    finally:
        sites.close()


def turned(line):
    """Return a row with the other label."""
    cells, label = line.strip().rsplit(",", 1)
    return f"{cells},{'no' if label == 'yes' else 'yes'}\n"


def n_remembered(folder, party="north"):
    labels = folder / party / "labels"
    memory = LabelMemory.open(labels / "table.labels", labels / "table.key")
    (scheme,) = memory._answers
    return memory.n_known(scheme)


def spent(folder, name):
    ledger = Ledger.open(folder / "north" / "ledger.db")
    amount = ledger.spent(name, Unit.LABEL)
    ledger.close()
    return amount


def test_answers_are_kept_beside_the_ledger_and_paid_for_once(clinics):
    assert trained(clinics, "one") == trained(clinics, "two")
    folder = clinics / "north" / "labels"
    assert sorted(file.name for file in folder.iterdir()) == ["table.key", "table.labels"]
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (spent(clinics, "one"), spent(clinics, "two")) == (2, 0)
    assert n_remembered(clinics) == open_table(party(clinics), extra_job(clinics)).n_rows


def party(folder, name="north"):
    return load_party(folder / name / "party.toml")


def test_a_row_that_leaves_the_table_takes_its_answer_with_it(clinics):
    trained(clinics, "one")
    before = n_remembered(clinics)
    own = clinics / "north" / "own.csv"
    lines = own.read_text().splitlines(keepends=True)
    own.write_text("".join(lines[:-7]))
    trained(clinics, "two")
    assert n_remembered(clinics) == before - 7


def test_a_changed_label_does_not_end_the_job(clinics, caplog):
    trained(clinics, "one")
    own = clinics / "north" / "own.csv"
    lines = own.read_text().splitlines(keepends=True)
    own.write_text("".join([lines[0], turned(lines[1]), *lines[2:]]))
    trained(clinics, "two")
    assert "The labels of 1 records have changed since they were randomised" in caplog.text
    assert spent(clinics, "two") == 0


def test_rows_that_are_held_out_are_not_forgotten(clinics):
    trained(clinics, "one")
    before = n_remembered(clinics)
    trained(clinics, "two", held_out=0.5, held_out_seed=1)
    assert n_remembered(clinics) == before
    assert spent(clinics, "two") == 0


def test_whether_a_row_is_held_out_depends_on_no_other_row_and_on_no_label(clinics):
    agreed = msgspec.structs.replace(extra_job(clinics), held_out=0.5, held_out_seed=1)
    own = clinics / "north" / "own.csv"
    lines = own.read_text().splitlines(keepends=True)

    def kept():
        table = open_table(party(clinics), agreed)
        assert not isinstance(table, Holding)
        return set(records_of(table).ids.tolist())

    before = kept()
    assert 0.4 < len(before) / (len(lines) - 1) < 0.6
    turned = {"no\n": "yes\n", "yes\n": "no\n"}
    lines = [
        lines[0],
        *(",".join([*(p := line.split(","))[:-1], turned[p[-1]]]) for line in lines[2:]),
    ]
    own.write_text("".join(lines))
    after = kept()
    assert after <= before
    assert len(before - after) <= 1  # the row that left


def test_rows_without_an_id_cannot_be_remembered(clinics):
    write_party(clinics, "north", table='source = "csv"\npath = "own.csv"')
    job = extra_job(clinics, kind=PROPOSE)
    words = "remembers the answer by the record's id, but the party's [table] names no row_id"
    reply = Sites(clinics, job).channel().ask(ProposalAsk(job.digest))["north"]
    assert not reply.accepts
    assert words in reply.reason
    with pytest.raises(SettingError, match="Name one there"):
        open_table(party(clinics), job)


def test_a_policy_knows_the_price_of_the_paper_s_filters(clinics):
    filters = extra_job(clinics, label_scheme='"bloom"')
    allowed = Policy(epsilon_per_job=4.0, trust_coordinator=True)
    with pytest.raises(PolicyError, match=r"asks for epsilon=8\.7889; .* allows 4"):
        check_policy("north", allowed, filters, ASKER)
    check_policy("north", allowed, extra_job(clinics), ASKER)
    assert cost_of(filters).epsilon == "8.7889"


def test_the_folder_is_the_party_s_choice(clinics):
    table = 'source = "csv"\npath = "own.csv"\nrow_id = "visit"'
    more = '[ledger]\ndata = "visits of 2026"\nlabels = "safe/place"\n'
    write_party(clinics, "north", table=table, more=more)
    trained(clinics)
    folder = clinics / "north" / "safe" / "place"
    assert {file.suffix for file in folder.iterdir()} == {".key", ".labels"}
    assert {file.stem for file in folder.iterdir()} == {"visits%20of%202026"}
