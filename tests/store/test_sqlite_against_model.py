"""A store does what the model does: the same writes accepted, refused and read back."""

import shutil
import tempfile
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.sets import SOAK
from tests.support.store_model import Model
from tests.support.thoroughness import IS_THOROUGH

from upthread.core import commands, types
from upthread.core.decision.freshness import ExaminedFile
from upthread.core.events import PromptSent, QuestionAnswered, TurnEnded
from upthread.errors import UpthreadError
from upthread.store.sqlite import SqliteStore

# Few names, so that writes meet; odd ones among them.
PROJECTS = ["prj_a", "prj_b"]
WORKSTREAMS = ["spec-42", "\0'\ud800"]
BASE_NAMES = ["Kael", "Lyra"]
CONVERSATIONS = ["con_0", "con_1", "con_2", "con_\ud800"]
TURNS = ["trn_0", "trn_1"]
RUNS = ["run_0", "run_1"]
SESSIONS = ["ses_a", "ses_b", "\ud83d\ude00"]
LEASES = ["one", "two"]
ACTIONS = ["deploy", "\ud800"]
OF_A_CONVERSATION = ("conversation", "links", "messages", "message_count", "refusals", "examined")
TEXTS = ["", "a", "a\0b", "\ud800", "\U0001f600", "e\u0301"]

projects, workstreams = st.sampled_from(PROJECTS), st.sampled_from(WORKSTREAMS)
base_names, conversations = st.sampled_from(BASE_NAMES), st.sampled_from(CONVERSATIONS)
turns, runs = st.sampled_from(TURNS), st.sampled_from(RUNS)
sessions, texts = st.sampled_from(SESSIONS), st.sampled_from(TEXTS)
times = st.integers(0, 2)
durabilities = st.sampled_from(types.Durability)
offsets = st.sampled_from([0, 0, 0, 0, 0, -1, 1])
"""Where a numbered write goes, seen from the next free place."""

