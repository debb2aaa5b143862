"""Whatever is done to a saved model, it loads and predicts, or is refused in plain words.

Kernels do not look twice: what gets past the checks is walked. So here random bytes are flipped,
with and without a checksum that fits, and random parts of a model are replaced by random others.
"""

import copy
import hashlib
import json
import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spinney import HorizontalForestClassifier, HorizontalForestRegressor, load_model
from spinney.errors import SpinneyError, StorageError
from spinney.trees import storage

pytestmark = pytest.mark.filterwarnings("ignore::spinney.errors.PrivacyLeakWarning")
OFTEN = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
KIND = "forest model"
FRAME = struct.Struct("<8sIQ")


class Saved:
    """A classifier's file and a regressor's, and where to put a forged one."""

    def __init__(self, models, table, path):
        self.models = models
        self.table = table
        self.path = path

    def require_answer(self, data):
        """Load a file and predict; or be refused with a sentence or two that name the file."""
        self.path.write_bytes(data)
        refusal = None
        try:
            forest = load_model(self.path)
        except StorageError as error:
            refusal = error.public
        if refusal is not None:
            assert str(self.path) in refusal
            assert refusal.endswith(".")
            return
        with suppress(SpinneyError, ValueError):  # other columns: the table does not fit
            assert len(forest.predict(self.table)) == len(self.table)


@pytest.fixture
def saved(ward_table, ward_labels, tmp_path):
    few = {"n_estimators": 3, "max_depth": 4, "random_state": 0}
    fitted: list[Any] = [
        HorizontalForestClassifier(**few).fit(ward_table, ward_labels["three classes"]),
        HorizontalForestRegressor(**few).fit(ward_table, ward_labels["amount"]),
    ]
    return Saved([forest.model_.to_bytes() for forest in fitted], ward_table, tmp_path / "model")


def sealed(body):
    """Return a file with a checksum that fits."""
    return body + hashlib.sha256(body).digest()


WHICH = st.integers(0, 1)
PLACES = st.lists(st.integers(0, 2**32), min_size=1, max_size=8)  # taken modulo what there is


@OFTEN
@given(which=WHICH, anywhere=PLACES, in_head=PLACES, how=st.integers(0, 2))
def test_flipped_bits_never_crash(which, anywhere, in_head, how, saved):
    body = bytearray(saved.models[which][:-32])
    (n_head,) = struct.unpack_from("<Q", body, 12)
    for place in anywhere if how != 1 else ():
        body[place // 8 % len(body)] ^= 1 << place % 8
    for place in in_head if how != 2 else ():
        body[place // 8 % (FRAME.size + n_head)] ^= 1 << place % 8
    saved.require_answer(sealed(bytes(body)))


@settings(OFTEN, max_examples=30)
@given(place=st.integers(0, 2**32), change=st.integers(1, 255))
def test_a_changed_byte_is_seen_by_the_checksum(place, change, saved):
    whole = bytearray(saved.models[0])
    whole[20 + place % (len(whole) - 20)] ^= change
    saved.path.write_bytes(bytes(whole))
    with pytest.raises(StorageError, match="damaged or cut short: its checksum does not match"):
        load_model(saved.path)


@settings(OFTEN, max_examples=50)
@given(which=WHICH, end=st.integers(0, 2**32), more=st.binary(max_size=40))
def test_files_cut_or_lengthened_never_crash(which, end, more, saved):
    body = saved.models[which][:-32]
    cut = body[: end % (len(body) + 1)] + more
    saved.require_answer(sealed(cut))
    saved.require_answer(cut)


@OFTEN
@given(which=WHICH, some=PLACES, places=PLACES, byte=st.sampled_from([0, 1, 2, 127, 128, 255]))
def test_arrays_of_other_numbers_never_crash(which, some, places, byte, saved):
    """Sound in type and shape, random in content: as an attacker would begin."""
    meta, arrays = storage.from_bytes(saved.models[which], KIND)
    for number in some[:3]:
        name = sorted(arrays)[number % len(arrays)]
        arrays[name] = arrays[name].copy()
        flat = arrays[name].reshape(-1).view(np.uint8)
        for place in places if flat.size else ():
            flat[place % flat.size] = byte % 2 if arrays[name].dtype == np.bool_ else byte
    saved.require_answer(storage.to_bytes(KIND, meta, arrays))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def places_in(value, place=()):
    """Give the way to every part of a JSON value."""
    yield place
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(part, (*place, key))


@OFTEN
@given(which=WHICH, places=PLACES, value=JSON, removes=st.booleans())
def test_heads_with_other_parts_never_crash(which, places, value, removes, saved):
    body = saved.models[which][:-32]
    (n_head,) = struct.unpack_from("<Q", body, 12)
    head = json.loads(body[FRAME.size : FRAME.size + n_head])
    for number in places[:2]:
        ways = [way for way in places_in(head) if way]
        if not ways:
            break
        *above, last = ways[number % len(ways)]
        parent = head
        for key in above:
            parent = parent[key]
        if removes:
            del parent[last]
        else:
            parent[last] = copy.deepcopy(value)
    text = json.dumps(head).encode()
    forged = FRAME.pack(b"SPINNEY\0", storage.VERSION, len(text)) + text
    saved.require_answer(sealed(forged + body[FRAME.size + n_head :]))


@pytest.mark.parametrize("inside", ["meta", "arrays", "everything"])
def test_a_head_nested_beyond_reason_is_refused(inside, saved):
    deep = b"[" * 100_000 + b"]" * 100_000
    head = {
        "meta": b'{"kind":"forest model","meta":{"schema":' + deep + b'},"arrays":[]}',
        "arrays": b'{"kind":"forest model","meta":{},"arrays":' + deep + b"}",
        "everything": deep,
    }[inside]
    forged = FRAME.pack(b"SPINNEY\0", storage.VERSION, len(head)) + head
    saved.path.write_bytes(sealed(forged))
    with pytest.raises(StorageError, match=r"malformed header\. Copy it again, or save the model"):
        load_model(saved.path)


def test_a_class_label_without_classes_is_refused(saved):
    meta, arrays = storage.from_bytes(saved.models[1], KIND)
    label = {"name": "y", "kind": "class", "classes": None, "range": None}
    meta["schema"]["label"] = label
    storage.write_file(saved.path, KIND, meta, arrays)
    with pytest.raises(StorageError, match="does not hold a valid forest"):
        load_model(saved.path)
