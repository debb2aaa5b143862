"""Files that Spinney 0.2.0 wrote load, predict and decrypt what they did then."""

import json
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from shutil import copy

import pytest

from formats.write_version_0_2_0 import (  # type: ignore[import-not-found]
    DATA,
    IDS,
    NUMBERS,
    rows,
)
from spinney import load_model, load_report
from spinney.privacy.intersection import PsiClient
from spinney.privacy.ledger import Ledger
from spinney.privacy.schemes import of_secret_key

TOLD = json.loads((DATA / "expected.json").read_text(encoding="utf-8"))
DIGEST = "cb735fc121718d361196782844035fe248456ddbe6daf565e9641311dfa676a9"


def test_the_stored_files_are_those_that_were_stored():
    names = sorted(path.name for path in Path(DATA).iterdir())
    found = sha256(b"".join(name.encode() + (DATA / name).read_bytes() for name in names))
    assert found.hexdigest() == DIGEST


@pytest.mark.parametrize("name", TOLD["predictions"])
def test_a_model_predicts_as_it_did_and_its_report_is_read(name, tmp_path):
    model = load_model(DATA / f"{name}.spinney")
    assert model.predict_proba(rows()[0]).tolist() == TOLD["predictions"][name]
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (DATA / f"{name}.spinney").read_bytes()
    report = load_report(DATA / f"{name}.json")
    assert report.version == "0.2.0"
    assert report.parties == ("east", "north", "south")


@pytest.mark.parametrize("scheme", TOLD["keys"])
def test_a_stored_key_decrypts_what_was_sent(scheme):
    kept = {name: bytes.fromhex(value) for name, value in TOLD["keys"][scheme].items()}
    key = of_secret_key(scheme, kept["public"], kept["secret"])
    assert key.decrypt(key.load(kept["sent"], len(NUMBERS)), 41) == NUMBERS


def test_a_stored_matching_key_makes_the_same_request():
    client = PsiClient(IDS, key=bytes.fromhex(TOLD["request"]["key"]))
    assert sha256(client.request()).hexdigest() == TOLD["request"]["request"]


def test_a_ledger_is_read_and_goes_on(tmp_path):
    copy(DATA / "ledger.db", tmp_path)
    with closing(Ledger.open(tmp_path / "ledger.db", "north")) as ledger:
        ledger.verify()
        assert ledger.job("run 1").data == "table"
