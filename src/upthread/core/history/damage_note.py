"""What a model is told of damage in a record that it is replayed from.

A replay is prose: it names what was said last, and needs no repair to be accepted. What the model
would miss is that a call has no result, that a result had no call, that half of a character is
gone: those are said in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile

from upthread.core.history.model import History, HistoryMessage
from upthread.core.history.repair import repair, told_to_model
from upthread.core.types import Speaker


def damage_told(newest: Sequence[HistoryMessage]) -> str:
    """Return the words for what repair would change, empty for a sound history.

    `newest` may begin anywhere: what comes before the first message of a user is left out, since
    the calls it belongs to may lie further back.
    """
    # Else a result whose call lies further back would be told as one that nothing made.
    messages = tuple(dropwhile(lambda message: message.speaker is not Speaker.USER, newest))
    return told_to_model(repair(History(messages=messages)).changes)
