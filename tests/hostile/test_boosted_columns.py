"""Forged sums, gradients and batches against boosting over columns with encrypted labels."""

from dataclasses import replace
from typing import Any

import gmpy2
import numpy as np
import pytest

from spinney.errors import ProtocolError
from spinney.privacy.schemes import of_public_key
from spinney.protocols import vertical_boosting
from spinney.protocols.boosted.settings import Settings
from spinney.protocols.columns.encrypted_messages import ChooseAsk, SumsAsk
from spinney.protocols.columns.messages import GainAsk, SplitAsk
from spinney.protocols.columns.seat import seats_in_one_process
from spinney.protocols.vertical_boosting.job import BoostedJob
from spinney.protocols.vertical_boosting.matched import Party as MatchedBoosting
from spinney.protocols.vertical_boosting.messages import BatchAsk, BoostedLabelsAsk
from spinney.protocols.vertical_boosting.settings import MatchedSettings
from spinney.tables.columns import VectorColumns
from spinney.tables.holding import Holding
from spinney.tables.schema import Column, Label
from spinney.transport.in_process import InProcess

N = 80
ENDED = "Encrypted sums do not fit this job. The label party has ended the job and erased its key."
BOOSTED = Settings(
    task="classification", loss="log_loss", max_iter=2, batch_trees=1, max_depth=2,
    min_samples_leaf=3,
)  # fmt: skip


def sides(*, signed):
    random = np.random.RandomState(3)
    cells = random.standard_normal((2, N)).astype(np.float32)
    y = (cells[0] > 0).astype(np.int32)
    names = ("bank", "shop")
    seats = seats_in_one_process(names, "bank") if signed else dict.fromkeys(names)
    columns = (Column("visits", "number"), Column("basket", "number"))
    bank = Holding(N, (), None, Label("left", "class", ("no", "yes")), y)
    shop = Holding(N, columns, VectorColumns(tuple(cells)))
    held = {"bank": bank, "shop": shop}
    return {
        name: vertical_boosting.Party(one, n_jobs=1, seat=seats[name]) for name, one in held.items()
    }


def sides_that_both_have_columns():
    random = np.random.RandomState(3)
    cells = random.standard_normal((3, N)).astype(np.float32)
    y = (cells[0] + cells[1] > 0).astype(np.int32)
    seats = seats_in_one_process(("bank", "shop"), "bank")
    income, age, visits = (Column(name, "number") for name in ("income", "age", "visits"))
    own = VectorColumns((cells[0], cells[2]))
    bank = Holding(N, (income, age), own, Label("left", "class", ("no", "yes")), y)
    shop = Holding(N, (visits,), VectorColumns((cells[1],)))
    held = {"bank": bank, "shop": shop}
    return {
        name: vertical_boosting.Party(one, n_jobs=1, seat=seats[name]) for name, one in held.items()
    }


def trained(parties, labels="encrypted"):
    settings = vertical_boosting.VerticalSettings(boosting=BOOSTED, labels=labels)
    return vertical_boosting.train(InProcess(parties), settings)


class Between:
    """What stands between the coordinator and a party, and may change questions and replies."""

    def __init__(self, honest, change):
        self.honest, self.change = honest, change
        self.asked: list[Any] = []
        self.said: list[Any] = []

    def answer(self, ask):
        ask = self.change(self, ask)
        self.asked.append(ask)
        reply = self.honest.answer(ask)
        self.said.append(reply)
        return reply


def of(kind, messages):
    return [one for one in messages if isinstance(one, kind)]


def added_to(ask, sealed):
    """Return a question in which every sum is larger by one."""
    he: Any = of_public_key(sealed.scheme, sealed.public_key)
    reply = ask.others[0].reply
    length = len(reply.sums[0]) // he._length
    sums = [number * he._g % he._modulus for number in he.load(reply.sums[0], length)]
    changed = replace(reply, sums=(he.dump([gmpy2.mpz(one) for one in sums]),))
    return replace(ask, others=(replace(ask.others[0], reply=changed),))


