from __future__ import annotations

from upthread.agents.rehearsal.specification import (
    code_words,
    dedented,
    items_of,
    lines_of,
    section_of,
)

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


def test_the_indentation_shared_is_taken_off() -> None:
    assert dedented(["  def a():", "", "      return 1"]) == "def a():\n\n    return 1"
    assert dedented([]) == ""
