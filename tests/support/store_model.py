"""What a store promises, on one plain dict: what real stores are compared with, write by write.

It knows nothing of entries, heads and folds. What is kept are the writes themselves and the values
in them, by key, in the order of commits. Nothing is erased, and nothing proved.
"""

from __future__ import annotations

from functools import singledispatchmethod

from msgspec import structs

from upthread.core import commands, types
from upthread.core.codec import encode_json
from upthread.core.context.prior_context import newest_exchanges
from upthread.errors import ConflictError, FencedError, NotFoundError, UpthreadError
from upthread.store.reads import Resolved


def given(write):
    """Return a write as a store gives it back: its durability is not kept."""
    (default,) = (f.default for f in structs.fields(write) if f.name == "durability")
    return structs.replace(write, durability=default)


class Model:
    """The part of the port that `test_sqlite_against_model` asks."""

    def __init__(self) -> None:
        self.kept = {}
        self.leases = {}

    # --- how things are kept -------------------------------------------------------------------

    def put(self, *key: object, value):
        """Keep a value; the same again changes nothing, another one is a conflict."""
        if encode_json(self.kept.setdefault(key, value)) != encode_json(value):
            raise ConflictError(f"{key} has other content")

    def of(self, *key: object):
        """Return all values whose key begins so, in the order of commits."""
        return [value for each, value in self.kept.items() if each[: len(key)] == key]

    def must_know(self, *key: object):
        if key not in self.kept:
            raise NotFoundError(f"no {key}")
        return self.kept[key]

    def put_next(self, *key: object, seq, value):
        """Keep a value under the next number."""
        if not 1 <= seq <= len(self.of(*key)) + 1:
            raise ConflictError("a gap")
        self.put(*key, seq, value=value)

    # --- writes --------------------------------------------------------------------------------

    def commit(self, writes, *, fences=()):
        before = dict(self.kept)
        try:
            for fence in fences:
                self._must_hold(fence)
            for write in writes:
                self.do(write)
        except UpthreadError:
            self.kept = before
            raise

    @singledispatchmethod
    def do(self, write):
        raise NotImplementedError(type(write))

    @do.register
    def _(self, write: commands.RecordProject):
        known = given(write)
        self.put("project", encode_json(known), value=known)

    @do.register
    def _(self, write: commands.OpenWorkstream):
        self.put("workstream", write.project_id, write.workstream, value=given(write))
        named = [
            each
            for each in self.of("workstream", write.project_id)
            if each.base_name == write.base_name
        ]
        if len(named) > 1:
            raise ConflictError("a base name of another")

    @do.register
    def _(self, write: commands.OpenConversation):
        new, key = write.conversation, write.conversation.key
        if ("conversation", new.conversation_id) not in self.kept:
            generations = {
                each.generation for each in self.of("conversation") if key.slot and each.key == key
            }
            if new.generation in generations:
                raise ConflictError("another has this generation")
            home = self.must_know("workstream", key.project_id, key.workstream)
            if home.base_name != new.base_name:
                raise ConflictError("not its workstream's base name")
            if new.parent_conversation_id is not None:
                self.must_know("conversation", new.parent_conversation_id)
        self.put("conversation", new.conversation_id, value=new)

    @do.register
    def _(self, write: commands.OpenLink):
        owner, seq = write.link.conversation_id, write.link.seq
        self.must_know("conversation", owner)
        opened = structs.replace(write.link, ended_because=None, ended_at_ms=None)
        self.put_next("link", owner, seq=seq, value=opened)
        if write.link.ended_because is not None:
            end = (write.link.ended_because, write.link.ended_at_ms or 0)
            self.kept.setdefault(("link ended", owner, seq), end)

    @do.register
    def _(self, write: commands.EndLink):
        self.must_know("conversation", write.conversation_id)
        self.must_know("link", write.conversation_id, write.seq)
        end = (write.ended_because, write.ended_at_ms)
        self.kept.setdefault(("link ended", write.conversation_id, write.seq), end)

    @do.register
    def _(self, write: commands.OpenTurn):
        self.must_know("conversation", write.conversation_id)
        self.put("turn", write.turn_id, value=given(write))
        if write.run_id is not None:
            self.must_know("run", write.run_id)

    def must_own(self, write):
        turn = self.must_know("turn", write.turn_id)
        if turn.conversation_id != write.conversation_id:
            raise NotFoundError("a turn of another")

    @do.register
    def _(self, write: commands.OpenRun):
        self.put("run", write.run_id, value=given(write))
        self.must_know("workstream", write.project_id, write.workstream)

    @do.register
    def _(self, write: commands.RecordTurnEvent):
        self.must_own(write)
        self.put_next("event", write.turn_id, seq=write.seq, value=given(write))

    @do.register
    def _(self, write: commands.RecordRunEvent):
        self.must_know("run", write.run_id)
        self.put_next("event", write.run_id, seq=write.seq, value=given(write))

    @do.register
    def _(self, write: commands.EnqueueTransition):
        self.must_know("run", write.run_id)
        if not 0 <= write.run_seq <= len(self.of("event", write.run_id)):
            raise ConflictError("a transition from nowhere")
        self.put("due", write.run_id, write.run_seq, value=write.due_at_ms)

    @do.register
    def _(self, write: commands.RecordQuarantine):
        self.must_own(write)
        self.put("stray", write.turn_id, write.ordinal, value=given(write))

    @do.register
    def _(self, write: commands.RecordDecision):
        self.must_know("conversation", write.conversation_id)
        self.put("refusal", write.conversation_id, encode_json(given(write)), value=given(write))

    @do.register
    def _(self, write: commands.RecordExamined):
        self.must_know("conversation", write.conversation_id)
        self.must_know("turn", write.turn_id)
        for ordinal, file in enumerate(write.files, write.first_ordinal):
            value = (write.conversation_id, write.upstream_session_id, file, write.recorded_at_ms)
            self.put("examined", write.turn_id, ordinal, value=value)

    @do.register
    def _(self, write: commands.RecordBriefingEdit):
        owner = write.conversation_id
        self.must_know("conversation", owner)
        self.put_next("edit", owner, seq=write.seq, value=given(write))

    @do.register
    def _(self, write: commands.RecordOnce):
        action = ("once", write.project_id, write.key)
        place = (*action, write.attempt_id, write.state)
        if place not in self.kept:
            last = self.of(*action)[-1:]
            if write.state == "intent":
                if last and last[0].state != "failed":
                    raise ConflictError("begun")
            elif not last:
                raise NotFoundError("never begun")
            elif (last[0].attempt_id, last[0].state) != (write.attempt_id, "intent"):
                raise ConflictError("not its turn")
        self.put(*place, value=given(write))

    @do.register
    def _(self, write: commands.RecordParts):
        owner = write.conversation_id
        self.must_know("conversation", owner)
        self.must_know("turn", write.turn_id)
        fields = (write.speaker, write.turn_id, write.upstream_session_id)
        for ordinal, part in enumerate(write.parts, write.first_ordinal):
            last_seq = self.message_count(owner)
            count = len(self.of("part", owner, last_seq))
            is_more = write.seq == last_seq > 0 and ordinal == count
            is_new = write.seq == last_seq + 1 and ordinal == 0
            if is_more and self.kept["part", owner, last_seq, 0][:3] != fields:
                raise ConflictError("a message of another")
            if not (is_more or is_new or ("part", owner, write.seq, ordinal) in self.kept):
                raise ConflictError("a gap")
            value = (*fields, write.recorded_at_ms, part)
            self.put("part", owner, write.seq, ordinal, value=value)

    # --- leases --------------------------------------------------------------------------------

    def _must_hold(self, fence):
        lease = self.leases.get(fence.name)
        if lease is None or lease.token != fence.token or lease.holder is None:
            raise FencedError("lost")
        return lease

    def acquire_lease(self, name, holder, *, seen=None):
        stands = self.leases.get(name, types.Lease(name=name, token=0, heartbeat=0, holder=None))
        if stands.holder is not None and seen != stands:
            return None
        self.leases[name] = types.Lease(
            name=name, token=stands.token + 1, heartbeat=stands.heartbeat + 1, holder=holder
        )
        return self.leases[name]

    def heartbeat(self, fence):
        lease = self._must_hold(fence)
        self.leases[fence.name] = structs.replace(lease, heartbeat=lease.heartbeat + 1)

    def release_lease(self, fence):
        lease = self.leases.get(fence.name)
        if lease is None or lease.token != fence.token:
            raise FencedError("lost")
        self.leases[fence.name] = structs.replace(lease, holder=None)

    def lease(self, name):
        return self.leases.get(name)

    # --- reads ---------------------------------------------------------------------------------

    def workstreams(self, project_id):
        return tuple(self.of("workstream", project_id))

    def workstream(self, project_id, name):
        return self.kept.get(("workstream", project_id, name))

    def conversation(self, conversation_id):
        return self.kept.get(("conversation", conversation_id))

    def conversations(self, *address: str):
        return tuple(
            each
            for each in self.of("conversation")
            if (each.key.project_id, each.key.workstream) == address
        )

    def runs(self, *address: str):
        return tuple(e for e in self.of("run") if (e.project_id, e.workstream) == address)

    def resolve(self, key):
        found = [each for each in self.of("conversation") if key.slot and each.key == key]
        if not found:
            return None
        newest = max(found, key=lambda each: each.generation)
        links = [e for e in self.links(newest.conversation_id) if e.ended_because is None]
        owner = newest.conversation_id
        turns = [each.turn_id for each in self.turns(owner)]
        return Resolved(
            newest,
            links[-1] if links else None,
            self.message_count(owner),
            turns[-1] if turns else None,
        )

    def projects(self, identity):
        return tuple(
            each
            for each in self.of("project")
            if (
                each.identity.path == identity.path
                and each.identity.owner in {None, identity.owner}
            )
            or (identity.root_commit and each.identity.root_commit == identity.root_commit)
        )

    def links(self, owner):
        found = []
        for link in self.of("link", owner):
            end = self.kept.get(("link ended", owner, link.seq), (None, None))
            found.append(structs.replace(link, ended_because=end[0], ended_at_ms=end[1]))
        return tuple(found)

    def owner(self, project_id, session=None, *, turn_id=None):
        """Return whose newest link is the session's; of several the one opened last."""
        if turn_id is not None:
            held = {each.conversation_id: 0 for each in self.of("turn", turn_id)}
        else:
            newest = {each.conversation_id: each for each in self.of("link")}
            held = {
                owner: link.opened_at_ms
                for owner, link in newest.items()
                if link.upstream_session_id == session
            }
        owners = [each for each in self.of("conversation") if each.conversation_id in held]
        own = [each for each in owners if each.key.project_id == project_id]
        return max(reversed(own), key=lambda each: held[each.conversation_id], default=None)

    def message_count(self, owner):
        return max((key[2] for key in self.kept if key[:2] == ("part", owner)), default=0)

    def messages(self, owner, *, after_seq=0, first=None, newest=None):
        last = self.message_count(owner)
        until = last if first is None else min(last, after_seq + first)
        begin = after_seq if newest is None else max(after_seq, last - newest)
        return tuple(self._message(owner, seq) for seq in range(begin + 1, until + 1))

    def _message(self, owner, seq):
        parts = self.of("part", owner, seq)
        speaker, turn_id, session, at_ms, _ = parts[0]
        said = tuple(part for *_, part in parts)
        return types.Message(owner, seq, speaker, turn_id, session, at_ms, said)

    def prior_messages(self, owner, *, upstream_session_ids, newest):
        said = []
        for message in reversed(self.messages(owner)):
            texts = tuple(each for each in message.parts if isinstance(each, types.TextPart))
            is_readable = message.upstream_session_id in {None, *upstream_session_ids}
            if is_readable and message.speaker is not types.Speaker.TOOL and message.text.strip():
                said.append(structs.replace(message, parts=texts))
        return newest_exchanges(said, newest)

    def turns(self, owner, *, newest=None):
        found = [each for each in self.of("turn") if each.conversation_id == owner]
        return tuple(found if newest is None else found[max(len(found) - newest, 0) :])

    def _is_of(self, owner, turn_id):
        turn = self.kept.get(("turn", turn_id))
        return turn is not None and turn.conversation_id == owner

    def turn_events(self, owner, turn_id):
        return tuple(self.of("event", turn_id) if self._is_of(owner, turn_id) else ())

    def run_events(self, run_id):
        return tuple(self.of("event", run_id))

    def refusals(self, owner):
        return tuple(self.of("refusal", owner))

    def quarantined(self, owner, turn_id):
        found = self.of("stray", turn_id) if self._is_of(owner, turn_id) else []
        return tuple(sorted(found, key=lambda each: each.ordinal))

    def examined(self, owner, *, upstream_session_id=None):
        last = {}
        for whose, session, file, _ in self.of("examined"):
            if whose == owner and upstream_session_id in {None, session}:
                last.pop(file.path, None)
                last[file.path] = file
        return tuple(last.values())

    def briefing_edit(self, owner):
        return next(reversed(self.of("edit", owner)), None)

    def once(self, project_id, key):
        return next(reversed(self.of("once", project_id, key)), None)
