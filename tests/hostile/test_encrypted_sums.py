"""Forged sums against encrypted labels: a coordinator that cheats gets no decryption oracle."""

from dataclasses import replace
from typing import Any

import gmpy2
import numpy as np
import pytest

from spinney.errors import PartyLostError, ProtocolError
from spinney.privacy.entropy import secret_bytes
from spinney.privacy.homomorphic import MARGIN_BITS
from spinney.privacy.okamoto_uchiyama import OkamotoUchiyama
from spinney.privacy.schemes import available, new_key, of_public_key
from spinney.protocols import vertical_forest
from spinney.protocols.columns.encrypted_messages import ChooseAsk, CutAsk, SumsAsk
from spinney.protocols.columns.messages import HoldingsAsk, Sealed
from spinney.protocols.columns.seat import seats_in_one_process
from spinney.protocols.settings import ForestSettings
from spinney.protocols.vertical_forest.messages import SealAsk, StartAsk
from spinney.tables.columns import VectorColumns
from spinney.tables.holding import Holding
from spinney.tables.schema import Column, Label
from spinney.transport import codec
from spinney.transport.in_process import InProcess
from spinney.trees.counts import Counts

N = 300
FOREST = ForestSettings(
    task="classification", n_estimators=1, max_depth=3, max_features=None, bootstrap=False
)
ENDED = (
    "Encrypted sums do not fit this job. The label party has ended the job and erased its key. "
    "Nothing was released; start the job again as a new run."
)
OTHERWISE = "already gave a different answer to this question"


def rows():
    random = np.random.RandomState(3)
    cells = random.standard_normal((2, N)).astype(np.float32)
    return cells, (cells.sum(axis=0) > 0).astype(np.int32)


def sides(folder=None, seats=None):
    """Return the label party, without columns, and a party with two columns."""
    cells, labels = rows()
    seats = seats or seats_in_one_process(("bank", "shop"), "bank")
    columns = (Column("visits", "number"), Column("basket", "number"))
    bank = Holding(N, (), None, Label("left", "class", ("no", "yes")), labels)
    shop = Holding(N, columns, VectorColumns(tuple(cells)), None, None)
    return {
        "bank": vertical_forest.Party(bank, notebook=folder, n_jobs=1, seat=seats["bank"]),
        "shop": vertical_forest.Party(shop, n_jobs=1, seat=seats["shop"]),
    }


def trained(parties, scheme="okamoto-uchiyama"):
    settings = vertical_forest.Settings(forest=FOREST, labels="encrypted", scheme=scheme)
    return vertical_forest.train(InProcess(parties), settings)


class Forger:
    """A coordinator that forges before, or after, the label party's first choice."""

    def __init__(self, honest, attack, *, first=True):
        self.honest, self.attack, self.first = honest, attack, first
        self.sealed: Any = None
        self.found: Any = None

    def answer(self, ask):
        is_time = isinstance(ask, ChooseAsk) and self.found is None
        if is_time and not self.first:
            self.honest.answer(ask)
        if is_time:
            self.found = self.attack(self.honest, ask, self.sealed)
        reply = self.honest.answer(ask)
        if isinstance(ask, SealAsk):
            self.sealed = reply.sealed
        return reply


def said(party, ask):
    """Return in which words a party refuses a question; nothing if it answers."""
    try:
        party.answer(ask)
    except ProtocolError as error:
        return str(error)
    return ""


# --- the key, from refusals ----------------------------------------------------------------------

CELLS = 75  # as many as one ciphertext could hold without a margin
WIDTH = N.bit_length()


def encrypted(he: Any, number: int) -> Any:
    """Return a ciphertext of any number, also one that is too large for the key."""
    return he.refreshed([gmpy2.powmod(he._g, number, he._modulus)])


def forged(ask, he, number, cells=CELLS):
    """Return a question whose cells' sums together are any number."""
    counts = np.full((cells, 1), (1 << WIDTH) - 1, np.int32)
    flags, cells = np.zeros(1, np.bool_), np.array([cells], np.int32)
    reply = replace(
        ask.others[0].reply, cells=cells, is_category=flags, has_missing=flags,
        counts=Counts(counts, np.cumsum(cells, dtype=np.int64)),
        sums=(he.dump(encrypted(he, number)),),
    )  # fmt: skip
    return with_sums(ask, reply)


def with_sums(ask, reply):
    n_slots = np.array([reply.cells.size], np.uint16)
    one = replace(ask.others[0], n_slots=n_slots, place=np.arange(n_slots[0], dtype=np.int32),
        reply=reply)  # fmt: skip
    return replace(ask, others=(one,))


