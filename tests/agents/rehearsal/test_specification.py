"""The grammar of a specification, and the Markdown below it."""

from __future__ import annotations

from pathlib import Path

from upthread.agents.rehearsal.history import (
    code_words,
    dedented,
    items_of,
    lines_of,
    parse_specification,
    section_of,
)

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
