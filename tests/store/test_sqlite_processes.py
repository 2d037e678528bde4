"""The sudden death of a process that writes to a SQLite store. More processes: the suite's."""

import os
import signal
import subprocess
import sys

import pytest
from tests.support.sets import EXTENDED, SOAK, spread

from upthread.core.types import ConversationId
from upthread.store.sqlite import SqliteStore

pytestmark = EXTENDED

WRITER = """
import sys
from pathlib import Path
from upthread.core.commands import OpenConversation
from upthread.core.types import ConversationId, Durability, TextPart, TurnId
from upthread.store.sqlite import SqliteStore
from upthread.testing.store_conformance import samples

path, number, messages, size = Path(sys.argv[1]), *map(int, sys.argv[2:])
owner, turn = ConversationId(f"con_{number}"), TurnId(f"trn_{number}")
print("ready", flush=True)
sys.stdin.readline()
store = SqliteStore(path)
new = samples.conversation(owner, key=samples.sibling_key(number + 1))
store.commit([samples.workstream(), OpenConversation(conversation=new)])
store.commit([samples.turn(turn, owner=owner)])
for seq in range(store.message_count(owner) + 1, messages + 1):
    text = TextPart(text=f"{seq} " + "x" * size)
    durability = Durability.SYNCED if seq % 8 == 0 else Durability.PROCESS
    store.commit([samples.said(seq, text, owner=owner, turn_id=turn, durability=durability)])
    print(seq, flush=True)
"""


def start(path, number, *, messages, size):
    command = [sys.executable, "-c", WRITER, str(path), str(number), str(messages), str(size)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@SOAK
@pytest.mark.parametrize("messages", spread([1, 2, 5, 20, 60], first=[5]))
def test_everything_acknowledged_survives_a_kill(tmp_path, messages):
    path = tmp_path / "store.db"
    writer = start(path, 0, messages=1_000_000, size=3_000)
    writer.stdout.readline()
    writer.stdin.write("go\n")
    writer.stdin.flush()
    for _ in range(messages):
        acknowledged = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    # Not `communicate`: it would lose what readline has read ahead.
    lines = writer.stdout.read().split("\n")[:-1]  # after the last line break nothing was said
    writer.communicate(timeout=60)
    acknowledged = int(lines[-1]) if lines else acknowledged
    store = SqliteStore(path)
    owner = ConversationId("con_0")
    kept = store.message_count(owner)
    assert acknowledged <= kept <= acknowledged + 1
    assert len(store.messages(owner)) == kept
    assert store.verify(owner) is None
    store.close()