def factor(party, ask, sealed):
    """Return the prime of the key, by asking whether sums are in range; how often; the words."""
    he = of_public_key(sealed.scheme, sealed.public_key)
    words: list[str] = []

    def is_small(number):
        words.append(said(party, forged(ask, he, number)))
        return "out of range" not in words[-1]

    step = 1 << (WIDTH * CELLS)
    below = step
    while not is_small(below + step):
        below += step
    above = below + step  # the prime is in between: what is beyond it is small again
    while above - below > 1:
        middle = (above + below) // 2
        below, above = (below, middle) if is_small(middle) else (middle, above)
    return above, words


def labels_under(prime, sealed):
    """Return the labels of all rows, decrypted with the key's prime."""
    he: Any = of_public_key(sealed.scheme, sealed.public_key)
    if prime is None or he._modulus % prime:
        return []

    def logarithm(number):
        return (pow(number, prime - 1, prime**2) - 1) // prime

    base = pow(logarithm(int(he._g)), -1, prime)
    found = he.load(sealed.planes[0], N + 1)
    return [logarithm(int(found[row])) * base % prime for row in range(N)]


def test_refusals_do_not_factor_the_key():
    """Before: 977 questions in 3 seconds, 300 of 300 labels, and the training ended well."""
    parties = sides()
    forger = Forger(parties["bank"], factor, first=False)
    trained({"bank": forger, "shop": parties["shop"]})
    prime, words = forger.found
    assert len(set(words)) == 1  # the refusal does not depend on what is encrypted
    assert OTHERWISE in words[0]
    assert labels_under(prime, forger.sealed) == []


# --- the first forged sum ends the job -----------------------------------------------------------


def negative(ask, he):
    return forged(ask, he, (1 << 700) - 1)


def too_many_rows(ask, _):
    reply = ask.others[0].reply
    return with_sums(ask, replace(reply, counts=Counts(reply.counts.counters * 2,
        reply.counts.run_ends)))  # fmt: skip


def other_key(ask, _):
    return with_sums(ask, replace(ask.others[0].reply, key_id="0" * 32))


def damaged(ask, _):
    reply = ask.others[0].reply
    return with_sums(ask, replace(reply, sums=(reply.sums[0][:-1],)))


def other_cells(ask, _):
    reply = ask.others[0].reply
    return with_sums(ask, replace(reply, cells=reply.cells[:-1]))


