"""What a role may do and with which model, as its file says it, in one form. Pure.

Claude Code, OpenCode and Codex each have words of their own for the same. Here a limit is a list of
rules over tools by their common names, so that a role told through another agent than its file was
written for is held to the same. Several lists hold at once, the strictest of them for each call. A
list only ever takes away: what a file allows is not given, it is only not denied.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from upthread.core.names import folded, rows_by_name
from upthread.core.shell.call_commands import CHANGING, EXECUTE, OTHER, STRICTNESS, Rule

Sandbox: TypeAlias = Literal["", "read-only", "workspace-write"]

ANY = "*"
BASH = "bash"
READ = "read"
EDITING = ("edit", "write")
BEYOND = "external_directory"
EDIT_BEYOND = "external_edit"
"""What a call is as well that reaches out of the working tree, or changes something there."""

KINDS_OF_TOOLS = rows_by_name(
    (BASH, EXECUTE),
    (READ, "read"),
    (" ".join(EDITING), "edit"),
    ("glob grep list", "search"),
    ("webfetch websearch", "fetch"),
    ("task todowrite", "think"),
    ("lsp question skill", OTHER),
)
"""ACP's kind of each tool by the name it has in all files here, which is OpenCode's."""

_ALIKE = {
    **{name: (name,) for name in KINDS_OF_TOOLS},
    **rows_by_name(
        ("execcommand killbash killshell localshell monitor powershell shell writestdin", (BASH,)),
        ("notebookread viewimage", (READ,)),
        # A patch may make a file as well as change one: either rule holds.
        ("applypatch patch", EDITING),
        ("multiedit notebookedit", ("edit",)),
        ("agent spawnagent", ("task",)),
        ("todoread updateplan", ("todowrite",)),
        ("askuserquestion requestuserinput", ("question",)),
        ("codesearch", ("grep",)),
        ("ls", ("list",)),
    ),
}


class ToolRule(Struct, frozen=True, kw_only=True):
    """What holds of a tool: by its common name, or its own; `*` stands for any characters.

    `pattern` is of what it is called with: a command, a path, an address, a sub-agent's role.
    """

    tool: str
    pattern: str = ANY
    word: Rule


RuleList: TypeAlias = tuple[ToolRule, ...]
"""The last rule that fits decides; where none does, nothing is denied."""


class RoleLimits(Struct, frozen=True, kw_only=True):
    """The limits of one role. `said` is what of them a person reads, in the words of the file.

    `model` is empty where the agent's own holds; `model_of` is the agent whose name for it that is.
    `asks_nobody`: what would be asked about is denied. `not_given` is what the file asks for and
    does not get: it would loosen what the person has set.
    """

    lists: tuple[RuleList, ...] = ()
    sandbox: Sandbox = ""
    asks_nobody: bool = False
    model: str = ""
    model_of: str = ""
    said: tuple[str, ...] = ()
    not_given: tuple[str, ...] = ()

    @property
    def held(self) -> tuple[tuple[RuleList, ...], Sandbox, bool]:
        """What may be refused for them."""
        return self.lists, self.sandbox, self.asks_nobody

    @property
    def are_any(self) -> bool:
        """Whether anything may be refused for them."""
        return any(self.held)

    def model_for(self, agent: str) -> str:
        """Return the model by an agent's own name for it, empty where its own setting holds."""
        return self.model if self.model_of == agent else ""

    def rule_lists(self, *, is_sandboxed: bool) -> tuple[RuleList, ...]:
        """Return all lists; what an agent's sandbox holds is not denied a second time."""
        held = _SANDBOXED if is_sandboxed else _UNSANDBOXED
        return (*self.lists, *filter(None, [held[self.sandbox]]))


def denying(*tools: str, said: tuple[str, ...] = ()) -> RoleLimits:
    """Return the limits of a role that may not use these tools at all."""
    return RoleLimits(lists=(tuple(ToolRule(tool=name, word="deny") for name in tools),), said=said)


NO_LIMITS = RoleLimits()

