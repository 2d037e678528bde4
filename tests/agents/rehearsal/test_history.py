"""What a session holds: who is told to be, what was said and seen, the sections of its prompts."""

from pathlib import Path

import pytest

from upthread.agents.rehearsal.history import (
    History,
    Told,
    code_words,
    dedented,
    items_of,
    lines_of,
    parse_specification,
    planned_ids,
    replay,
    section_of,
    sections_of,
)
from upthread.core.roles.reports import Report, Verdict, render
from upthread.core.turns.turn import continuation


def _prompt(text: str) -> dict[str, object]:
    return {"entry": "prompt", "text": text, "messageId": "msg_1"}


def _update(**update: object) -> dict[str, object]:
    return {"entry": "update", "update": update}


def _chunk(text: str) -> dict[str, object]:
    return _update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def test_the_role_is_the_newest_block_at_the_start_of_a_line() -> None:
    first, second = '<role name="planner">\nPlan.\n</role>', '<role name="auditor">\n</role>'
    assert History([_prompt(first), _prompt("go on")]).role == "planner"
    assert History([_prompt(first), _prompt(f"hello\n{second}")]).role == "auditor"
    assert History([_prompt(first), _prompt(f"> {second}")]).role == "planner"
    assert History([_prompt("hello")]).role == ""


def test_a_replay_tells_prompts_and_updates_in_order_and_nothing_else() -> None:
    entries = [{"entry": "session", "cwd": "/"}, _prompt("a"), _chunk("1"), {"entry": "turn_ended"}]
    assert [update["sessionUpdate"] for update in replay(entries, names_messages=True)] == [
        "user_message_chunk", "agent_message_chunk",
    ]  # fmt: skip


def test_the_prompt_that_a_continuation_quotes_is_told_to_a_session_that_never_had_it() -> None:
    lost = '<role name="planner">\n</role>\n\n# Specification\n> quoted\n- R1 `a`: x'
    again = continuation(lost, ())
    history = History([_prompt(continuation(again, ("Run x: done",)))])
    assert history.role == "planner"
    assert history.told[0].endswith(f"\n\n{lost}")
    assert history.prompts[0].startswith("Your last turn was interrupted")
    assert History([_prompt(f"I read:\n> {lost}")]).told == [f"I read:\n> {lost}"]


QUESTIONS = {"colour": "Which colour: red, blue?", "size": "How big?"}


def test_a_heading_in_a_fence_or_a_quote_is_no_section() -> None:
    prompt = "# Specification\n```\n# Answers\n```\n> # Answers\n"
    assert [section.title for section in sections_of(prompt)] == ["", "Specification"]


def test_the_newest_report_counts() -> None:
    prompts = [
        render("planner", Report(status="done", summary=text)) for text in ("first", "second")
    ]
    told = Told(prompts)
    assert "second" in told.report("planner")
    assert "first" not in told.report("planner")
    assert told.report("auditor") == ""


def test_rejections_are_those_of_the_role_and_all_of_them() -> None:
    def said(role: str, result: str, evidence: str) -> str:
        verdict = Verdict(result=result, evidence=(evidence,))  # type: ignore[arg-type]
        return render(role, Report(status="done", verdict=verdict))

    prompts = [
        said("auditor", "rejected", "R3 is missing"),
        said("auditor", "approved", "R4 is there"),
        said("validator", "rejected", "R5 is broken"),
        said("auditor", "rejected", "R6 is missing"),
    ]
    evidence = Told(prompts).rejections("auditor")
    assert "R3" in evidence
    assert "R6" in evidence
    assert "R4" not in evidence
    assert "R5" not in evidence


REPORTED = Report(status="done", summary="- size: 5", decisions=("colour: red", "size: 3"))
BRIEFING = "# Briefing\n## Decisions already made\n- size: 4 (large) (clarifier)\n- other: x"


@pytest.mark.parametrize(
    ("prompts", "answers"),
    [
        (["# Specification\n\n# Answers\n- size: 3\n"], {"size": "3"}),
        (
            ["# Answers\n- q7: Which colour: red, blue? → red → dark\n- size: how tall? → 3"],
            {"colour": "red → dark", "size": "3"},
        ),
        ([render("clarifier", REPORTED), BRIEFING], {"colour": "red", "size": "4 (large)"}),
        ([render("clarifier", Report(status="done", summary="- size: 3"))], {}),
    ],
)
def test_answers_are_read_by_question_or_id_from_answers_decisions_and_briefings(prompts, answers):
    told = Told(prompts)
    assert told.answers(QUESTIONS) == answers
    assert told.specification == ""


def test_news_are_what_stands_outside_of_the_known_sections() -> None:
    prompt = "hello\n# Specification\n`a.py`\n# What has changed\n- `b.py`\n# Task\ngo"
    news = Told(["# Old\nold news", prompt]).news
    assert "hello" in news
    assert "b.py" in news
    assert "a.py" not in news
    assert "old news" not in news


def test_a_plan_is_lines_of_requirements_with_an_arrow() -> None:
    text = "Plan:\n1. R1 → a.py: x\n- REQ2 → b: y\nR3 → no item\n2. about R4\n3. R1 → again"
    assert planned_ids(text) == ["R1", "REQ2"]