@pytest.mark.parametrize("signed", [False, True])
def test_sums_that_do_not_fit_end_the_job_and_erase_the_key(signed):
    """Unsigned, only the label party's own sums tell; signed, the signature does too."""
    parties = sides(signed=signed)

    def forge(between, ask):
        batches = [reply.sealed for reply in between.said if hasattr(reply, "sealed")]
        is_time = isinstance(ask, ChooseAsk) and len(batches) == 2  # in the second batch
        return added_to(ask, batches[-1][0]) if is_time else ask

    bank = Between(parties["bank"], forge)
    with pytest.raises(ProtocolError, match=ENDED):
        trained({"bank": bank, "shop": parties["shop"]})
    last_batch = of(BatchAsk, bank.asked)[-1]
    for again in (last_batch, bank.asked[-1], bank.asked[0]):  # nothing is answered after that
        with pytest.raises(ProtocolError, match=ENDED):
            parties["bank"].answer(again)


def test_gradients_of_another_batch_are_not_added_up():
    """Who may choose among gradients compares sums of the same rows."""
    parties = sides(signed=True)

    def replay(between, ask):
        earlier = of(SumsAsk, between.asked)
        is_second = isinstance(ask, SumsAsk) and ask.sealed and earlier
        return replace(ask, sealed=earlier[0].sealed) if is_second else ask

    words = "list of encrypted labels sent for party 'bank' is not signed by that party"
    with pytest.raises(ProtocolError, match=words):
        trained({"bank": parties["bank"], "shop": Between(parties["shop"], replay)})


def test_sums_of_a_level_are_sent_once_and_chosen_once():
    parties = sides(signed=True)
    bank = Between(parties["bank"], lambda _, ask: ask)
    shop = Between(parties["shop"], lambda _, ask: ask)
    trained({"bank": bank, "shop": shop})
    first = of(ChooseAsk, bank.asked)[0]
    assert parties["bank"].answer(first).is_behind  # an earlier level is not opened again


def test_encrypted_labels_are_not_shared_and_gradients_are_the_label_party_s():
    parties = sides(signed=True)
    bank = Between(parties["bank"], lambda _, ask: ask)
    trained({"bank": bank, "shop": parties["shop"]})
    growing = parties["bank"].growing
    with pytest.raises(ProtocolError, match="The job has encrypted labels; they are not shared"):
        parties["bank"].answer(BoostedLabelsAsk(growing.job))
    last = of(BatchAsk, bank.asked)[-1]
    other = parties["shop"].growing
    with pytest.raises(ProtocolError, match="This party does not hold the labels"):
        parties["shop"].answer(replace(last, depth=other.depth, newest=()))
    named = replace(growing.job, key_bits=3072)
    with pytest.raises(ProtocolError, match="A run has one job"):
        parties["bank"].answer(BoostedLabelsAsk(named))


def test_the_label_party_tells_no_gain_and_makes_no_cut_that_it_did_not_choose():
    """A coordinator read the gains of all nodes; with their rows these tell sums of labels."""
    parties = sides_that_both_have_columns()
    words: list[str] = []

    def refused(party, ask):
        with pytest.raises(ProtocolError) as caught:
            party.answer(ask)
        words.append(str(caught.value))

    def curious(between, ask):
        if isinstance(ask, ChooseAsk):
            refused(between.honest, GainAsk(ask.job, ask.depth, ask.newest, ask.offered))
            assert between.honest.answer(SplitAsk(ask.job, ask.depth, np.arange(1))).is_behind
        if isinstance(ask, SplitAsk):
            refused(between.honest, replace(ask, node=ask.node[:0]))
        return ask

    trained({"bank": Between(parties["bank"], curious), "shop": parties["shop"]})
    assert set(words) == {
        "The job has encrypted labels; gains are told to nobody.",
        "The question asks for cuts that the label party did not choose.",
    }


def test_a_coordinator_does_not_say_that_the_label_party_is_alone():
    """Alone, it would encrypt nothing and tell gains."""
    settings = MatchedSettings(
        vertical=vertical_boosting.VerticalSettings(boosting=BOOSTED, labels="encrypted"),
        label_party="bank",
    )
    seat = seats_in_one_process(("bank", "shop"), "bank")["bank"]
    held = Holding(N, (), None, Label("left", "class", ("no", "yes")), np.arange(N) % 2)
    bank = MatchedBoosting(held, settings, "bank", seat=seat)
    with pytest.raises(ProtocolError, match="agreed to: different number of parties"):
        bank.answer(BoostedLabelsAsk(BoostedJob(BOOSTED, "encrypted", N, 2, n_parties=1)))
