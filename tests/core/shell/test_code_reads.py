"""What code in a line opens, what a loop goes through, what stands in the place of `$(< file)`."""

from __future__ import annotations

import pytest

from upthread.core.shell.code_reads import looped_over, opened_in, substituted_in


@pytest.mark.parametrize(
    "code",
    [
        *("open('a.py').read()", 'open("a.py", "rb")', "open(r'a.py')", 'open(\\"a.py\\")'),
        *("Path('a.py').read_text()", "require('fs').readFileSync('a.py', 'utf8')"),
        *("File.read('a.py')", "IO.readlines('a.py')", "file_get_contents('a.py')"),
    ],
)
def test_what_code_opens_is_read(code: str):
    assert [*opened_in(f"python3 -c {code}")] == ["a.py"]


@pytest.mark.parametrize(
    "code",
    [
        *("open('a.py', 'w')", 'open("a.py", "ab")', "Path('a.py').write_text('x')", "open(name)"),
        *("open(f'{x}.py')", "reopen('a.py')", "print('a.py')"),
    ],
)
def test_what_code_writes_or_only_names_is_not_read(code: str):
    assert [*opened_in(f"python3 -c {code}")] == []


def test_what_is_substituted_is_read():
    assert [*substituted_in("x=$(<a.py); y=$( < b/c.py )")] == ["a.py", "b/c.py"]


def test_a_loop_is_its_body_for_each_word():
    line = "for f in a.py b.py; do cat $f ${f} $file; done"
    assert [each.strip() for each in looped_over(line)] == [
        "cat a.py a.py $file;",
        "cat b.py b.py $file;",
    ]
    assert [*looped_over("for f in $(ls); do cat $f; done")] == []
