"""The agents, one row each: all that the rest of the house knows of an agent by its name.

Values only. How an agent is spoken to, how its store is read and what its errors mean is code, and
lies in its folder, `agents/<folder>/`; a rule that is about one agent reads its row. The rehearsal
agent is no row: it is ours, and is used where somebody asks for it by name.

An actor is who does something to the record, as far as it can be known, and never more than that. A
person is somebody at a terminal of their own. What a model asks for, through MCP or in a shell that
an agent opened, is the model's; everything else is a program's: a script, a worker, a caller of the
library.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from upthread.core.names import CALLERS_VARIABLE
from upthread.core.text import visible_line
from upthread.core.types import Environment

NATIVE = "native"
ACP = "acp"

_SESSIONS = ("resume", "load", "list", "fork")
_TOLD_APART = (*_SESSIONS, "sub_agents")
_ALL = (*_TOLD_APART, "open_sub_agents", "title")


class Way(Struct, frozen=True, kw_only=True):
    """One way of driving an agent: `native` or `acp`, and the command that starts it.

    `version` is the one this release was tested with and `can` what it does there; empty where
    nobody has looked. The words of `can`, in this order: `resume` attaches a session by its id,
    `load` attaches a session and reports its history, `list` names the sessions there are, `fork`
    branches a session off, `sub_agents` reports what sub-agents say and do, `open_sub_agents`
    continues a sub-agent's session by its id, in the role that it has, `inject` takes what was said
    before without a turn of the model, `title` calls a new session by its address.
    """

    kind: str
    command: tuple[str, ...]
    version: str = ""
    can: tuple[str, ...] = ()


class Cache(Struct, frozen=True, kw_only=True):
    """How long an agent's provider keeps a prefix after its last use, in seconds.

    Until `warm_s` it is there; after `cold_s` it is gone; between them nobody can tell.
    """

    warm_s: int
    cold_s: int
    source: str


class OtherMajor(Struct, frozen=True, kw_only=True):
    """A major version of an agent that was not tried, and what is known of it.

    `works` and `works_not` are said to people.
    """

    major: int
    works: str
    works_not: str


class Home(Struct, frozen=True, kw_only=True):
    """Where an agent keeps its sessions: what `variable` says, else `below` the user's home.

    `file` is the variable that names one database instead, in `folder` of that place, empty without
    one.
    """

    variable: str
    below: str
    file: str = ""
    folder: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that say where, the one that wins first."""
        return (self.file, self.variable) if self.file else (self.variable,)


class Agent(Struct, frozen=True, kw_only=True):
    """One agent.

    `ways` are those of driving it, the preferred first; `folder` is its own in `agents/`, empty
    where ACP is all it speaks. `program` is the command a person types, and `bundled_in` the Python
    package that brings it too, in `_bundled`. `home` and `cache` are None where nothing is read,
    and nothing is known. `marks` are variables it gives to what it starts, `passed_on` those it
    needs of ours beside the general ones.

    `setup_name` is what `upthread setup` calls it, empty without hooks of ours. A session is titled
    by the text after `request_heading`, where its first prompt has that line. Its own tool for
    sub-agents may take a session to go on in (`takes_sessions`); `reached_from_main` is what a
    person says in a main session to reach a sub-agent of it, where nothing else opens one. With
    `resumed_by` and a session's id its own interface opens that session, if the whole id matches
    `opened_ids`, a regular expression; one that was archived is fetched by `unarchived_by` first,
    where that is needed. `provider` is who its models are from, in OpenTelemetry's
    word; empty where that may be anybody. `project_settings` are the names of files with which a
    project can make the agent run a program. In a directory that the person has not trusted, the
    agent is started without them and without its `project_instructions`, of which the first that
    exists is quoted. Of these it reads the first one in each directory, or if it
    `reads_all_instructions` all that exist, with the files that they name, for example
    `@docs/style.md`. It reads those that are named in its settings, the files
    `names_instructions_in`; and `instead_of_own`, a file in HOME, where the person has no own. An
    agent with `heeds_trust` does this itself. One that
    `goes_by_settings_below` reads those of a subdirectory when it works there. With
    `instructions_below` it reads the instructions beside each file that it reads. A person's own
    settings and instructions are in `settings`, in `home` if that is None. `other_majors` are the
    major versions that something is known of beside the tested one. With `keeps_directory` a `cd`
    of one command holds for the next one of the turn.
    """

    name: str
    ways: tuple[Way, ...]
    how_to_install: str
    folder: str = ""
    bundled_in: str = ""
    home: Home | None = None
    settings: Home | None = None
    cache: Cache | None = None
    marks: tuple[str, ...] = ()
    passed_on: tuple[str, ...] = ()
    setup_name: str = ""
    request_heading: str = ""
    takes_sessions: bool = False
    reached_from_main: str = ""
    project_settings: tuple[str, ...] = ()
    project_instructions: tuple[str, ...] = ()
    reads_all_instructions: bool = False
    names_instructions_in: tuple[str, ...] = ()
    instead_of_own: str = ""
    instructions_below: bool = False
    heeds_trust: bool = False
    goes_by_settings_below: bool = False
    keeps_directory: bool = False
    resumed_by: tuple[str, ...] = ()
    opened_ids: str = "(?s:.*)"
    unarchived_by: tuple[str, ...] = ()
    provider: str = ""
    other_majors: tuple[OtherMajor, ...] = ()

    @property
    def opens_sub_agents(self) -> bool:
        """Whether its own interface opens a sub-agent's session by its id."""
        return "open_sub_agents" in self.ways[0].can

    def resume_command(
        self, session_id: str, program: Sequence[str] = ()
    ) -> tuple[str, ...] | None:
        """Return the command that opens a session in its own interface, None for no such id.

        `program` is how its program is started here, where its name alone is not enough.
        """
        # An id that begins with a dash would be taken for an option.
        if not self.resumed_by or not session_id or session_id.startswith("-"):
            return None
        if not re.fullmatch(self.opened_ids, session_id):
            return None
        return (*(program or self.resumed_by[:1]), *self.resumed_by[1:], session_id)

    def unarchive_command(self, session_id: str) -> tuple[str, ...] | None:
        """Return the command that lets an archived session be opened, None where none is needed."""
        is_one = self.unarchived_by and self.resume_command(session_id)
        return (*self.unarchived_by, session_id) if is_one else None

    @property
    def program(self) -> str:
        """The command of its preferred way, without its words."""
        return self.ways[0].command[0]


