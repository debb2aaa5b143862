"""A mask hides one vector: whatever a coordinator asks, in whatever order, again and otherwise.

Two vectors under one mask show their difference. The fuzz asks the parties' own code at random for
epochs, letters, rounds, steps and layouts, with lies about all of them, and notes under which keys
which numbers leave.
"""

from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random
from threading import Event, Thread

import numpy as np
import pytest

from deployed.handmade import (  # type: ignore[import-not-found]
    CLINICS,
    Sites,
    agreed_job,
    clinics_in,
)
from deployed.one_process import models_of  # type: ignore[import-not-found]
from deployed.served import Served  # type: ignore[import-not-found]
from spinney.errors import SpinneyError
from spinney.privacy import masking, sharing
from spinney.privacy.keys import KeyPair
from spinney.privacy.masking import MaskAsk, SecureSumParty
from spinney.privacy.pair_masks import PairMasks
from spinney.protocols.verified.blind import relay_steps
from spinney.protocols.verified.messages import Opened, StepAsk
from spinney.protocols.verified.tags import SumKeys
from spinney.transport.journal import Journal, Journaled
from spinney.transport.remote import ahead
from spinney.transport.remote.attendance import PartyStream
from unit.privacy.federations import Federation  # type: ignore[import-not-found]


class EndedError(Exception):
    """An attempt ended."""


class Masks:
    """Which numbers left under which key of which party: all of them, as bytes."""

    def __init__(self, monkeypatch):
        self.hidden: dict[tuple[str, bytes], set[bytes]] = {}
        self.n_used = 0
        keys_of = sharing.EpochKeys.mask_keys

        def mask_keys(epoch, number, history, vectors):
            found = keys_of(epoch, number, history, vectors)
            for key, _ in found:
                self.note(epoch._name, key, vectors)
            return found

        hide = SumKeys.hide

        def hidden(keys, step, story, name, words):
            self.note(name, keys._key("blind sums", step, story, (name,)), words)
            hide(keys, step, story, name, words)

        keys_of_all = PairMasks.keys

        def all_keys(pairs, number, agreed, vectors):
            found = keys_of_all(pairs, number, agreed, vectors)
            for key, _ in found:
                self.note(pairs.name, key, vectors)
            return found

        monkeypatch.setattr(sharing.EpochKeys, "mask_keys", mask_keys)
        monkeypatch.setattr(PairMasks, "keys", all_keys)
        monkeypatch.setattr(SumKeys, "hide", hidden)

    def note(self, name, key, vectors):
        self.n_used += 1
        data = b"".join(vector.tobytes() for vector in vectors)
        self.hidden.setdefault((name, key), set()).add(data)

    def require_each_once(self):
        assert all(len(seen) == 1 for seen in self.hidden.values())


def asked_at_random(everyone, random, name):
    """Ask a party anything that a coordinator could; return what is refused, if it is."""
    party, book = everyone.parties[name], everyone.coordinator._book.ask
    values = np.arange(random.choice([3, 8]), dtype=np.int64) + random.randrange(3)
    begin, n_told = book.first_round, random.choice([1] * 9 + [0])
    if everyone.settings.needs_all:
        begin = party._pairs._newest[0]
    number = max(1, begin + random.choice([-1, 0, 0, 1, 1, 2, 9]))
    if everyone.settings.needs_all:
        n_told = number - 1 + n_told  # none, but for a few lies
    history = tuple(random.choice([0, 7]) for _ in range(number - n_told))
    begun = 0 if everyone.settings.needs_all else book.epoch
    epoch = begun + random.choice([0] * 8 + [-1, 1])
    try:
        if random.random() < 0.02:
            party.make_keys(replace(book, epoch=epoch, first_round=number))
        else:
            about = random.choice([b"", b"step 1", b"step 2"])
            bits = random.choice([32, 64])
            ask = MaskAsk("job", epoch, number, history)
            party.mask(ask, [values], [bits], about=about)
    except SpinneyError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("needs_all", [True, False])
