"""What will happen: all that an agent has said of one call, in one normal form. Pure.

An agent says the same thing more than once: it announces a call, changes it, and asks whether it
may. In ACP all but the id of a request's call is optional, and nothing makes an agent say the same
each time. So a request is never judged by itself: what was told of its id, in whatever session, and
what it says now are laid together, and where they disagree the stricter counts. To say more never
makes a judgement milder, except that a call of which nobody said a kind is of none.

The permissions, the hold-back of outward actions and the record all read the value made here.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from upthread.core.names import folded
from upthread.core.outward.calls import Actions, actions_of_call, command_of, commands_of
from upthread.core.outward.repeatable import only_reads, places_changed
from upthread.core.outward.shell_commands import (
    SHELLS,
    Words,
    commands_in,
    commands_written,
    name_of,
)
from upthread.core.roles.limits import BASH, tools_named
from upthread.core.shell.call_commands import (
    CHANGING,
    EXECUTE,
    KINDS,
    OTHER,
    STRICTNESS,
    Rule,
    holds_command,
    is_command,
)
from upthread.core.shell.reads import files_read
from upthread.core.types import JsonValue

PLACE_KEYS = frozenset(
    """
    abspath absolutepath destination file filename filepath newpath notebookpath oldpath path
    source targetfile targetpath
    """.split()
)
"""Names under which agents hand over a file's path; compared without case and marks."""

RUN_KEYS = frozenset({"cwd", "directory", "workdir", "workingdirectory"})
"""Names under which agents hand over where a command runs."""

TITLE_BETWEEN = " / "

QUIET = frozenset({"read", "search", "think", "fetch", "switch_mode"})
"""ACP's kinds of tools that leave the world as it was."""

HARMLESS_TOOLS = frozenset(
    """
    Agent AskUserQuestion BashOutput EnterPlanMode ExitPlanMode KillShell Skill Task TaskCreate
    TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoRead TodoWrite ToolSearch
    lsp plan_enter plan_exit question skill task todoread todowrite
    closeAgent request_user_input sleep spawnAgent spawn_agent update_plan view_image wait
    """.split()
)
"""The tools of Claude Code, OpenCode and Codex that change nothing: to-do lists, questions, plans.

Each call of a sub-agent is guarded by itself.
"""

SHELL_TOOLS = frozenset({"bash", "Bash", "shell"})
"""Names of tools that run a command. Beside the command such a name adds nothing to a title."""

_NO_KIND = frozenset({OTHER, "", None})
"""The kinds of a tool that its agent does not know, such as a server's."""


class Told(Struct, frozen=True, kw_only=True):
    """What was said of a call at one time; None and empty where nothing was.

    `implied_kinds` are what its content shows it to be: a diff an edit, a terminal a command.
    """

    title: str | None = None
    tool_kind: str | None = None
    arguments: JsonValue = None
    locations: tuple[str, ...] | None = None
    implied_kinds: frozenset[str] = frozenset()


class Foreseen(Struct, frozen=True, kw_only=True):
    """What a call will do. `title`, `tool_kind`, `arguments` and `locations` are for the record.

    `kinds` are all that it may be, `other` among them where that is not known; `tellings` is what
    it was made from, each once, in the order it was said.
    """

    title: str
    tool_kind: str
    arguments: JsonValue
    locations: tuple[str, ...]
    kinds: frozenset[str]
    tellings: tuple[Told, ...]

    def actions(self, patterns: Sequence[str] = ()) -> Actions:
        """Return all that this may do beyond this machine, by anything that was said of it."""
        titles = [each.title for each in self.tellings if each.title]
        arguments = [each.arguments for each in self.tellings if each.arguments]
        commands = {_folded(line) for meant in arguments for line in commands_of(meant)}
        # A title that is a command put on one line says no more, and a document in it says less.
        # Each title with each of the arguments: nothing says which of them belong together.
        said = [(title, None) for title in titles if _folded(title) not in commands] + [
            (title, meant) for title in titles or [""] for meant in arguments
        ]
        found = (each for title, meant in said for each in actions_of_call(title, meant, patterns))
        return tuple(dict.fromkeys(found))

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """The lines of shell that were said, each with the directory that was, empty for none."""
        said = [
            (line, _directory(each.arguments))
            for each in self.tellings
            for line in commands_of(each.arguments)
        ]
        # Some agents say a command by its title alone.
        if not said and EXECUTE in self.kinds:
            said = [(each.title.strip("` "), "") for each in self.tellings if each.title]
        return tuple(dict.fromkeys(said))

    def changed_if_repeatable(self, tool: str = "") -> tuple[str, ...] | None:
        """Return the paths that the call changes, None if it is not known to be repeatable.

        `tool` is the agent's own name for the tool, empty where it is not known.
        """
        named = {tool, *((each.title or "").partition(" ")[0] for each in self.tellings)}
        if self.lines:
            # A server's tool may take a `command` as well, and runs it anywhere.
            kinds = {each.tool_kind for each in self.tellings}
            if kinds <= _NO_KIND or any("__" in name for name in named):
                return None
            return _changed_by(self.lines)
        if named & HARMLESS_TOOLS or self.kinds <= QUIET:
            return ()
        # A change of files that names none may change any.
        return (places_of(self) or None) if self.kinds <= QUIET | CHANGING else None


