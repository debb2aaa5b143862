"""Nothing can be written into a message, by the coordinator or by a party."""

from dataclasses import FrozenInstanceError, fields

import pytest

from contracts.sent_messages import MESSAGES, NAMES, sent_messages  # type: ignore[import-not-found]
from spinney.transport import codec

each_message = pytest.mark.parametrize("kind", MESSAGES, ids=NAMES)


@each_message
def test_a_message_has_no_room_for_anything_but_its_fields(kind):
    message = codec.decode(sent_messages()[kind], kind)
    assert not hasattr(message, "__dict__")
    for field in fields(kind):
        with pytest.raises(FrozenInstanceError, match="is a message"):
            setattr(message, field.name, None)
    with pytest.raises(FrozenInstanceError, match="is a message"):
        message.hint = 1
    with pytest.raises(AttributeError):
        object.__setattr__(message, "hint", 1)