values = st.recursive(
    st.none() | st.integers(-3, 3) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
parts = st.one_of(
    st.builds(types.TextPart, text=texts),
    st.builds(types.ToolCallPart, call_id=texts, title=texts, tool_kind=texts, arguments=values),
    st.builds(types.UnknownPart, kind=texts, raw=values),
    st.builds(types.ErasedPart, kind=st.just("text")),
)
FIELDS = {
    "project_id": projects,
    "workstream": workstreams,
    "role": st.just("planner"),
    "slot": st.sampled_from([1, 1, 2, 0]),
    "base_name": base_names,
    "conversation_id": conversations,
    "generation": st.integers(1, 2),
    "parent_conversation_id": st.none() | conversations,
    "turn_id": turns,
    "run_id": runs,
    "run_seq": st.integers(-1, 2),
    "upstream_session_id": sessions,
    "seq": st.integers(0, 3),
    "ordinal": times,
    "first_ordinal": times,
    "key": st.sampled_from(ACTIONS),
    "attempt_id": st.sampled_from(["att_0", "att_1"]),
    "state": st.sampled_from(["intent", "intent", "done", "failed"]),
    "reasons": st.lists(texts, max_size=2).map(tuple),
    "durability": durabilities,
    "pid": st.integers(1, 3),
    **dict.fromkeys(("raw", "receipt", "edit", "inputs"), values),
    **dict.fromkeys(("reason", "ended_because", "decision", "host", "boot_id", "doing"), texts),
    **dict.fromkeys(("path", "call_id", "title", "tool_kind"), texts),
    **dict.fromkeys(("root_commit", "remote", "parent_call_id", "digest"), st.none() | texts),
    **dict.fromkeys(("opened_at_ms", "ended_at_ms", "due_at_ms", "recorded_at_ms"), times),
    **dict.fromkeys(("decided_at_ms", "started_at_ticks"), times),
    **dict.fromkeys(("size_bytes", "mtime_ns"), st.none() | times),
}
"""What a member of a value or of a write may be, by its name."""


def built(kind, **instead):
    """Values of a kind, each member by its name."""
    names = kind.__struct_fields__
    return st.builds(kind, **{name: FIELDS[name] for name in names if name in FIELDS} | instead)


keys, holders, identities = map(built, (types.ConversationKey, types.Holder, types.ProjectIdentity))
files = built(
    ExaminedFile,
    how=st.sampled_from(["read", "wrote", "ran"]),
    state=st.sampled_from(["hashed", "missing"]),
)
plain_writes = st.one_of(
    built(commands.RecordProject, identity=identities),
    built(commands.OpenConversation, conversation=built(types.Conversation, key=keys)),
    built(commands.EndLink, seq=st.integers(1, 2)),
    built(commands.OpenTurn, run_id=st.none() | runs),
    built(commands.RecordExamined, files=st.lists(files, max_size=2).map(tuple)),
    *map(built, (commands.OpenWorkstream, commands.OpenRun, commands.EnqueueTransition)),
    *map(built, (commands.RecordQuarantine, commands.RecordOnce)),
    *map(built, (commands.RecordBriefingEdit, commands.RecordDecision)),
)


class SqliteAgainstModel(RuleBasedStateMachine):
    """Both stores, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="upthread-machine-"))
        self.store = self.open()
        self.model = Model()

    def open(self):
        """Open the store under test, made if there is none."""
        return SqliteStore(self.directory / "store.db")

    def teardown(self):
        self.store.close()
        shutil.rmtree(self.directory)

    def both(self, call):
        """Do the same to both; they return the same or raise the same kind of error."""
        outcomes = []
        for store in (self.model, self.store):
            try:
                outcomes.append(call(store))
            except UpthreadError as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]
        return outcomes[0]

    @initialize()
    def open_something(self):
        """Begin with what most writes need, so that most of them succeed."""
        opened = [
            types.Conversation(
                conversation_id=name,
                key=key_of("prj_a", "spec-42", slot),
                generation=generation,
                base_name="Kael",
                opened_at_ms=0,
            )
            for name, slot, generation in (("con_0", 1, 2), ("con_1", 1, 1), ("con_2", 2, 1))
        ]
        home = [
            commands.OpenWorkstream(
                project_id="prj_a", workstream="spec-42", base_name="Kael", opened_at_ms=0
            ),
            *(commands.OpenConversation(conversation=each) for each in opened),
            commands.OpenTurn(turn_id="trn_0", conversation_id="con_0", opened_at_ms=0),
            commands.OpenRun(
                run_id="run_0", project_id="prj_a", workstream="spec-42", opened_at_ms=0
            ),
        ]
        assert self.both(lambda store: store.commit(home)) is None

    @rule(batch=st.lists(plain_writes, min_size=1, max_size=4), twice=st.booleans())
    def commit(self, batch, twice):
        first = self.both(lambda store: store.commit(batch))
        if twice:
            assert self.both(lambda store: store.commit(batch)) == first

    @rule(
        owner=conversations,
        offset=offsets,
        turn=turns,
        said=st.lists(st.lists(parts, max_size=3), min_size=1, max_size=3),
        speaker=st.sampled_from(types.Speaker),
        upstream=st.none() | sessions,
        at_ms=times,
        durability=durabilities,
    )
    def speak(  # Hypothesis calls it by name
        self, owner, offset, turn, said, speaker, upstream, at_ms, durability
    ):
        first = self.model.message_count(owner) + 1 + offset
        batch = [
            commands.RecordParts(
                conversation_id=owner,
                seq=first + number,
                first_ordinal=0,
                speaker=speaker,
                turn_id=turn,
                upstream_session_id=upstream,
                recorded_at_ms=at_ms,
                parts=tuple(pieces),
                durability=durability,
            )
            for number, pieces in enumerate(said)
        ]
        self.both(lambda store: store.commit(batch))

    @rule(owner=conversations, offset=offsets, more=st.lists(parts, max_size=2))
    def continue_message(self, owner, offset, more):
        found = self.model.messages(owner, newest=1)
        if not found:
            return
        last = found[0]
        write = commands.RecordParts(
            conversation_id=owner,
            seq=last.seq,
            first_ordinal=len(last.parts) + offset,
            speaker=last.speaker,
            turn_id=last.turn_id,
            upstream_session_id=last.upstream_session_id,
            recorded_at_ms=last.recorded_at_ms,
            parts=tuple(more),
        )
        self.both(lambda store: store.commit([write]))

    @rule(
        owner=conversations,
        offset=offsets,
        upstream=sessions,
        because=texts,
        ended=st.none() | texts,
        at_ms=times,
    )
    def link(self, owner, offset, upstream, because, ended, at_ms):
        link = types.Link(
            conversation_id=owner,
            seq=len(self.model.links(owner)) + 1 + offset,
            upstream_session_id=upstream,
            agent="rehearsal",
            agent_version="1",
            working_directory=because,
            opened_because=because,
            opened_at_ms=at_ms,
            ended_because=ended,
            ended_at_ms=None if ended is None else 2,
        )
        self.both(lambda store: store.commit([commands.OpenLink(link=link)]))

    def owner_of(self, turn):
        found = [each for each in PROJECTS if self.model.owner(each, turn_id=turn)]
        return self.model.owner(found[0], turn_id=turn).conversation_id if found else "con_0"

    @rule(
        turn=turns,
        offset=offsets,
        report=values,
        durability=durabilities,
        other=st.none() | st.none() | conversations,
    )
    def turn_event(self, turn, offset, report, durability, other):
        owner = other or self.owner_of(turn)
        seq = len(self.model.turn_events(owner, turn)) + 1 + offset
        event = (
            TurnEnded(outcome=types.Outcome.OK, report=report)
            if report
            else PromptSent(prompt_seq=1)
        )
        write = commands.RecordTurnEvent(
            conversation_id=owner,
            turn_id=turn,
            seq=seq,
            event=event,
            recorded_at_ms=1,
            durability=durability,
        )
        self.both(lambda store: store.commit([write]))

    @rule(run=runs, offset=offsets, text=texts, due=st.none() | times)
    def run_event(self, run, offset, text, due):
        seq = len(self.model.run_events(run)) + 1 + offset
        event = QuestionAnswered(question_id="q", text=text)
        batch = [commands.RecordRunEvent(run_id=run, seq=seq, event=event, recorded_at_ms=1)]
        if due is not None:
            batch.append(commands.EnqueueTransition(run_id=run, run_seq=seq, due_at_ms=due))
        self.both(lambda store: store.commit(batch))

    @rule(name=st.sampled_from(LEASES), holder=holders, has_seen=st.booleans())
    def acquire(self, name, holder, has_seen):
        seen = self.model.lease(name) if has_seen else None
        self.both(lambda store: store.acquire_lease(name, holder, seen=seen))

    @rule(
        name=st.sampled_from(LEASES),
        token=st.integers(1, 4),
        move=st.sampled_from(["heartbeat", "release_lease"]),
    )
    def move_lease(self, name, token, move):
        self.both(lambda store: getattr(store, move)(types.Fence(name=name, token=token)))

    @rule(name=st.sampled_from(LEASES), token=st.integers(1, 4), write=plain_writes)
    def commit_fenced(self, name, token, write):
        self.both(lambda store: store.commit([write], fences=[types.Fence(name=name, token=token)]))

    @rule()
    def reopen(self):
        self.store.close()
        self.store = self.open()

    @rule(
        project=projects,
        key=st.sampled_from(ACTIONS),
        attempt=st.sampled_from(["att_0", "att_1"]),
        end=st.sampled_from(["done", "failed"]),
        receipt=values,
    )
    def do_once(self, project, key, attempt, end, receipt):
        """A whole attempt, more often than single steps would make one."""
        for state in ("intent", end):
            step = commands.RecordOnce(
                project_id=project,
                key=key,
                attempt_id=attempt,
                state=state,
                receipt=receipt if state == "done" else None,
                recorded_at_ms=1,
            )
            self.both(lambda store, step=step: store.commit([step]))

    @rule(
        owner=conversations,
        newest=st.integers(-1, 6),
        chain=st.lists(sessions, max_size=2),
    )
    def read_what_was_said(self, owner, newest, chain):
        self.both(
            lambda store: store.prior_messages(owner, upstream_session_ids=chain, newest=newest)
        )

    @rule(owner=conversations, after_seq=st.integers(0, 6), newest=st.none() | st.integers(0, 6))
    def read_some(self, owner, after_seq, newest):
        self.both(lambda store: store.messages(owner, after_seq=after_seq, newest=newest))
        self.both(lambda store: store.messages(owner, after_seq=after_seq, first=1))
        self.both(lambda store: store.turns(owner, newest=newest))

    @invariant()
    def they_hold_the_same(self):
        self.both(everything)
        assert all(self.store.verify(each) is None for each in CONVERSATIONS)


def key_of(project, workstream, slot):
    return types.ConversationKey(
        project_id=project, workstream=workstream, role="planner", slot=slot
    )


def everything(store):
    """All a store can tell about the few names there are."""
    addresses = [(project, name) for project in PROJECTS for name in WORKSTREAMS]
    return (
        [store.workstreams(each) for each in PROJECTS],
        [store.conversations(*each) for each in addresses],
        [store.workstream(*each) for each in addresses],
        [store.runs(*each) for each in addresses],
        [store.resolve(key_of(*each, slot)) for each in addresses for slot in (0, 1, 2)],
        [store.projects(types.ProjectIdentity(path=text, root_commit="a")) for text in TEXTS],
        [store.owner(project, each) for project in PROJECTS for each in SESSIONS],
        [[read(each) for each in CONVERSATIONS] for read in attrgetter(*OF_A_CONVERSATION)(store)],
        [store.owner(project, turn_id=each) for project in PROJECTS for each in TURNS],
        [store.turn_events(owner, each) for owner in CONVERSATIONS for each in TURNS],
        [store.quarantined(owner, each) for owner in CONVERSATIONS for each in TURNS],
        [store.run_events(each) for each in RUNS],
        [store.lease(each) for each in LEASES],
        [store.examined(each, upstream_session_id=SESSIONS[0]) for each in CONVERSATIONS],
        [store.briefing_edit(each) for each in CONVERSATIONS],
        [store.once(project, key) for project in PROJECTS for key in ACTIONS],
        [
            store.prior_messages(each, upstream_session_ids=SESSIONS, newest=99)
            for each in CONVERSATIONS
        ],
    )


def at_length(examples, steps):
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.timeout(600)
class TestSqliteAgainstModel(SqliteAgainstModel.TestCase):
    """The short version."""

    settings = at_length(40 if IS_THOROUGH else 10, 30)


@SOAK
class TestSqliteAgainstModelForLong(SqliteAgainstModel.TestCase):
    """Fifty thousand steps and more."""

    settings = at_length(1_000, 60)