def added(ask, he):
    """Add one to all sums: every number is in range, and only the node's labels tell."""
    reply = ask.others[0].reply
    begun = he.load(reply.sums[0], -(-int((reply.counts.counters > 0).sum()) // 68))
    sums = [number * he._g % he._modulus for number in begun]
    return with_sums(ask, replace(reply, sums=(he.dump(sums),)))


FORGERIES = (
    lambda ask, he: forged(ask, he, 1 << 690),
    negative, too_many_rows, other_key, damaged, other_cells, added,
)  # fmt: skip


@pytest.mark.parametrize("is_signed", [True, False])
@pytest.mark.parametrize("forge", FORGERIES)
def test_the_first_sum_that_does_not_fit_ends_the_job(forge, is_signed, tmp_path):
    """Whatever is wrong with it; and its own party, which can sign it, gets no other words."""
    seats = None if is_signed else {"bank": None, "shop": None}
    parties = sides(tmp_path, seats)

    def attack(party, ask, sealed):
        assert list(tmp_path.glob("*.key"))
        he = of_public_key(sealed.scheme, sealed.public_key)
        return said(party, forge(ask, he)), said(party, ask), said(party, HoldingsAsk())

    forger = Forger(parties["bank"], attack)
    with pytest.raises(ProtocolError, match="has ended the job and erased its key"):
        trained({"bank": forger, "shop": parties["shop"]})
    assert set(forger.found) == {ENDED}
    assert not list(tmp_path.glob("*.key"))
    restarted = sides(tmp_path, seats)
    with pytest.raises(ProtocolError, match="has ended the job and erased its key"):
        trained({"bank": restarted["bank"], "shop": parties["shop"]})


def test_all_sums_are_decrypted_before_any_is_judged(monkeypatch):
    """Time does not tell which sums were refused: the work is the same for all."""
    opened: list[int] = []
    decrypt = OkamotoUchiyama.decrypt

    def counted(self, ciphertexts, bits):
        opened.append(len(ciphertexts))
        return decrypt(self, ciphertexts, bits)

    monkeypatch.setattr(OkamotoUchiyama, "decrypt", counted)
    none = {"bank": None, "shop": None, "city": None}
    for forging in ((), (0,), (1,), (0, 1)):
        opened.clear()
        parties = sides(seats=none)
        parties["city"] = sides(seats=none)["shop"]

        def attack(party, ask, sealed, forging=forging):
            he = of_public_key(sealed.scheme, sealed.public_key)
            others = list(ask.others)
            for number in forging:
                others[number] = added(replace(ask, others=(others[number],)), he).others[0]
            return said(party, replace(ask, others=tuple(others)))

        forger = Forger(parties.pop("bank"), attack)
        if forging:
            with pytest.raises(ProtocolError, match="has ended the job"):
                trained({"bank": forger, **parties})
        else:
            trained({"bank": forger, **parties})
        assert len(opened[:2]) == 2
        assert opened[0] == opened[1]


def test_another_run_has_another_key(tmp_path):
    """What one ended job tells about its key is of no use in the next."""
    keys = []
    for run in ("1", "2"):
        parties = sides(tmp_path / run)
        forger = Forger(parties["bank"], lambda *_: "")
        trained({"bank": forger, "shop": parties["shop"]})
        keys.append(forger.sealed.public_key)
    assert keys[0] != keys[1]


@pytest.mark.parametrize("scheme", available())
def test_numbers_that_nobody_foresees_fall_into_the_margin(scheme):
    key, count = new_key(scheme, 2048), 50
    length = len(key.dump(key.encrypt([0])))
    drawn = secret_bytes(count * length)  # below any modulus, but for the first byte
    data = b"".join(b"\1" + drawn[at + 1 : at + length] for at in range(0, len(drawn), length))
    loaded = key.load(data, count)
    for one in range(count):
        with pytest.raises(ProtocolError, match="out of range"):
            key.decrypt(loaded[one : one + 1], key.room)
    assert MARGIN_BITS == 64


# --- sums that are in range, and nobody's --------------------------------------------------------


def invented(party, ask, sealed):
    """Return the labels of 254 rows by one question: a category for every row."""
    he = of_public_key(sealed.scheme, sealed.public_key)
    loaded = he.load(sealed.planes[0], N + 1)
    groups = [[row] for row in range(254)] + [list(range(254, N))]
    counts = np.array([[len(group)] for group in groups], np.int32)
    per = min(he.room // WIDTH, len(groups))
    padded = groups + [[N]] * (-len(groups) % per)
    sums = he.refreshed(he.packed(he.sums(loaded, padded), len(padded), WIDTH, per))
    cells = np.array([len(groups)], np.int32)
    reply = replace(
        ask.others[0].reply, cells=cells, is_category=np.ones(1, np.bool_),
        has_missing=np.zeros(1, np.bool_), sums=(he.dump(sums),),
        counts=Counts(counts, np.cumsum(cells, dtype=np.int64)),
    )  # fmt: skip
    chosen = party.answer(with_sums(ask, reply)).bin_set[0]
    return [int(chosen[row // 64]) >> (row % 64) & 1 for row in range(254)]


def test_invented_categories_do_not_read_labels():
    """Before: 254 of 254 labels with one question that was right in every number."""
    parties = sides()
    forger = Forger(parties["bank"], invented)
    with pytest.raises(ProtocolError, match="has ended the job and erased its key"):
        trained({"bank": forger, "shop": parties["shop"]})
    assert forger.found is None


def test_a_party_with_columns_can_invent_them():
    """A limit by design, in docs/vertical.md: whoever signs sums may sign invented ones."""
    seats = {"bank": None, "shop": None}  # as if the sums were signed
    parties = sides(seats=seats)
    found: list[Any] = []

    class Reading(Forger):
        def answer(self, ask):
            if isinstance(ask, ChooseAsk) and not found:
                found.append(invented(self.honest, ask, self.sealed))
                raise PartyLostError("It has what it wanted.")
            return super().answer(ask)

    with pytest.raises(PartyLostError):
        trained({"bank": Reading(parties["bank"], None), "shop": parties["shop"]})
    share = np.mean(np.array(found[0]) == rows()[1][:254])
    assert max(share, 1 - share) == 1.0


def moved_rows(ask, _):
    """Let one row change its cell: every count is possible, and the node's total is right."""
    reply = ask.others[0].reply
    counters = reply.counts.counters.copy()
    counters[0] += 1
    counters[1] -= 1
    return with_sums(ask, replace(reply, counts=Counts(counters, reply.counts.run_ends)))


def test_counts_that_the_coordinator_changed_are_not_used():
    parties = sides()
    forger = Forger(parties["bank"], lambda party, ask, _: said(party, moved_rows(ask, _)))
    with pytest.raises(ProtocolError, match="has ended the job and erased its key"):
        trained({"bank": forger, "shop": parties["shop"]})
    assert forger.found == ENDED


# --- labels that are nobody's: the coordinator's own key -----------------------------------------


class OwnKey:
    """A coordinator that gives a party numbers of its own to add: a power of two for each row."""

    def __init__(self, honest, key):
        self.honest, self.key, self.sums = honest, key, []

    def answer(self, ask):
        if isinstance(ask, StartAsk) and ask.sealed:
            planes = (self.key.dump(self.key.encrypt([*(1 << row for row in range(N)), 0])),)
            sealed = Sealed(self.key.scheme, self.key.public_key, planes, N)
            ask = replace(ask, sealed=(replace(sealed, signed=ask.sealed[0].signed),))
        reply = self.honest.answer(ask)
        if isinstance(ask, SumsAsk):
            self.sums.append(reply)
        return reply


def test_sums_are_made_only_of_the_label_partys_numbers():
    """Before: every row's cell in every column, from one question."""
    key = new_key("okamoto-uchiyama", 2048)
    parties = sides()
    shop = OwnKey(parties["shop"], key)
    with pytest.raises(ProtocolError, match="encrypted labels sent for party 'bank' is not signed"):
        trained({"bank": parties["bank"], "shop": shop})
    assert not shop.sums


# --- cuts that nobody chose ----------------------------------------------------------------------


class Cutting:
    """A coordinator that asks for cuts of its own choice."""

    def __init__(self, honest):
        self.honest, self.words = honest, []

    def answer(self, ask):
        if isinstance(ask, CutAsk) and not self.words:
            other = np.where(ask.cut > 0, ask.cut - 1, 1).astype(np.uint8)
            self.words.append(said(self.honest, replace(ask, cut=other)))
        return self.honest.answer(ask)


def test_cuts_are_made_only_as_the_label_party_chose():
    """Before: any cut of any column, in every node, once per level."""
    parties = sides()
    shop = Cutting(parties["shop"])
    trained({"bank": parties["bank"], "shop": shop})
    assert "choice of cuts sent for party 'bank' is not signed by that party" in shop.words[0]


class Again:
    """A coordinator that asks for sums again, the same and over fewer columns."""

    def __init__(self, honest):
        self.honest, self.n, self.words = honest, 0, set()

    def answer(self, ask):
        reply = self.honest.answer(ask)
        if isinstance(ask, SumsAsk):
            assert codec.encode(self.honest.answer(ask)) == codec.encode(reply)
            self.n += 1
            column = (1 - ask.offered.column.astype(np.int64)).astype(np.uint16)
            self.words.add(said(self.honest, replace(ask, offered=replace(ask.offered,
                column=column))))  # fmt: skip
        return reply


def test_sums_are_made_once_per_level():
    """The same question gets the same bytes; with other columns it gets nothing."""
    parties = sides()
    shop = Again(parties["shop"])
    trained({"bank": parties["bank"], "shop": shop})
    assert shop.n == 3
    assert all(OTHERWISE in words for words in shop.words)


def test_sums_are_randomised_by_who_adds_them_up():
    """The same sums of the same ciphertexts: a label party cannot find out which rows they are."""
    parties = sides(seats={"bank": None, "shop": None})
    twin = sides(seats={"bank": None, "shop": None})["shop"]
    replies: list[Any] = []

    class Both(Forger):
        def answer(self, ask):
            reply = self.honest.answer(ask)
            other = twin.answer(ask) if isinstance(ask, StartAsk | SumsAsk) else None
            if isinstance(ask, SumsAsk) and not replies:
                replies.extend([reply, other])
            return reply

    trained({"bank": parties["bank"], "shop": Both(parties["shop"], None)})
    one, other = replies
    assert np.array_equal(one.counts.counters, other.counts.counters)
    assert one.sums != other.sums


def test_signatures_of_one_run_are_of_no_use_in_another():
    parties, others = sides(), sides()
    kept: list[Any] = []

    class Keeping(Forger):
        def answer(self, ask):
            reply = self.honest.answer(ask)
            kept.extend([reply.sealed] if isinstance(ask, SealAsk) else [])
            return reply

    class Replaying(Forger):
        def answer(self, ask):
            if isinstance(ask, StartAsk):
                ask = replace(ask, sealed=(kept[0],))
            return self.honest.answer(ask)

    trained({"bank": Keeping(parties["bank"], None), "shop": parties["shop"]})
    with pytest.raises(ProtocolError, match="encrypted labels sent for party 'bank' is not signed"):
        trained({"bank": others["bank"], "shop": Replaying(others["shop"], None)})
