"""Which files a line of shell reads, as far as its words say. Pure; nothing is looked up.

An agent that reads with `cat`, `sed -n` or `rg` has read the file as much as one with a tool for
it; Codex reads in no other way. Code in another language, a loop and `$(< file)` are read from the
text as it stands. What only running the line would tell is not known: what a variable holds, what
`find` finds, which files of a directory a search went through.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct

from upthread.core.outward.shell_commands import (
    ShellCommand,
    Word,
    Words,
    commands_in,
    name_of,
    tree_of,
)

READ_MAX = 64
"""How many files of one line are taken; one that names more lists them."""


class _Reader(Struct, frozen=True, kw_only=True):
    """How a program names what it reads.

    Each of `taking` takes the next word, and with one of `writing` the program changes what it
    names. Where there is an `instead`, the first operand is a pattern, unless one of these gave it.
    """

    taking: frozenset[str] = frozenset()
    instead: frozenset[str] = frozenset()
    writing: frozenset[str] = frozenset()


def files_read(line: str) -> tuple[str, ...]:
    """Return the files a line reads, each once, in order: relative to where it is run.

    A name may hold a pattern of the shell's (`*.py`), and need not be a file.
    """
    return tuple(dict.fromkeys(_names_in(line)))[:READ_MAX]


def files_printed(line: str, printed: str) -> tuple[str, ...] | None:
    """Return the files whose lines a search printed, for example `a.py` of `a.py:3: x = 1`.

    None where the line does more than one search, or may print its files in another way.
    """
    commands = [each for each in commands_in(line) if not _filters_lines(each.words)]
    if tree_of(line) is None or re.search(_UNTOLD, line) or len(commands) != 1:
        return None
    name, *words = [word for word in commands[0].words if word != "--no-pager"]
    if name == "git" and words[:1] == ["grep"]:
        name, *words = words
    is_plain = name in _SEARCHES and all(word and re.fullmatch(_PLAIN, word) for word in words)
    lines = [] if re.fullmatch(_NO_OUTPUT, printed) else printed.rstrip("\n").split("\n")
    found = [re.match(_PRINTED, each) for each in lines]
    if not is_plain or None in found:
        return None
    names = (posixpath.join(commands[0].directory, each[1]) for each in found if each)
    return tuple(dict.fromkeys(names))


def _filters_lines(words: Words) -> bool:
    """Whether a command prints no line that it did not get, for example `head -5`."""
    name = words[0]
    if name in {"head", "sort", "tail"}:
        return not _operands(words[1:], _READERS[name])
    return name == "true" or (name == "cd" and _goes_to_a_place_that_is_told(words))


_SEARCHES = frozenset({"egrep", "fgrep", "grep", "rg"})
_PLAIN = r"""(?sx)
    [^-].* | -- | -[EFHLPRScegilmnorstuvwx]+ | -[gt].+ | -m\d+
    | --(?:exclude|glob|hidden|iglob|ignore-case|include|line-number|no-heading|no-ignore|type).*
    """
"""The words of a search that prints `NAME:…` on each line: no context, heading or `-h`."""
_PRINTED = r"([^:\0]{1,1000})(?::|\Z)"
_NO_OUTPUT = r"(?:\((?:Bash completed with )?no output\))?\s*"
"""What agents say of a command that printed nothing."""


def directory_after(line: str) -> str:
    """Return where `cd` in a line leads, relative to where it is run; empty for there."""
    return commands_in(f"{line}\n:")[-1].directory


def _names_in(line: str) -> Iterator[str]:
    commands = commands_in(line)
    for command in commands:
        yield from _read_by(command)
    yield from substituted_in(line)
    # Only then: to `grep 'open("a")'` the same is a pattern.
    if any(name_of(command.words[0]) in LANGUAGES for command in commands if command.words):
        yield from opened_in(line)
    for body in looped_over(line):
        for command in commands_in(body):
            yield from _read_by(command)


def is_reading_known(line: str, is_known: Callable[[str], bool]) -> bool:
    """Return whether a line's words tell all that it reads.

    `is_known` says of a name, as `files_read` returns it, whether it is of a file that was looked
    at: a search through a directory names no file.
    """
    if tree_of(line) is None or re.search(_UNTOLD, line):
        return False
    names = files_read(line)
    # At the limit there may be more, which nobody has looked at.
    if len(names) == READ_MAX or not all(map(is_known, names)):
        return False
    return all(map(_tells_what_it_reads, commands_in(line)))


def _tells_what_it_reads(command: ShellCommand) -> bool:
    words = _after_python(command.words)
    name = name_of(words[0]).casefold() if words else ""
    if name in _TOLD_BY:
        return _TOLD_BY[name](words)
    reader = _READERS.get(name)
    if reader is None:
        return name in _READING_NONE
    operands = _operands(words[1:], reader)
    return all(operand is not None and not operand.startswith("~") for operand in operands)


def _read_by(command: ShellCommand) -> Iterator[str]:
    words = _after_python(command.words)
    if not words:
        return
    name = name_of(words[0]).casefold()
    reader, told = _READERS.get(name), _NAMED_BY.get(name)
    found = _operands(words[1:], reader) if reader else told(words) if told else []
    for operand in found:
        # What `~` is only the shell there would tell.
        if operand and operand != "-" and not operand.startswith("~"):
            yield posixpath.join(command.directory, operand)


def _after_python(words: Words) -> Words:
    """`python -m json.tool a.json`: the module is the program."""
    if name_of(words[0]) in {"python", "python3"} and list(words[1:2]) == ["-m"]:
        return words[2:]
    return words


def _operands(words: Words, reader: _Reader) -> list[Word]:
    """Return the words that name what is read; empty where the program changes it."""
    operands: list[Word] = []
    leading = 1 if reader.instead else 0
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            operands += waiting
            break
        if word is None or word == "-" or not word.startswith("-"):
            operands.append(word)
            continue
        name = word.partition("=")[0]
        # It writes there, in place of showing what is there.
        if name in reader.writing or any(word.startswith(each) for each in reader.writing):
            return []
        # The pattern came by an option, so that the first operand is a file already.
        if name in reader.instead or word[:2] in reader.instead:
            leading = 0
        if word in reader.taking and waiting:
            waiting.pop(0)
    return operands[leading:]


def _read_readers(rows: str) -> Iterator[tuple[str, _Reader]]:
    for row in re.split(r"\n(?! )", rows.strip()):
        names, _, said = row.partition(":")
        options = (each.split() for each in said.split(";") if each)
        reader = _Reader(**{name: frozenset(words) for name, *words in options})
        yield from ((name, reader) for name in names.split())


# Each with its own: what takes no word and is held to take one hides a file that was read.
_READERS = dict(
    _read_readers("""
