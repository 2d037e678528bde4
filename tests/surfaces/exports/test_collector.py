"""Spans reach a receiver of OTLP as they end: each once, and again where none took them."""

import json
import signal
from collections.abc import Iterator

import pytest
from tests.support.otlp_receiver import Receiver, told_of
from tests.support.sets import EXTENDED
from tests.support.world import eventually

CHILD = "[[rehearse: child explorer look around]] [[rehearse: read README.md]]"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def up(make_upthread, tmp_path):
    made = make_upthread(tmp_path)
    # Else it tries again for ten seconds before it says that nobody answers.
    made.environment["OTEL_EXPORTER_OTLP_TIMEOUT"] = "1"
    return made


def tell(up, address: str, text: str) -> None:
    up("tell", address, text, "--agent", "rehearsal", code=None)


def test_what_has_ended_is_sent_with_its_tools_and_sub_agents_in_one_trace(up, receiver):
    tell(up, "w/planner", CHILD)
    tell(up, "other/planner", "[[rehearse: say secret words]]")
    told = up("export", "--endpoint", receiver.endpoint, "--json").json
    assert told["spans"] == len(receiver.spans) == 5
    by_id = {span.span_id: span for span in receiver.spans}
    (child,) = [span for span in receiver.spans if span.name == "invoke_agent explorer"]
    call = by_id[child.parent_span_id]
    turn = by_id[call.parent_span_id]
    assert (call.name, turn.name) == ("execute_tool other", "invoke_agent planner")
    assert child.trace_id == call.trace_id == turn.trace_id
    assert told_of(turn)["upthread.decision"] == "first"
    assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in receiver.spans)
    assert "secret" not in "".join(map(str, receiver.spans))
    up("export", "other", "--endpoint", receiver.endpoint, "--content")
    assert "secret words" in str(receiver.spans[-1])


@EXTENDED
def test_followed_each_is_sent_once_as_it_ends_and_none_is_lost_while_nobody_takes_it(up):
    tell(up, "w/planner", CHILD)  # before: not sent
    receiver = Receiver()
    port = int(receiver.endpoint.rpartition(":")[2])
    following = up.start("export", "--follow", "--endpoint", receiver.endpoint)
    try:
        assert following.stderr is not None
        assert "what ends from now on goes to" in following.stderr.readline().decode()
        tell(up, "w/planner", CHILD)
        tell(up, "new/planner", "[[rehearse: say hello]]")
        eventually(lambda: len(receiver.spans) == 5)
        receiver.close()
        tell(up, "w/planner", "[[rehearse: say while away]]")
        assert "did not take 1 spans" in following.stderr.readline().decode()
        again = Receiver(port)
        try:
            eventually(lambda: again.names() == ["invoke_agent planner"])
            tell(up, "w/auditor", "[[rehearse: say and on]]")
            eventually(lambda: len(again.spans) == 2)
        finally:
            again.close()
        spans = [span.span_id for span in (*receiver.spans, *again.spans)]
        assert len(spans) == len(set(spans)) == 7
    finally:
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=30)
    assert following.returncode == 130


def test_nobody_there_and_an_address_that_is_none_are_said(up):
    tell(up, "w/planner", "[[rehearse: say hello]]")
    gone = Receiver()
    nobody = gone.endpoint
    gone.close()
    said = up("export", "--endpoint", nobody, code=1).err
    assert f"the collector at {nobody} did not take 1 spans" in said
    assert "Traceback" not in said
    for word in ("ftp://x", "localhost:4318", "http://"):
        assert "is no address" in up("export", "--endpoint", word, code=2).err
    up("export", "nothing", "--endpoint", nobody, code=3)


@pytest.mark.soak
def test_hostile_text_and_secrets_reach_no_collector_whole(up, receiver):
    key = "AKIA" + "Q7ZXW2VN4KPL5RTM"
    tell(up, "w/planner", f"[[rehearse: say \x1b[31m{key}\u202e]]")
    up("export", "--endpoint", receiver.endpoint, "--content")
    (turn,) = receiver.spans
    said = told_of(turn)["gen_ai.output.messages"]
    assert key not in str(turn)
    assert json.loads(said)[0]["role"] == "assistant"
