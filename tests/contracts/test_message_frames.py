"""Every message comes back from its bytes; what is damaged is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.sent_messages import MESSAGES, NAMES, sent_messages  # type: ignore[import-not-found]
from spinney.errors import StorageError
from spinney.transport import codec


def test_every_kind_of_message_was_sent():
    steps = {kind for kind in sent_messages() if kind.__name__ == "StepReply"}
    assert steps
    assert set(sent_messages()) - steps == set(MESSAGES)


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
def test_a_message_comes_back_from_its_bytes(kind):
    found = codec.decode(sent_messages()[kind], kind)
    assert isinstance(found, kind)
    assert codec.encode(found) == sent_messages()[kind]
    assert codec.encoded_size(found) == len(sent_messages()[kind])


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
def test_a_frame_cut_anywhere_is_refused(kind):
    data = sent_messages()[kind]
    step = max(1, len(data) // 200)
    for length in [*range(0, len(data), step), len(data) - 1]:
        with pytest.raises(StorageError):
            codec.decode(data[:length], kind)
    with pytest.raises(StorageError):
        codec.decode(data + b"\0", kind)


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
def test_a_message_is_not_taken_for_another(kind):
    for other in MESSAGES:
        if other is not kind:
            with pytest.raises(StorageError, match="got a message of another kind"):
                codec.decode(sent_messages()[kind], other)


@pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)
@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_frame_is_a_message_or_refused_and_never_anything_else(kind, data):
    damaged = bytearray(sent_messages()[kind])
    n_head = 9 + int.from_bytes(damaged[5:9], "little")
    for _ in range(data.draw(st.integers(1, 4))):
        most = data.draw(st.sampled_from([n_head, len(damaged)]))  # half of them in the head
        place = data.draw(st.integers(5, max(5, most - 1))) % len(damaged)
        match data.draw(st.sampled_from(["set", "insert", "delete"])):
            case "set":
                damaged[place] = data.draw(st.integers(0, 255))
            case "insert":
                damaged.insert(place, data.draw(st.integers(0, 255)))
            case "delete":
                del damaged[place]
    try:
        found = codec.decode(bytes(damaged), kind)
    except StorageError:
        return
    assert isinstance(found, kind)
