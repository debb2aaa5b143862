"""Nothing can be written into a message, by the coordinator or by a party."""

from dataclasses import FrozenInstanceError, fields

import pytest

from contracts.sent_messages import MESSAGES, NAMES, sent_messages  # type: ignore[import-not-found]
from spinney.protocols.horizontal_forest.messages import LevelAsk
from spinney.protocols.private_tree.messages import PublicTree, TreeSoFar
from spinney.protocols.private_tree.settings import TreeSettings
from spinney.protocols.settings import PrivacySettings
from spinney.tables.schema import Column, Label, Schema
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


def test_a_level_inside_a_message_is_frozen_too():
    (level,) = codec.decode(sent_messages()[LevelAsk], LevelAsk).levels[:1]
    for name in ("feature", "hint"):
        with pytest.raises(FrozenInstanceError, match="A level is part of messages"):
            setattr(level, name, None)


def test_a_private_tree_follows_from_the_plan_of_whoever_asks():
    schema = Schema((Column("x", "number", range=(0.0, 1.0)),), Label("y", "class", ("no", "yes")))
    privacy = PrivacySettings(epsilon="1", job="q")
    settings = TreeSettings(privacy=privacy, method="histograms", n_rows=100)
    theirs, own = PublicTree.of(schema, settings, 2), PublicTree.of(schema, settings, 2)
    tree = TreeSoFar(settings, schema.digest(), 2, (), ())
    assert tree.grown(theirs).public is theirs
    assert tree.grown(own).public is own