ast cat cksum comm csvlook gron json.tool less md5sum more most rev sha1sum sha256sum sum
tokenize wc zcat
tac: taking -s --separator
nl: taking -b -d -f -h -i -l -n -s -v -w
strings: taking -n -t -e
expand unexpand: taking -t --tabs
cmp: taking -i -n --ignore-initial --bytes
base64: taking -w --wrap
head tail: taking -n -c -s --lines --bytes --pid
grep egrep fgrep zgrep: instead -e -f --regexp --file;
  taking -e -f -m -A -B -C -d -D --regexp --file --max-count --after-context --before-context
  --context --glob --type --type-not --include --exclude --exclude-dir --color --max-columns
  --threads --replace --sort --iglob --max-depth
rg ag ack ugrep: instead -e -f --regexp --file --files;
  taking -e -f -m -A -B -C -g -t -T -M -j -r -E -d -D --regexp --file --max-count --after-context
  --before-context --context --glob --type --type-not --include --exclude --exclude-dir --color
  --max-columns --threads --replace --sort --iglob --max-depth
awk gawk mawk nawk: instead -f --file; taking -F -v -f --file
sed: instead -e -f --expression --file; taking -e -f -l --expression --file;
  writing -i --in-place -ni -Ei -ri
perl: taking -e -ne -pe -lne -E -nE -M -I; writing -i -pi -ni -0pi
jq yq xq tomlq: instead -f --from-file; taking -f --from-file --indent --arg --argjson;
  writing -i --inplace
