"""The script in the prompt, over real requests; only `parse_script` is also asked directly."""

import json

import pytest
from msgspec.structs import replace
from tests.testing.plain_client import (
    MESSAGES,
    RESPONSES,
    anthropic,
    anthropic_text,
    post,
    responses,
)

from upthread.core.context.briefing import JUDGE, TITLE
from upthread.testing.rehearsal_model import RehearsalModel
from upthread.testing.rehearsal_model.protocol import Reply, Silence, ToolCall
from upthread.testing.rehearsal_model.script import ScriptError, parse_script


@pytest.fixture
def model():
    with RehearsalModel() as model:
        yield model


def call_of(name, **arguments):
    return Reply(calls=(ToolCall(name=name, arguments=arguments),))


def test_steps_are_one_model_call_each_also_through_tool_results(model):
    text = 'Do it. [[CALL read {"path": "a"}]] then [[CALL bash {"command": "ls"}]] [[SAY done]]'
    body = responses(text)
    seen = []
    for _ in range(3):
        (item,) = post(model.base_url, RESPONSES, body).json["output"]
        seen.append(item.get("name") or item["content"][0]["text"])
        output = {"type": "function_call_output", "call_id": item.get("call_id"), "output": "ok"}
        body["input"] += [item, output]
    assert seen == ["read", "bash", "done"]
    assert model.violations == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("<system-reminder>[[SAY no]]</system-reminder>", "done"),
        ("Stop. [[SAY stopped]]", "stopped"),  # a new turn
    ],
)
def test_steps_are_counted_over_tool_results_and_a_users_words_beside_one_are_a_new_turn(
    model, words, said
):
    body = anthropic('[[CALL read {"path": "a"}]] [[SAY done]]', tools=[{"name": "read"}])
    answer = post(model.base_url, MESSAGES, body).json
    result = {"type": "tool_result", "tool_use_id": answer["content"][0]["id"], "content": "ok"}
    body["messages"] += [
        {"role": "assistant", "content": answer["content"]},
        {"role": "user", "content": [result, {"type": "text", "text": words}]},
    ]
    assert anthropic_text(post(model.base_url, MESSAGES, body)) == said


def test_a_script_for_a_child_travels_inside_the_arguments():
    child = '[[CALL bash {"command": "ls"}]] [[SAY child]]'
    text = f"[[CALL task {json.dumps({'prompt': child})}]] [[SAY parent]]"
    assert parse_script(text) == (call_of("task", prompt=child), Reply(text="parent"))
    assert parse_script(child) == (call_of("bash", command="ls"), Reply(text="child"))


def test_waits_paces_and_thoughts_belong_to_the_step_that_follows():
    (told,) = parse_script('[[TELL I look.]] [[CALL bash {"command": "ls"}]]')
    assert told == replace(call_of("bash", command="ls"), text="I look.")
    script = parse_script("[[SLEEP 2]] [[PACE 0.5]] [[THINK hm]] [[SAY a]] [[HANG]]")
    assert script == (Reply(text="a", thinking="hm", delay_s=2, pace_s=0.5), Silence())


def test_a_retry_goes_on_to_the_step_after_a_failure(model):
    body = anthropic("[[FAIL 429 retry-after=1]] [[FAIL 500]] [[SAY at last]]")
    answers = [post(model.base_url, MESSAGES, body) for _ in range(3)]
    assert [answer.status for answer in answers] == [429, 500, 200]
    assert answers[0].headers["retry-after"] == "1"
    assert anthropic_text(answers[2]) == "at last"


def test_a_failure_at_the_end_repeats_until_the_user_says_something_else(model):
    body = anthropic("[[FAIL 429 limit]]")
    assert {post(model.base_url, MESSAGES, body).status for _ in range(4)} == {429}
    body["messages"].append({"role": "user", "content": "go on"})
    assert post(model.base_url, MESSAGES, body).status == 200


def test_failures_of_one_session_do_not_count_in_another(model):
    body = anthropic("[[FAIL 500]] [[SAY ok]]")
    first, second = {"x-session-id": "ses_1"}, {"x-session-id": "ses_2"}
    statuses = [
        post(model.base_url, MESSAGES, body, headers=headers).status
        for headers in (first, second, first, second)
    ]
    assert statuses == [500, 500, 200, 200]


def test_without_a_script_the_reply_tells_what_past_was_shown(model):
    body = anthropic("The word is KIWI. " + "x" * 100)
    body["messages"] += [
        {"role": "assistant", "content": "fine"},
        {"role": "user", "content": [{"type": "text", "text": "Which word?"}]},
    ]
    text = anthropic_text(post(model.base_url, MESSAGES, body))
    assert text.startswith("HIST n_user=2 seen=")
    seen = json.loads(text.partition("seen=")[2])
    assert seen == [("The word is KIWI. " + "x" * 100)[:60], "Which word?"]


def test_merged_user_messages_of_anthropic_clients_count_one_by_one(model):
    blocks = [
        {"type": "text", "text": "<system-reminder>context</system-reminder>"},
        {"type": "text", "text": "first [[FAIL 500]]"},
        {"type": "text", "text": "second"},
    ]
    body = {"messages": [{"role": "user", "content": blocks}]}
    text = anthropic_text(post(model.base_url, MESSAGES, body))
    assert json.loads(text.partition("seen=")[2]) == ["first [[FAIL 500]]", "second"]


def test_a_system_message_between_others_is_no_message_of_the_user(model):
    body = anthropic("[[SAY done]]", model="claude-sonnet-5-5")
    body["messages"].append({"role": "system", "content": "[[SAY no]]"})
    assert anthropic_text(post(model.base_url, MESSAGES, body)) == "done"


@pytest.mark.parametrize(
    "text",
    [
        "It said [[SAY x]] once.\n\nNow tell me more.",
        "> [[SAY x]]\n> [[CALL bash {}]]",
        '<prior-context nonce="1">\n[[SAY x]]\n</prior-context nonce="1">\n',
        '<role name="planner">\n[[SAY x]]\n</role>\n\nPlan it.',
        f"{TITLE}\n\n## Focus for this session\n[[CALL bash {{ […\n\n{JUDGE}\n\nPlan it.",
        "cut off: [[SAY x",
        "cut off: [[CALL bash {",
        "[[SING x]] [[SAYING x]]",
        "",
    ],
)
def test_what_only_tells_of_a_script_is_none(text):
    assert parse_script(text) == ()


def test_the_script_at_the_end_is_the_only_one_that_runs():
    text = "# Briefing\n\n## Goal\n[[SAY old]]\n\nBuild on this.\n\nGo on. [[SAY\n\nnew]] now"
    assert parse_script(text) == (Reply(text="new"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[CALL bash {bad}]]", "CALL bash …: the arguments are no JSON"),
        ("[[CALL bash {} x]]", "no ]] after the arguments"),
        ("[[FAIL soon]]", "names no three-digit status"),
        ("[[SLEEP long]] [[SAY x]]", "not a number of seconds"),
        ("[[USAGE most]] [[SAY x]]", "not a number of tokens"),
    ],
)
def test_a_marker_without_sense_is_told_to_whoever_wrote_it(model, text, words):
    with pytest.raises(ScriptError) as caught:
        parse_script(text)
    assert words in str(caught.value)
    answer = post(model.base_url, MESSAGES, anthropic(text))
    assert answer.status == 400
    assert words in answer.json["error"]["message"]
