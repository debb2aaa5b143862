"""Private set intersection: what is found, what a list tells, and what is refused."""

import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from spinney.errors import MissingExtraError, ProtocolError
from spinney.privacy.intersection import PsiClient, PsiServer, hashed_to_curve, n_asked

BANK = ["ann", "bob", "cem", "dee", "eva", "fay"]
SHOP = ["eva", "zoe", "bob", "ann", "max"]
PRIME = 2**255 - 19


def met(bank, shop, *, reveal=True):
    client, server = PsiClient(bank), PsiServer(shop, reveal=reveal)
    return client, server.setup(), server.respond(client.request())


def test_the_client_finds_the_common_ids():
    client, setup, response = met(BANK, SHOP)
    assert client.common(setup, response).tolist() == [0, 1, 4]
    assert client.size(setup, response) == 3


@settings(max_examples=10)
@given(bank=st.sets(st.text(max_size=4)), shop=st.sets(st.text(max_size=4)))
def test_common_ids_are_those_of_sets(bank, shop):
    client, setup, response = met(sorted(bank), sorted(shop))
    found = {sorted(bank)[row] for row in client.common(setup, response)}
    assert found == bank & shop


def test_a_client_that_shall_count_cannot_tell_which():
    """Both lists come sorted: neither the client's order nor the server's is in them."""
    client, setup, response = met(BANK, SHOP, reveal=False)
    assert client.size(setup, response) == 3
    for data in (setup, response):
        points = [data[at : at + 32] for at in range(0, len(data), 32)]
        assert points == sorted(points)


def test_every_id_is_a_point_of_the_curve_and_not_of_its_twist():
    """A product stays where its point was: it would tell a bit of the id."""
    secret = X25519PrivateKey.generate()
    for point in hashed_to_curve([str(number) for number in range(40)]):
        product = secret.exchange(X25519PublicKey.from_public_bytes(point))
        for data in (point, product):
            u = int.from_bytes(data, "little") & ((1 << 255) - 1)
            assert pow(u * u * u + 486662 * u * u + u, (PRIME - 1) // 2, PRIME) == 1


def test_points_of_known_ids_stay_the_same():
    """Two parties with other versions must hash alike."""
    (found,) = hashed_to_curve(["ann"])
    assert found.hex() == "4c6775365cc53ddc5fc11d74dfa781e4497e77296bc100820e85e828a6e1f995"


def test_the_same_key_makes_the_same_request_and_a_fresh_one_another():
    client = PsiClient(BANK)
    again, other = PsiClient(BANK, key=client.key), PsiClient(BANK)
    assert client.request() == again.request()
    assert not set(_split(client.request())) & set(_split(other.request()))
    assert n_asked(client.request()) == len(BANK)


def _split(data):
    return [data[at : at + 32] for at in range(0, len(data), 32)]


def test_two_answers_have_two_keys():
    request = PsiClient(BANK).request()
    one, other = (PsiServer(SHOP, reveal=True) for _ in range(2))
    assert not set(_split(one.respond(request))) & set(_split(other.respond(request)))
    assert not set(_split(one.setup())) & set(_split(other.setup()))


SMALL_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    (PRIME - 1).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
]


@pytest.mark.parametrize("point", SMALL_ORDER)
def test_points_of_a_small_subgroup_are_refused(point):
    with pytest.raises(ProtocolError, match="damaged or from another run"):
        PsiServer(SHOP, reveal=True).respond(point)


def test_damaged_messages_are_refused():
    client, setup, response = met(BANK, SHOP)
    with pytest.raises(ProtocolError, match="damaged or from another run"):
        PsiServer(SHOP, reveal=True).respond(b"nonsense")
    for one, other in ((b"non", response), (setup, b"sense"), (setup, response[32:])):
        with pytest.raises(ProtocolError, match="damaged or from another run"):
            client.common(one, other)


def test_many_ids_are_found_on_several_threads():
    numbers = np.arange(3000)
    client, setup, response = met([str(one) for one in numbers], [str(one) for one in numbers + 7])
    assert client.common(setup, response).tolist() == list(range(7, 3000))


@pytest.mark.parametrize(("module", "package"), [("gmpy2", "gmpy2"), ("nacl", "pynacl")])
def test_the_missing_package_is_named(monkeypatch, module, package):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"needs the package '{package}'.*\[matching\]'"):
        PsiClient(BANK).request()
