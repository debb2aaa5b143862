"""Both encryption schemes against other people's code: phe, and sf-heu where it has a wheel."""

import re

import gmpy2
import phe
import pytest

from spinney.privacy.okamoto_uchiyama import OkamotoUchiyama
from spinney.privacy.paillier import PaillierKey

NUMBERS = [0, 1, 2, 1000, 2**40, 2**500 + 7]


def test_phe_reads_what_we_encrypt_and_we_read_what_it_encrypts():
    public, secret = phe.generate_paillier_keypair(n_length=2048)
    ours = PaillierKey(int(secret.p), int(secret.q))
    assert [secret.raw_decrypt(int(one)) for one in ours.encrypt(NUMBERS)] == NUMBERS
    theirs = [gmpy2.mpz(public.raw_encrypt(number)) for number in NUMBERS]
    assert ours.decrypt(theirs, 510) == NUMBERS


def test_sums_packs_and_fresh_ciphertexts_are_the_same_numbers_to_phe():
    public, secret = phe.generate_paillier_keypair(n_length=2048)
    ours = PaillierKey(int(secret.p), int(secret.q))
    theirs = [gmpy2.mpz(public.raw_encrypt(number)) for number in (3, 4, 5, 6)]
    sums = ours.refreshed(ours.packed(ours.sums(theirs, [[0, 1], [2], [3], [0, 3]]), 4, 10, 2))
    assert [secret.raw_decrypt(int(one)) for one in sums] == [7 + (5 << 10), 6 + (9 << 10)]


def test_sf_heu_encrypts_what_we_read():
    heu = pytest.importorskip("heu.phe", reason="sf-heu has no wheel for this Python")
    kit = heu.setup(heu.SchemaType.OU, 2048)
    said = f"{kit.public_key()} {kit.secret_key()}"
    key = {name: int(number, 16) for name, number in re.findall(r"\b([nGpq])=([0-9A-F]+)", said)}
    ours = OkamotoUchiyama(key["p"], key["q"], key["G"])
    assert ours._modulus == key["n"]
    # sf-heu keeps a ciphertext times 2^(60 words) modulo n, the form in which it multiplies.
    words = -(-key["n"].bit_length() // 60)
    back = gmpy2.invert(gmpy2.mpz(1) << (60 * words), ours._modulus)
    encrypt = kit.encryptor().encrypt_raw
    theirs = [int(str(encrypt(number))) * back % ours._modulus for number in NUMBERS]
    assert ours.decrypt(theirs, 510) == NUMBERS
    both = ours.sums(theirs + ours.encrypt(NUMBERS), [[3, 9], [1, 8]])
    assert ours.decrypt(ours.refreshed(both), 20) == [2000, 3]


def test_the_papers_example_of_small_primes_decrypts_by_hand():
    """Computed with Python's own whole numbers, by the paper's formulas."""
    p, q = 1009, 1013
    n, g = p * p * q, 5
    assert pow(g, p - 1, p * p) != 1
    h = pow(g, n, n)
    ours = OkamotoUchiyama(p, q, g)
    for m, r in ((0, 1), (7, 12345), (1008, 99999)):
        sent = pow(g, m, n) * pow(h, r, n) % n
        assert ours.decrypt([gmpy2.mpz(sent)], 10) == [m]
    for sent in ours.encrypt([3, 900]):
        log = (pow(int(sent), p - 1, p * p) - 1) // p
        unit = (pow(g, p - 1, p * p) - 1) // p
        assert log * pow(unit, -1, p) % p in {3, 900}