(_NO_EDITS,) = denying(*EDITING).lists
_SANDBOXED = {"": (), "read-only": _NO_EDITS, "workspace-write": ()}
_UNSANDBOXED = {
    "": (),
    "read-only": (*_NO_EDITS, ToolRule(tool=BASH, word="deny")),
    "workspace-write": (ToolRule(tool=EDIT_BEYOND, word="deny"),),
}


class LimitedCall(Struct, frozen=True, kw_only=True):
    """A call as the limits see it. `tool` is its own name, empty where only its kinds are known.

    `called_with` is what patterns are compared with: of a command each simple one, of a file its
    path from the working tree on; empty where nothing is known, and then any pattern may fit. A
    command of which it is certain that it `only_reads` is reading, where its agent reads in no
    other way. `is_beyond`: it names a place outside of the working tree.
    """

    tool: str
    kinds: frozenset[str]
    called_with: tuple[str, ...] = ()
    only_reads: bool = False
    is_beyond: bool = False


def tools_named(name: str) -> tuple[str, ...]:
    """Return the common names of a tool, none for one that is not known here: a server's."""
    return _ALIKE.get(folded(name), ())


def limited(
    limits: RoleLimits, call: LimitedCall, *, is_sandboxed: bool = False
) -> tuple[Rule, str]:
    """Return the strictest word of all lists for a call, and the rule: `bash=deny`."""
    found: list[tuple[Rule, str]] = [
        (_judged(rules, subject, call.called_with), subject)
        for rules in limits.rule_lists(is_sandboxed=is_sandboxed)
        for subject in _subjects(call, rules)
    ]
    nothing: tuple[Rule, str] = ("allow", "")
    word, subject = max(found, key=lambda each: STRICTNESS[each[0]], default=nothing)
    return word, f"{subject}={word}"


def denies_wholly(limits: RoleLimits, tool: str) -> bool:
    """Return whether a tool, by its own name, may be called with nothing at all."""
    subjects = tools_named(tool) or (tool,)
    return any(
        _is_wholly_denied(rules, subject)
        for rules in limits.rule_lists(is_sandboxed=False)
        for subject in subjects
    )


def allows_only_named(limits: RoleLimits) -> bool:
    """Return whether a tool nobody has heard of is denied."""
    return any(_is_wholly_denied(rules, "") for rules in limits.lists)


def named_tools(limits: RoleLimits) -> tuple[str, ...]:
    """Return the tools of others that the rules name, in their order and without patterns."""
    named = (rule.tool for rules in limits.lists for rule in rules)
    return tuple(dict.fromkeys(name for name in named if name not in _ALIKE and name != ANY))


# --- judging -------------------------------------------------------------------------------------


def _subjects(call: LimitedCall, rules: RuleList) -> Iterator[str]:
    tools = tools_named(call.tool)
    if call.only_reads and (tools == (BASH,) or (not call.tool and EXECUTE in call.kinds)):
        tools = (READ,)
    if tools:
        yield from tools
    elif call.tool:
        yield call.tool
    else:
        yield from (_of_kind(kind, rules, call.called_with) for kind in sorted(call.kinds))
    if call.is_beyond:
        yield BEYOND
        kinds = {KINDS_OF_TOOLS[tool] for tool in tools} or call.kinds
        if kinds & CHANGING:
            yield EDIT_BEYOND


def _of_kind(kind: str, rules: RuleList, called_with: Sequence[str]) -> str:
    """Return the tool that a call of a kind is judged as: one the rules name, the strictest.

    What may be of any kind is any tool that is denied.
    """
    as_kind = "edit" if kind in CHANGING else kind
    tools = [name for name, of in KINDS_OF_TOOLS.items() if of == as_kind or kind == OTHER]
    named = {rule.tool for rule in rules}
    # Those the rules name: `*: deny` with one tool allowed would else deny each call of that kind.
    weighed = [name for name in tools if name in named] or tools or [kind]
    if as_kind == kind == OTHER:
        weighed = [*tools, OTHER]
    words = {name: STRICTNESS[_judged(rules, name, called_with)] for name in weighed}
    return max(weighed, key=lambda name: words[name])