_CLAUDE_CODE = Agent(
    name="claude-code",
    ways=(
        Way(
            kind=NATIVE,
            command=("claude",),
            version="2.1.332",
            can=("resume", "load", "fork", "sub_agents", "title"),
        ),
        Way(kind=ACP, command=("claude-agent-acp",), version="0.101.0", can=_SESSIONS),
    ),
    how_to_install="install claude, or the Python package claude-agent-sdk",
    folder="claude_code",
    bundled_in="claude_agent_sdk",
    home=Home(variable="CLAUDE_CONFIG_DIR", below=".claude"),
    cache=Cache(
        warm_s=300,
        cold_s=3_600,
        source="5 minutes with an API key, 1 hour with a subscription, renewed by each use: "
        "https://code.claude.com/docs/en/prompt-caching",
    ),
    marks=("CLAUDECODE",),
    passed_on=(
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
        *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN"),
    ),
    setup_name="claude",
    reached_from_main="ask it to go on with {session} by SendMessage",
    project_settings=(".claude", ".mcp.json"),
    goes_by_settings_below=True,
    project_instructions=(
        *("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md"),
        *(".claude/rules/*.md", ".claude/rules/*/*.md"),
    ),
    reads_all_instructions=True,
    instructions_below=True,
    keeps_directory=True,
    provider="anthropic",
    resumed_by=("claude", "--resume"),
    # A session's id is a UUID; this is the form of a sub-agent's, as seen in 2.1.330.
    opened_ids=r"(?!a[0-9a-f]{16}\Z)(?s:.*)",
)

_OPENCODE = Agent(
    name="opencode",
    ways=(
        Way(kind=NATIVE, command=("opencode", "serve"), version="1.18.33", can=_ALL),
        Way(kind=ACP, command=("opencode", "acp"), version="1.18.33", can=_TOLD_APART),
    ),
    how_to_install="see opencode.ai",
    folder="opencode",
    home=Home(
        variable="XDG_DATA_HOME", below=".local/share", file="OPENCODE_DB", folder="opencode"
    ),
    marks=("OPENCODE", "OPENCODE_CALLER"),
    passed_on=(
        *("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_CONFIG_CONTENT"),
        *("OPENCODE_API_KEY", "OPENROUTER_API_KEY"),
    ),
    setup_name="opencode",
    takes_sessions=True,
    project_settings=(
        *(".opencode", "opencode.json", "opencode.jsonc"),
        *(".claude/skills", ".agents/skills"),
    ),
    project_instructions=("AGENTS.md", "CLAUDE.md", "CONTEXT.md"),
    names_instructions_in=("opencode.json", "opencode.jsonc"),
    instead_of_own=".claude/CLAUDE.md",
    instructions_below=True,
    settings=Home(variable="XDG_CONFIG_HOME", below=".config", folder="opencode"),
    resumed_by=("opencode", "--session"),
    other_majors=(
        OtherMajor(
            major=2,
            works="its sessions are listed, searched and kept, and setup writes its plug-in",
            works_not="tell and run do not drive it",
        ),
    ),
)