def _changed_by(lines: Iterable[tuple[str, str]]) -> tuple[str, ...] | None:
    found: list[str] = []
    for line, directory in lines:
        places = places_changed(line)
        if places is None:
            return None
        found += [directory] if directory else []
        found += [each if each[:1] == "~" else posixpath.join(directory, each) for each in places]
    return tuple(dict.fromkeys(found))


def _folded(line: str) -> str:
    return " ".join(line.split()).strip("` ")


def foreseen(tellings: Iterable[Told]) -> Foreseen:
    """Lay together what was said of one call, the oldest first."""
    said = tuple(_distinct(tellings))
    kinds = _kinds(said)
    arguments = [each.arguments for each in said if each.arguments is not None]
    places = (place for each in said for place in each.locations or ())
    return Foreseen(
        title=TITLE_BETWEEN.join(_titles(said)),
        tool_kind=_shown_kind(said, kinds),
        arguments=_laid_together(arguments),
        locations=tuple(dict.fromkeys(places)),
        kinds=kinds,
        tellings=said,
    )


def judged(kinds: Iterable[str], rules: Mapping[str, Rule]) -> tuple[Rule, str]:
    """Return the strictest rule for what a call may be, and the rule in words: `execute=deny`.

    A kind without a rule is asked about. What is of no known kind may be of any: it is denied where
    any kind is.
    """
    found = [_judged_kind(kind, rules) for kind in sorted(kinds)]
    return max(found, key=lambda each: STRICTNESS[each[0]], default=("ask", OTHER))


def places_of(will_happen: Foreseen) -> tuple[str, ...]:
    """Return all paths that were said of a call, each once: its locations, then its arguments'."""
    places = list(will_happen.locations)
    for each in will_happen.tellings:
        if isinstance(each.arguments, Mapping):
            places += [
                value
                for name, value in each.arguments.items()
                if isinstance(value, str) and value and folded(name) in PLACE_KEYS
            ]
    return tuple(dict.fromkeys(places))


def _directory(arguments: JsonValue) -> str:
    found = arguments.items() if isinstance(arguments, Mapping) else ()
    return next(
        (value for name, value in found if folded(name) in RUN_KEYS and isinstance(value, str)), ""
    )


def _judged_kind(kind: str, rules: Mapping[str, Rule]) -> tuple[Rule, str]:
    if kind in KINDS:
        rule = rules.get(kind, "ask")
        return rule, f"{kind}={rule}"
    denied = next((name for name, rule in sorted(rules.items()) if rule == "deny"), None)
    if denied is not None and denied != OTHER:
        return "deny", f"{denied}=deny, and the kind of this call is not known"
    rule = rules.get(OTHER, "ask")
    return rule, f"{OTHER}={rule}"


def _distinct(tellings: Iterable[Told]) -> list[Told]:
    # A list: arguments are JSON, of which no set can be made.
    said: list[Told] = []
    for each in tellings:
        if each not in said:
            said.append(each)
    return said


def _titles(said: tuple[Told, ...]) -> list[str]:
    """Return the titles and commands that were said, without those that others hold."""
    words = dict.fromkeys(each.title for each in said if each.title)
    commands = dict.fromkeys(line for each in said if (line := command_of(each.arguments)))
    names = SHELL_TOOLS if commands else frozenset[str]()
    words = {word: None for word in (*words, *commands) if word not in names}
    return [word for word in words if not any(word in other for other in words if other != word)]


def _kinds(said: tuple[Told, ...]) -> frozenset[str]:
    """Return the kinds that were said or follow; what was made up is `other`, and so is nothing.

    What only may be a command, or is only shown, is added: it makes no call of no kind milder.
    """
    named = {each.tool_kind for each in said if each.tool_kind not in {None, "", OTHER}}
    kinds = {kind if kind in KINDS else OTHER for kind in named}
    if any(command_of(each.arguments) for each in said):
        kinds.add(EXECUTE)
    kinds = (kinds or {OTHER}).union(*(each.implied_kinds for each in said))
    if any(holds_command(each.arguments) or is_command(each.title) for each in said):
        kinds.add(EXECUTE)
    return frozenset(kinds)


def _shown_kind(said: tuple[Told, ...], kinds: frozenset[str]) -> str:
    """Return one kind for the record: a command's, else what is shown, else the first said."""
    if EXECUTE in kinds:
        return EXECUTE
    implied = sorted(kind for each in said for kind in each.implied_kinds)
    named = (each.tool_kind for each in said if each.tool_kind in KINDS)
    return next((kind for kind in (*implied, *named) if kind), OTHER)