def _judged(rules: RuleList, subject: str, called_with: Sequence[str]) -> Rule:
    fitting = [rule for rule in rules if _fits(rule.tool, subject)]
    # Nothing is known of it: any of the patterns may fit.
    if not called_with:
        return _strictest(fitting)
    return _strictest_of([_last_word(fitting, each) for each in called_with])


def _last_word(rules: Sequence[ToolRule], called_with: str) -> Rule:
    for rule in reversed(rules):
        if _fits(rule.pattern, called_with):
            return rule.word
    return "allow"


def _strictest(rules: Sequence[ToolRule]) -> Rule:
    """Return the strictest word that could hold of what is not known."""
    words: list[Rule] = []
    for rule in reversed(rules):
        # From the last on: what stands before a rule for everything can no longer decide.
        words.append(rule.word)
        if rule.pattern == ANY:
            break
    else:
        words.append("allow")
    return _strictest_of(words)


def _strictest_of(words: Sequence[Rule]) -> Rule:
    return max(words, key=STRICTNESS.__getitem__)


def _is_wholly_denied(rules: RuleList, subject: str) -> bool:
    for rule in reversed(rules):
        if _fits(rule.tool, subject):
            if rule.word != "deny":
                return False
            if rule.pattern == ANY:
                return True
    return False


def _fits(pattern: str, text: str) -> bool:
    return pattern == ANY or _expression(pattern).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _expression(pattern: str) -> re.Pattern[str]:
    """`*` any characters, `?` one; a pattern ending in ` *` fits also without what follows."""
    written = _glob(pattern)
    if pattern.endswith(" *"):
        written = f"(?:{_glob(pattern.removesuffix(' *'))}|{written})"
    return re.compile(written, re.DOTALL)


def _glob(pattern: str) -> str:
    # Atomic groups, each up to the first place where its words fit: of `*a*a*a*b` on a long text
    # an ordinary expression tries every way there is, and a role file of a clone may hold that.
    # As words: it is a repository's text, and `*` and `?` are all that it may mean.
    first, *between = (
        "".join("." if each == "?" else re.escape(each) for each in piece)
        for piece in re.split(r"\*+", pattern)
    )
    if not between:
        return first
    last = between.pop()
    return f"{first}{''.join(f'(?>.*?{piece})' for piece in between)}.*{last}"


# --- in words ------------------------------------------------------------------------------------


def in_words(limits: RoleLimits) -> tuple[str, ...]:
    """Return what a person is told of the limits, a line each; none for none."""
    model = [f"model: {limits.model}, as {limits.model_of} calls it"] if limits.model else []
    return (*limits.said, *model, *(f"not given: {each}" for each in limits.not_given))


def unheld_in_words(limits: RoleLimits, *, agent: str, can_hold: bool, is_sandboxed: bool) -> str:
    """Return what of the limits an agent may pass by, as one line; empty where all of it holds."""
    told: list[str] = []
    if limits.are_any and not can_hold:
        told.append(f"what it may not do holds only where {agent} asks before it acts")
    if limits.sandbox == "workspace-write" and not is_sandboxed:
        told.append(f"{agent} has no sandbox: its commands may write beyond the working tree")
    if limits.model and not limits.model_for(agent):
        told.append(f"{agent} uses its own model: {limits.model} is {limits.model_of}'s")
    return "; ".join(told)


def joined(lists: Iterable[RoleLimits]) -> RoleLimits:
    """Return what holds where all of these do; the model is the last that is named."""
    every = tuple(lists)
    models = [(each.model, each.model_of) for each in every if each.model]
    model, model_of = models[-1] if models else ("", "")
    sandboxes = {each.sandbox for each in every}
    sandbox: Sandbox = "workspace-write" if "workspace-write" in sandboxes else ""
    return RoleLimits(
        lists=tuple(rules for each in every for rules in each.lists),
        sandbox="read-only" if "read-only" in sandboxes else sandbox,
        asks_nobody=any(each.asks_nobody for each in every),
        model=model,
        model_of=model_of,
        said=tuple(line for each in every for line in each.said),
        not_given=tuple(line for each in every for line in each.not_given),
    )