_CODEX = Agent(
    name="codex",
    ways=(
        Way(kind=NATIVE, command=("codex", "app-server"), version="0.171.0", can=_ALL),
        Way(kind=ACP, command=("codex-acp",), version="2.6.0", can=_SESSIONS),
    ),
    how_to_install="install @openai/codex",
    folder="codex",
    home=Home(variable="CODEX_HOME", below=".codex"),
    cache=Cache(
        warm_s=300,
        cold_s=3_600,
        source="5 to 10 minutes without use, 1 hour at most: "
        "https://developers.openai.com/api/docs/guides/prompt-caching",
    ),
    marks=("CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_THREAD_ID", "CODEX_CI"),
    passed_on=("OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME", "CODEX_API_KEY"),
    setup_name="codex",
    request_heading="## My request for Codex:",
    project_settings=(".codex",),
    project_instructions=("AGENTS.override.md", "AGENTS.md"),
    heeds_trust=True,
    # Without the word its shared server keeps the session to itself when the person has left.
    resumed_by=("codex", "resume", "--no-daemon"),
    unarchived_by=("codex", "unarchive"),
    # Any other word would be taken for a thread's name.
    opened_ids="[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    provider="openai",
)

_GEMINI = Agent(
    name="gemini",
    ways=(Way(kind=ACP, command=("gemini", "--acp"), version="0.61.0", can=("load",)),),
    how_to_install="install @google/gemini-cli",
    cache=Cache(
        warm_s=0,
        cold_s=86_400,
        source="implicit, without a promise, gone within 24 hours: "
        "https://ai.google.dev/gemini-api/docs/caching",
    ),
    marks=("GEMINI_CLI",),
    passed_on=(
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"),
    ),
    provider="gcp.gemini",
)

AGENTS = {row.name: row for row in (_CLAUDE_CODE, _OPENCODE, _CODEX, _GEMINI)}
"""Every agent this release knows by name, in the order in which people are shown them."""


WITH_A_STORE = tuple(name for name, row in AGENTS.items() if row.home is not None)
"""The agents whose stores are read."""


def other_major(agent: str, version: str) -> OtherMajor | None:
    """Return what is known of a version's major where it is not the tested one, else None."""
    row = AGENTS.get(agent)
    known = {str(each.major): each for each in row.other_majors} if row else {}
    return known.get(version.partition(".")[0])


def name_of(word: str) -> str:
    """Return the name of an agent that is also called as its program, or as `setup` calls it."""
    others = (row.name for row in AGENTS.values() if word in {row.setup_name, row.program})
    return word if word in AGENTS else next(others, word)


def in_profile(profile: str) -> tuple[str, ...]:
    """Return what stands before a command of an agent whose profile is `VARIABLE=place`.

    For example `("env", "-uOPENCODE_DB", "XDG_DATA_HOME=/x")`: a variable that wins is taken away.
    """
    homes = (
        row.home for row in AGENTS.values() if row.home and profile.startswith(row.home.variable)
    )
    return ("env", *(f"-u{each.file}" for each in homes if each.file), profile)


def provider_of(agent: str) -> str:
    """Return who an agent's models are from; its own name where that may be anybody."""
    row = AGENTS.get(agent)
    return (row.provider if row else "") or agent


def one_of(names: Iterable[str]) -> str:
    """Return names as a sentence offers them: `a, b or c`. At least one must be given."""
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


# --- who acts -------------------------------------------------------------------------------------


NAME_CHARACTERS_MAX = 60

MARKS = {
    **{variable: row.name for row in AGENTS.values() for variable in row.marks},
    "CURSOR_AGENT": "cursor",
    "UPTHREAD_PROCESS_MARK": "an agent that upthread started",
    CALLERS_VARIABLE: "an agent that upthread started",
}
"""Variables that agents give to what they start, and whose they are."""

_IN_WORDS = {
    "person": "a person at a terminal",
    "model": "a model",
    "program": "a program, with nobody at a terminal",
}


class Actor(Struct, frozen=True, kw_only=True):
    """Who acts. `name` is what a model's agent calls itself, which nobody has checked."""

    kind: Literal["person", "model", "program"]
    name: str = ""

    @property
    def in_words(self) -> str:
        """`a model (codex)`."""
        return _IN_WORDS[self.kind] + (f" ({self._shown})" if self.name else "")

    def for_user(self, user: str) -> str:
        """Return who is named in an act: the user, and what acted for them."""
        if self.kind == "person":
            return user
        return f"{user} ({self.kind}: {self._shown})" if self.name else f"{user} ({self.kind})"

    @property
    def _shown(self) -> str:
        return visible_line(self.name, characters_max=NAME_CHARACTERS_MAX)


PERSON = Actor(kind="person")
PROGRAM = Actor(kind="program")


def model_of(environment: Environment) -> Actor | None:
    """Return the model that a process with this environment acts for; None if there is no mark."""
    agents = (agent for variable, agent in MARKS.items() if environment.get(variable))
    name = next(agents, None)
    return None if name is None else Actor(kind="model", name=name)


def answerer_in_words(by: Actor | None) -> str:
    """Return who answered; of what was answered before that was recorded, that it is not known."""
    return by.in_words if by is not None else "somebody, before it was recorded who,"