bat batcat: taking -r --line-range -l --language --style -H
cut: taking -d -f -c -b --delimiter --fields
sort: taking -k -t -S -T --key; writing -o
uniq: taking -f -s -w
column: taking -s -c -o -N
paste: taking -d
fold fmt: taking -w
pr: taking -l -w -h
od: taking -A -t -N -j -w
xxd: taking -l -s -c -g; writing -r
hexdump: taking -n -s -e -f
diff sdiff colordiff: taking -U -x
""")
)
"""The programs that show what is in files, by name. What is not here reads none that is known."""


def _by_git(words: Words) -> list[Word]:
    """git, by its verb: `show REV:PATH`, `blame PATH`, `grep … -- PATH`, `diff … -- PATH`."""
    # What is not known is left out, which moves what follows: a file too many is named at worst.
    verb, *rest = [word for word in words[1:] if word] or [""]
    after = rest[rest.index("--") + 1 :] if "--" in rest else []
    operands = [word for word in rest if not word.startswith("-")]
    if verb in {"show", "cat-file"}:
        return [*(word.partition(":")[2] for word in operands if ":" in word), *after]
    if verb in {"blame", "annotate"}:
        return [*(after or operands[-1:])]
    if verb == "diff" and "--no-index" in rest:
        return [*operands]
    return [*after] if verb in {"grep", "diff"} else []


_NAMED_BY: Mapping[str, Callable[[Words], list[Word]]] = {
    "git": _by_git,
    "dd": lambda words: [word[3:] for word in words[1:] if word and word.startswith("if=")],
    **dict.fromkeys(("source", "."), lambda words: [*words[1:2]]),
}
"""The programs that name what they read in a way of their own."""


# --- whether that is all -----------------------------------------------------------------------

_UNTOLD = r"""(?x)
    \b(?:xargs|eval)\b
    | [$`]\(?\s*<                      # `$(< file)`
    | sh\s+-\w*c\w*\s+[^'\s][^']*\$   # a shell that is given what a variable holds
    """
"""What hides commands, or files, from those who only read the line."""

_Tells: TypeAlias = Callable[[Words], bool]


def _goes_to_a_place_that_is_told(words: Words) -> bool:
    return all(word and not word.startswith(("~", "-")) for word in words[1:]) and len(words) > 1


def _only_finds(words: Words) -> bool:
    return not any(word is None or word.startswith(("-exec", "-ok")) for word in words)


def _searches_what_is_named(words: Words) -> bool:
    return "--files" in words or _are_told(_operands(words[1:], _READERS["rg"]))


def _greps_what_is_named(words: Words) -> bool:
    operands = _operands(words[1:], _READERS["grep"])
    options = (word for word in words[1:] if word and word.startswith("-"))
    is_deep = any(re.match(_DEEP, each) for each in options)
    return _are_told(operands) if is_deep else None not in operands


def _are_told(operands: Words) -> bool:
    return bool(operands) and None not in operands


def _computes_from_what_is_named(words: Words) -> bool:
    is_reading_more = any(word is None or re.search(_READING_MORE, word) for word in words)
    return not is_reading_more and not any(word and word.startswith("~") for word in words)


def _shows_no_content(words: Words) -> bool:
    """git, by its verb; which shows what is in files with an option at most."""
    return not _GIT_VERBS.isdisjoint(words) and _GIT_PATCHES.isdisjoint(words)


_DEEP = r"-[a-zA-Z]*[rR]|--(?:dereference-)?recursive|-d"
_READING_MORE = r"getline|system|ARGV"
_GIT_PATCHES = frozenset("-p -u --patch -v --verbose --cc -c -L".split())
_GIT_VERBS = frozenset(
    """
    add branch checkout clone commit fetch init log ls-files merge mv pull push rebase remote reset
    restore rev-parse rm status switch tag worktree
    """.split()
)
_TOLD_BY: Mapping[str, _Tells] = {
    **dict.fromkeys("awk gawk mawk nawk".split(), _computes_from_what_is_named),
    **dict.fromkeys("grep egrep fgrep zgrep".split(), _greps_what_is_named),
    **dict.fromkeys("rg ag ack ugrep".split(), _searches_what_is_named),
    "cd": _goes_to_a_place_that_is_told,
    "find": _only_finds,
    "git": _shows_no_content,
    "perl": lambda _words: False,
}
"""The programs whose words have to be looked at: what they may read beside what they name."""
_READING_NONE = frozenset(
    """
    : [ apply_patch basename break chmod chown continue cp date df dirname du echo exit export false
    kill ln local ls mapfile mkdir mktemp mv printf pwd read readlink realpath return rm rmdir seq
    set shift sleep stat tee test touch tr true type uname unset wait which whoami yes
    """.split()
)
"""The programs that show nothing of what is in a file they name."""


# --- by code: in another language, in a loop, in `$(< file)` --------------------------------------


LANGUAGES = frozenset("bun deno lua node nodejs perl php python python3 ruby".split())

_OPENED = r"""(?x)
    \b(?:open|Path|read_text|read_bytes|readFile(?:Sync)?|file_get_contents|slurp
       |(?:File|IO)\.(?:read|open|readlines|foreach))
    \(\s*[rbf]?\\?['"](?P<file>[^'"$`{}\\\n]{1,400})\\?['"]
    (?:\s*,\s*\\?['"](?P<mode>[\w+]{1,4})\\?['"])?
    """
_WRITTEN = r"\s*\)\s*\.\s*write_"
_SUBSTITUTED = r"\$\(\s*<\s*(?P<file>[\w./@+-]+)\s*\)"
_LOOP = (
    r"(?s)\bfor\s+(?P<name>\w+)\s+in\s+(?P<words>[^;\n$`]{1,4000}?)\s*[;\n]\s*do\b"
    r"(?P<body>.*?)\bdone\b"
)


def opened_in(line: str) -> Iterator[str]:
    """Yield the files that code in a line opens to read, by the names it gives in full."""
    for found in re.finditer(_OPENED, line):
        # `r+` is not among them: it reads as well.
        is_writing = set(found["mode"] or "") & {"w", "a", "x"}
        if not is_writing and not re.compile(_WRITTEN).match(line, found.end()):
            yield found["file"]


def substituted_in(line: str) -> Iterator[str]:
    """Yield the files whose content stands in the place of `$(< file)`."""
    yield from (found["file"] for found in re.finditer(_SUBSTITUTED, line))


def looped_over(line: str) -> Iterator[str]:
    """Yield a loop's body for each word that it goes through, with that word in its place."""
    for found in re.finditer(_LOOP, line):
        named = re.compile(rf"\$(?:{found['name']}\b|\{{{found['name']}\}})")
        for word in found["words"].split():
            # By a function: a backslash in the word would else be taken for a reference to a group.
            yield named.sub(lambda _found, word=word: word, found["body"])