def test_no_mask_hides_two_vectors_whatever_is_asked(monkeypatch, seed, needs_all):
    random, masks = Random(seed), Masks(monkeypatch)
    everyone = Federation(3, needs_all=needs_all)
    refused = set()
    for _ in range(500 if needs_all else 300):  # asks of older rounds are refused at once
        if random.random() < 0.04:
            everyone.coordinator._history += [0] * random.randrange(4)
            with suppress(SpinneyError):
                everyone.begin_epoch(random.choice([2, 4, 6]))
        if random.random() < 0.02:  # the attempt begins anew, at all parties or with an old key
            name = random.choice(everyone.names)
            key = everyone.pairs[name] = type(everyone.pairs[name]).fresh()
            names = dict(zip(everyone.names, everyone.settings.roster.public_keys, strict=True))
            roster = type(everyone.settings.roster).of(names | {name: key.public})
            everyone.settings = replace(everyone.settings, roster=roster)
            for other in random.sample(everyone.names, random.choice([1, 3, 3, 3])):
                pair = everyone.pairs[other]
                everyone.parties[other] = SecureSumParty(everyone.settings, other, pair)
            everyone.coordinator = masking.SecureSumCoordinator(everyone.settings)
            with suppress(SpinneyError):
                everyone.begin_epoch(6)
        refused.add(asked_at_random(everyone, random, random.choice(everyone.names))[:20])
    assert masks.n_used > (200 if needs_all else 20)
    assert len(refused) > 3
    masks.require_each_once()


def blind_sites(folder, attempt):
    agreed = agreed_job(folder, coordinator='"blind"', secure_sum="true")
    return Sites(folder, agreed, attempt=attempt)


@pytest.mark.parametrize("seed", range(2))
def test_no_mask_hides_two_replies_in_a_run_that_is_tried_again(tmp_path, monkeypatch, seed):
    """Attempts of a blind run end anywhere; parties forget all but their disk, or some of them."""
    random, masks = Random(seed), Masks(monkeypatch)
    clinics_in(tmp_path)
    journal, n_ended = Journal(tmp_path / "rounds"), 0
    over: tuple[Opened, ...] = ()
    for attempt in range(1, 30):
        sites = blind_sites(tmp_path, attempt)
        left = random.randrange(8, 18) if attempt < 6 else 10**6

        def bytes_to(targets, data, sites=sites):
            nonlocal left
            found = {}
            for name in random.sample(list(targets), len(targets)):
                left -= 1
                if left < 0:  # some parties have answered, and others have not
                    raise EndedError
                for _ in range(random.choice([1, 1, 2])):
                    found[name] = sites.residents[name].answer(data)
            return found

        sites.bytes_to = bytes_to
        try:
            over = relay_steps(Journaled(sites.keyed(), journal), lambda _: None)
            break
        except EndedError:
            n_ended += 1
        finally:
            sites.close()
    assert over
    assert n_ended == 5
    masks.require_each_once()


def test_mask_keys_are_new_in_each_attempt_and_on_no_disk(tmp_path, monkeypatch):
    """Also of an attempt whose parties are started again: their masks fit no roster of before."""
    private, publics = [], []
    make, use = KeyPair.of.__func__, SecureSumParty.__init__  # type: ignore[attr-defined]

    def made(kind, key):
        private.append(key)
        return make(kind, key)

    def used(party, settings, name, key):
        publics.append(key.public)
        use(party, settings, name, key)

    monkeypatch.setattr(KeyPair, "of", classmethod(made))
    monkeypatch.setattr(SecureSumParty, "__init__", used)
    clinics_in(tmp_path)
    journal = Journal(tmp_path / "rounds")
    for attempt in (1, 1, 2):
        sites = blind_sites(tmp_path, attempt)
        channel = Journaled(sites.keyed(), journal)
        channel.sum(StepAsk(1, "blind", ()).after(b""))
        sites.close()
    assert len(set(publics)) == len(publics) == 9
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert len(private) >= 9
    assert not [1 for key in private for data in files if key in data]


def test_no_mask_hides_two_replies_over_lines_that_are_cut(tmp_path, monkeypatch):
    """Connections end while sums come ahead, and parties are started again in the middle."""
    random, masks, due = Random(7), Masks(monkeypatch), Event()
    send_ahead, turns = PartyStream.send_ahead, count(1)
    cuts: list[str] = []

    def cutting(stream, data):
        send_ahead(stream, data)
        if next(turns) % 4 == 0 and len(cuts) < 3:
            cuts.append(random.choice(CLINICS))
            served.attendance.dismiss(cuts[-1])
            if len(cuts) == 2:
                due.set()

    def restarting():
        due.wait(60)
        served.restart("north", Event())

    monkeypatch.setattr(ahead, "PART", 64)
    monkeypatch.setattr(PartyStream, "send_ahead", cutting)
    with Served(tmp_path).up(*CLINICS) as served:
        agreed = agreed_job(tmp_path, coordinator='"blind"', secure_sum="true")
        helper = Thread(target=restarting, daemon=True)
        helper.start()
        run = served.submit(agreed)
        status = served.over(run)
        helper.join(60)
        assert status.state == "finished", status
        model = (served.file.runs / run / "model.spinney").read_bytes()
    assert model == models_of(tmp_path, agreed)[""]
    assert len(cuts) == 3
    masks.require_each_once()