def _laid_together(arguments: Sequence[JsonValue]) -> JsonValue:
    """Return the arguments as they were last given; where any held a command, that is not lost."""
    if not arguments:
        return None
    # Agents learn their arguments while they stream, so the last are the whole ones.
    last = arguments[-1]
    commands = [each for each in arguments if command_of(each)]
    return last if command_of(last) or not commands else commands[-1]


# --- a call as a role's limits judge it -----------------------------------------------------------

# A pattern of OpenCode's or Claude Code's is about a command, a path, an address or the role of a
# sub-agent. A line of shell is taken apart, so that what stands behind a `&&` is compared as well.
# An agent that has no tool to read with is given lines of shell that only read, where its role may
# read but run no commands.


_NAMED_BY = {
    "skill": ("name", "skill"),
    "task": ("subagent_type", "agent_type"),
    "webfetch": ("url",),
}
"""The arguments that name what such a tool is called with."""

_SHELL = re.compile(r"(?:/(?:usr/)?bin/)?(?:ba|da|k|z)?sh")
_NAMING_WORDS = re.compile(
    r"(?<![-\w.])\w+\+?=|\b(?:set\s+--|for|function|mapfile|read\w*)\s|\(\)|\$\{\w+:?[-=]|sh\s+-\w*c"
)
"""A part of a line that gives a variable or a positional parameter its value."""
_UNKNOWN = "?"
"""What stands for a word that only running the line would tell."""


class CalledWith(Struct, frozen=True, kw_only=True):
    """What is known of a call: its `words`, or the `places` it names, as they were said.

    Nothing of either where it is not known. `only_reads`: it is a command and certainly reads only.
    """

    words: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    only_reads: bool = False


def called_with(will_happen: Foreseen, *, tool: str, reads_by_commands: bool) -> CalledWith:
    """Return what a call is called with. `tool` is its own name, empty where it is not known."""
    tools = tools_named(tool)
    if tools == (BASH,) or (not tools and EXECUTE in will_happen.kinds):
        return _of_command(will_happen, reads_by_commands=reads_by_commands)
    named = [name for each in tools for name in _NAMED_BY.get(each, ())]
    if named:
        return CalledWith(words=tuple(_named(will_happen, named)))
    return CalledWith(places=places_of(will_happen))


def _of_command(will_happen: Foreseen, *, reads_by_commands: bool) -> CalledWith:
    told = (line for each in will_happen.tellings for line in commands_of(each.arguments))
    lines = tuple(dict.fromkeys(told))
    # To an agent that has no tool to read with, commands denied would be reading denied.
    if reads_by_commands and lines and all(map(only_reads, lines)):
        places = tuple(place for line in lines for place in files_read(line))
        return CalledWith(places=places, only_reads=True)
    commands = [words for line in lines for words in _commands(line)]
    # Any pattern may fit a program that only running the line would tell, and after `V=push;` any
    # word may be one that the line itself made.
    end = None if any(map(_NAMING_WORDS.search, lines)) else 1
    if any(None in words[:end] or _hides(words) for words in commands):
        return CalledWith()
    return CalledWith(words=tuple(dict.fromkeys(map(_text, commands))))


def _commands(line: str) -> Iterator[Words]:
    """Yield the commands of a line as they are written, and those within them."""
    # Both as written and without a wrapper: a rule may be about `sudo *` or about what it runs.
    yield from (words for words in commands_written(line) if not _is_shell(words))
    yield from (command.words for command in commands_in(line))


def _hides(words: Words) -> bool:
    """Whether a command runs another one that its words do not tell: `echo git push | sh`."""
    name, rest = name_of(words[0]), [word or "" for word in words[1:]]
    if name in SHELLS:
        return all(word.startswith("-") and "c" not in word for word in rest)
    is_split = name == "env" and any(word.startswith(("-S", "--split")) for word in rest)
    is_alias = name == "git" and any(word.startswith("alias.") for word in rest)
    return name in _HIDING or is_split or is_alias or (name == "flock" and "-c" in rest)


_HIDING = frozenset({"alias", "busybox", "script", "trap", "xargs"})


def _text(words: Words) -> str:
    return " ".join(_UNKNOWN if word is None else word for word in words)


def _is_shell(words: Words) -> bool:
    """`bash -lc LINE` is the line, whose commands are all there beside it."""
    is_line = len(words) == len(("sh", "-c", "LINE")) and words[1] in {"-c", "-lc"} and words[2]
    return bool(is_line and _SHELL.fullmatch(words[0] or ""))


def _named(will_happen: Foreseen, names: Sequence[str]) -> Iterator[str]:
    for told in will_happen.tellings:
        if isinstance(told.arguments, Mapping):
            found = (told.arguments.get(name) for name in names)
            yield from (each for each in found if isinstance(each, str) and each)
