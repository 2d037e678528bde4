"""Which files a line of shell reads: forty ways that agents read in, and what reads none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upthread.core.shell.reads import (
    READ_MAX,
    files_read,
    is_reading_known,
    looped_over,
    opened_in,
    substituted_in,
)

WAYS = [
    *("cat a.py", "cat -n a.py", "cat ./a.py", "cat 'a.py'", 'cat "a.py"', "/bin/cat a.py"),
    *("head a.py", "head -50 a.py", "head -n 50 a.py", "tail -n +3 a.py", "tail -c 100 a.py"),
    *("sed -n '1,80p' a.py", "sed -n 1,80p a.py", "sed -n -e 1p -e 9p a.py", "sed 's/a/b/' a.py"),
    *("grep -n main a.py", "grep -e main -e run a.py", "grep -A 3 main a.py", "grep -rn x a.py"),
    *("rg main a.py", "rg -n -C 2 main a.py", "rg --type py main a.py", "egrep 'a|b' a.py"),
    *("awk 'NR<9' a.py", "awk -F: '{print $1}' a.py", "nl -ba a.py", "wc -l a.py", "less a.py"),
    *("cut -d: -f1 a.py", "cut -d : -f 1 a.py", "sort a.py", "uniq -c a.py", "tac a.py"),
    *("xxd -l 64 a.py", "od -c a.py", "strings a.py", "bat -r 1:9 a.py", "jq .x a.py"),
    *("python -m json.tool a.py", "perl -ne 'print' a.py", "cat < a.py", "wc -l < a.py"),
    *("bash -lc 'cat a.py'", 'sh -c "sed -n 1,9p a.py"', "sudo cat a.py", "env X=1 cat a.py"),
    *("timeout 5 cat a.py", "cat a.py | head", "cd . && cat a.py", "true; cat a.py || true"),
    *("(cat a.py)", "x=$(cat a.py)", "nl -ba a.py | sed -n '3,9p'", "cat a.py 2>/dev/null"),
]
BY_CODE = [
    *("for f in a.py; do cat $f; done", "x=$(<a.py); echo $x", "source a.py"),
    *("python3 -c \"print(open('a.py').read())\"", "python3 - <<E\nopen('a.py')\nE", ". a.py"),
    *("node -e \"require('fs').readFileSync('a.py')\"", "dd if=a.py"),
    *("git show HEAD:a.py", "git cat-file -p HEAD:a.py", "git blame a.py", "git blame -- a.py"),
    *("git grep x -- a.py", "git diff HEAD -- a.py", "git diff --no-index a.py -"),
]
"""Ways of which nobody says that they read no other file."""
NONE = [
    *("ls", "ls a.py", "echo a.py", "rm a.py", "touch a.py", "git status", "python a.py", "make"),
    *("sed -i s/a/b/ a.py", "sed -i.bak s/a/b/ a.py", "perl -pi -e s/a/b/ a.py", "cat", "cat -"),
    *("cat > a.py", "cat >> a.py <<'E'\nx\nE", "grep a.py", "rg a.py", "sed a.py", "awk a.py"),
    *("find . -name a.py", "cat $FILE", "cat ~/a.py", "echo 'cat a.py'", "sort -o a.py b.py", ""),
    *("xargs cat", "test -f a.py", "cp a.py b.py", "# cat a.py", "head -n", "jq .x", "sed -n 1p"),
    *("python -m", "python -m http.server", "git", "git add a.py", "git diff a.py", "git log"),
    *("python3 -c \"open('a.py', 'w')\"", "echo \"open('a.py')\"", "git show HEAD", "dd of=a.py"),
]


def test_a_file_is_read_in_whatever_way():
    for way in (*WAYS, *BY_CODE):
        assert [name.removeprefix("./") for name in files_read(way)] == ["a.py"], way


def test_what_reads_no_file_by_name_reads_none():
    assert [line for line in NONE if "a.py" in files_read(line)] == []


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("cat a.py b.py", ("a.py", "b.py")),
        ("cat a.py; cat a.py", ("a.py",)),
        ("cd src && cat a.py && cd ui; head b.py", ("src/a.py", "src/ui/b.py")),
        ("diff a.py b.py", ("a.py", "b.py")),
        ("grep -n main src/*.py", ("src/*.py",)),
        ("cat 'a file.py'", ("a file.py",)),
        ("cat /etc/hostname", ("/etc/hostname",)),
        ("cat -- -a.py", ("-a.py",)),
    ],
)
def test_each_file_is_named_once_and_from_where_the_line_is_run(line, read):
    assert files_read(line) == read


def test_a_line_that_names_too_many_is_cut():
    assert len(files_read("cat " + " ".join(f"{n}.py" for n in range(999)))) == READ_MAX


@given(st.text(max_size=60))
def test_no_line_is_too_odd_to_be_read(line):
    assert all(isinstance(name, str) and name for name in files_read("cat " + line))


KNOWN = [
    *(way for way in WAYS if not way.startswith(("rg ", "perl "))),
    *("rg main a.py", "rg --files", "cat a.py | grep x", "grep -rn x a.py"),
    *("", "# cat b.py", "X=1"),
    *("echo hello", 'echo "$HOME"', "ls -la src", "cd src && ls", "mkdir -p x && touch x/y", "pwd"),
    *("git status --short", "git -C . log --oneline -3", 'git commit -m "$said"'),
    *("find . -name '*.py'", "sed -i s/a/b/ b.py", "rm -rf build", "test -f b.py && echo yes"),
    *("while read -r line; do echo $line; done < a.py", "apply_patch <<'E'\nx\nE", "cat > b.py"),
]
NOT_KNOWN = [
    *("make", "pytest -q", "python a.py", "python -c 'print(open(1))'", "./run.sh", "sh run.sh"),
    *('cat "$FILE"', "cat ~/a.py", "$PAGER a.py", "cat b.py", "cat a.py b.py", "cat src/a.py"),
    *("grep -rn x .", "grep -r x", "rg main", "rg main src", "find . -exec cat {} +", "git diff"),
    *("find . | xargs cat", 'eval "$line"', 'bash -c "$line"', 'x=$(< b.py); echo "$x"'),
    *("git show HEAD:a.py", "git log -p", "git", "cd $WHERE && cat a.py", "cd && cat a.py"),
    *("cd ~/x && cat a.py", "for f in *.py; do cat $f; done", "cat a.py; make", "cat 'a.py"),
    *("perl -ne print a.py", "awk '{while (getline x < \"b\") print}' a.py", "source a.py"),
    *("bash -lc 'bash -c \"$line\"'", "cat a.py |", 'find "$X"', "git $VERB", "python -m"),
]


def is_a_py(name: str) -> bool:
    return name.removeprefix("./") == "a.py"


def test_it_is_known_what_a_line_reads_where_its_words_tell_all_of_it():
    assert [line for line in KNOWN if not is_reading_known(line, is_a_py)] == []


def test_what_only_running_a_line_would_tell_is_said_to_be_not_known():
    assert [line for line in NOT_KNOWN if is_reading_known(line, is_a_py)] == []


def test_of_a_line_that_names_too_many_it_is_not_known():
    assert not is_reading_known(f"cat {' '.join(f'{n}.py' for n in range(999))}", lambda _: True)


@pytest.mark.extended
@given(st.text(max_size=60))
def test_no_line_is_too_odd_to_be_judged(line):
    assert isinstance(is_reading_known(line, is_a_py), bool)


# --- what code in a line opens, what a loop goes through, what stands in the place of `$(< fi -----


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
    bodies = [each.strip() for each in looped_over(line)]
    assert bodies == ["cat a.py a.py $file;", "cat b.py b.py $file;"]
    assert [*looped_over("for f in $(ls); do cat $f; done")] == []