def test_an_action_may_be_done_when_the_newest_prompt_lists_it_quoted_or_not() -> None:
    def may_be_done(*lines: str) -> bool:
        return Told(["# Task\n- Run x: completed", "\n".join(lines)]).may_be_done("Run x")

    assert may_be_done("These actions are known:", "- Run x: outcome unknown")
    assert may_be_done("Its prompt was:", "> > - Run x: completed")
    assert not may_be_done("- Run x: failed")
    assert not may_be_done("- Run xy: completed", "go on")


# --- the grammar of a specification, and the Markdown below it ------------------------------------


REPOSITORY = Path(__file__).parents[3]
GREETER = (REPOSITORY / "examples" / "greeter" / "spec.md").read_text(encoding="utf-8")


def test_the_example_is_read_whole() -> None:
    specification = parse_specification(GREETER)
    assert [one.id for one in specification.requirements] == ["R1", "R2", "R3", "R4", "R5"]
    assert [one.path for one in specification.requirements] == [
        "greeter/words.py", "greeter/greet.py", "greeter/greet.py", "greeter/__main__.py",
        "README.md",
    ]  # fmt: skip
    assert [one.id for one in specification.requirements if one.is_easy_to_miss] == ["R3"]
    assert [one.id for one in specification.requirements if one.is_easy_to_break] == ["R4"]
    assert list(specification.open_questions) == ["opening", "stranger"]
    assert specification.check == (("python", "-I", "check.py"),)
    assert all(one.block and "easy to" not in one.what for one in specification.requirements)
    block = specification.requirements[2].block
    assert block.startswith("def greet_all("), "without its indentation"
    assert "\n    return [" in block
    assert parse_specification("Please build something nice.").requirements == ()


def test_answers_take_the_place_of_what_stands_for_them() -> None:
    specification = parse_specification(GREETER)
    block = specification.requirements[0].block
    filled, missing = specification.filled_in(block, {"opening": r"Hi\1"})
    assert r'OPENING = "Hi\1"' in filled
    assert missing == ["stranger"]
    page = parse_specification("- R1 `a.html`: x\n```html\n<body>\n```")
    assert page.filled_in("<body>", {"body": "x"}) == ("<body>", []), "it names no question"


def test_a_block_is_held_whatever_the_answer_unless_the_answer_is_known() -> None:
    specification = parse_specification("- R1 `a.py`: x\n## Open\n- OPEN word: Which?\n")
    assert specification.is_held('A = "<word>"', 'B = 1\nA = "Hi"\n', {})
    assert specification.is_held('A = "<word>"', 'A = "Hi"', {"word": "Hi"})
    assert not specification.is_held('A = "<word>"', 'A = "Hi"', {"word": "Hello"})
    assert not specification.is_held('A = "<word>"', 'AA = "Hi"', {})


def test_other_ways_to_write_it_are_read_too() -> None:
    text = """
* **REQ12:** put it into `lib/tool.rb`,
  and nowhere else

  ~~~ruby
  puts 1
  ~~~
* R2: all is documented
## Check
Run `ruby lib/tool.rb --check`.
"""
    specification = parse_specification(text)
    first, second = specification.requirements
    assert (first.id, first.path, first.block) == ("REQ12", "lib/tool.rb", "puts 1")
    assert first.what == "put it into `lib/tool.rb`, and nowhere else"
    assert (second.id, second.path, second.block) == ("R2", "", "")
    assert specification.check == (("ruby", "lib/tool.rb", "--check"),)
    assert specification.open_questions == {}


def test_commands_of_a_release_are_read_like_those_of_the_check() -> None:
    release = "## Release\n```sh\n$ make deploy  # at last\n./announce 'to all'\n```\n"
    assert parse_specification(release).release == (("make", "deploy"), ("./announce", "to all"))
    assert parse_specification(GREETER).release == ()


TEXT = """\
# Title
- one `a.py`
```python
# no heading
- no item `b.py`
```
## Part
1. two `a.py` and `c d`
### Deeper
inside
# Next
- three
"""


def test_what_is_in_a_fence_is_neither_heading_nor_item() -> None:
    assert items_of(TEXT) == ["one `a.py`", "two `a.py` and `c d`", "three"]
    assert code_words(TEXT) == ["a.py", "c d"]


def test_a_section_ends_at_the_next_heading_of_its_level_or_above() -> None:
    body = section_of(TEXT, "part", level=2)
    assert "inside" in body
    assert "three" not in body
    assert section_of(TEXT, "no heading", level=1) == ""


def test_a_fence_is_closed_only_by_its_own_kind() -> None:
    lines = list(lines_of("````md\n```\ncode\n```\n````\nprose"))
    assert [line.is_code for line in lines] == [True] * 5 + [False]
    assert [line.is_fence for line in lines] == [True, False, False, False, True, False]
    assert dedented(["  def a():", "", "      return 1"]) == "def a():\n\n    return 1"
    assert dedented([]) == ""
