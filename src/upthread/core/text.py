"""Text from strangers, made fit for where it stands: a line, a section, a shell, a request.

One place for every surface: terminals, Markdown, hooks' lines, what MCP clients show, and a page
once there is one (which escapes its own mark-up after this). In a line nothing acts, or hides;
nothing is removed either: a character that could act is shown as its escape. Exact text is in
`--json`. A section of ours keeps the words of others and loses what could end it or begin another:
headings sink below ours, underlined headings lose their line, code fences left open are closed. The
store keeps what was said, unchanged. Light: hooks pay for this import.
"""

import re
import shlex
from unicodedata import category

LINE_CHARACTERS_MAX = 300
"""How much is shown of what has one line: an id, title, detail, address, path, reason or name."""

MARKS_MAX = 4
"""How many combining marks may stand on one letter; more would cover the lines around it."""

READ_AHEAD = 4
"""White space is folded before a line is cut: so many times its length is looked at."""

_JOINERS = "\u200c\u200d"  # letters of Persian, Hindi and families of emoji need them
# Letters and signs that are drawn as nothing, or as a space: they imitate columns and lines.
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_CACHED_MAX = 4096
# All but the blocks without a combining mark that are met most: Latin, punctuation, arrows, lines,
# symbols, Chinese, Korean, emoji. A test goes through all characters that there are.
_MAY_BE_MARKS = (
    "\u0300-\u1fff\u20d0-\u20ff\u2ce0-\u30ff\ua000-\uabff\ud7a4-\U0001efff\U0001fb00-\U0010ffff"
)
_STACK = f"[{_MAY_BE_MARKS}]{{{MARKS_MAX + 1},}}"


class _Escapes(dict[int, "int | str"]):
    """What each character is shown as, found when it is first met."""

    def __init__(self, *, is_line: bool) -> None:
        super().__init__()
        self._is_line = is_line

    def __missing__(self, number: int) -> int | str:
        character = chr(number)
        shown = number if self._is_kept(character) else escaped(character)
        if len(self) < _CACHED_MAX:
            self[number] = shown
        return shown

    def _is_kept(self, character: str) -> bool:
        if character.isprintable():
            return character not in _BLANKS
        if self._is_line:
            return False
        # No-break and ideographic spaces and a font's own signs are at home in a text.
        return character in "\n\t" + _JOINERS or category(character) in {"Zs", "Co"}


_IN_TEXT = _Escapes(is_line=False)
_IN_LINE = _Escapes(is_line=True)


def visible_text(text: str) -> str:
    """Return text of many lines; nothing but line feeds ends one."""
    return _unstacked(text.translate(_IN_TEXT))


def visible_row(text: str) -> str:
    """Return text that stays on its line, its white space as it was, of any length."""
    return _unstacked(text.translate(_IN_LINE))


def visible_line(text: str, *, characters_max: int = LINE_CHARACTERS_MAX) -> str:
    """Return text on one line, white space folded, cut to so many characters."""
    head = text[: characters_max * READ_AHEAD]
    # Only what is white space to everybody folds; what ends a line for some is shown.
    spaced = head.replace("\n", " ").replace("\t", " ")
    if not head.isascii():
        spaced = "".join(" " if not c.isascii() and category(c) == "Zs" else c for c in spaced)
    flat = " ".join(visible_row(spaced).split())
    if len(flat) <= characters_max and len(head) == len(text):
        return flat
    return flat[: characters_max - 1] + "…"


def visible_ends(text: str, *, characters_max: int = LINE_CHARACTERS_MAX) -> str:
    """Return text on one line, cut in the middle: a path ends in its name, a command begins so."""
    whole = visible_line(text, characters_max=characters_max)
    if not whole.endswith("…"):
        return whole
    head = (characters_max - 1) // 2
    tail = visible_row(" ".join(text[-characters_max:].split()))
    return f"{whole[:head]}…{tail[-(characters_max - 1 - head) :]}"


def escaped(character: str) -> str:
    """Return the escape of a character, as Python writes it."""
    number = ord(character)
    if character in "\n\r\t":
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}[character]
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def is_mark(character: str) -> bool:
    """Return whether a character is drawn onto the one before it."""
    return category(character) in {"Mn", "Me"}


def _unstacked(text: str) -> str:
    # Character by character takes ten times as long, and pages are long.
    if text.isascii() or not re.search(_STACK, text):
        return text
    told: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if is_mark(character) else 0
        told.append(character if marks <= MARKS_MAX else escaped(character))
    return "".join(told)


# --- Markdown -------------------------------------------------------------------------------------


LEVELS_TAKEN = 2
"""`#` and `##` are ours; a heading in somebody's text begins at `###`."""

CUT = "\n[… cut]\n"

PARAGRAPH = "\n\n"
"""Between two texts of one speaker that something else came between: a report begins a line."""

_HEADING = r"^(?P<indent>[ \t]*)(?P<marks>#{1,6})(?=[ \t]|$)"
_UNDERLINE = r"^[ \t]*(?P<mark>=+|-+)[ \t]*$"
_HTML_HEADING = r"(?i)<(?=/?h[1-6]\b)"
_BACKTICKS = r"`+"
_FENCE = r"^ {0,3}(?P<marks>`{3,}|~{3,})(?P<rest>.*)$"


def neutral(text: str) -> str:
    """Return text that cannot pass for a section of ours, without white space at its end.

    Lines inside code fences are treated like all others: which fence is one is not for sure, and a
    comment that sinks from `#` to `###` is still a comment.
    """
    lines = text.rstrip().splitlines()
    told = [
        _lowered(line, after=lines[index - 1] if index else "") for index, line in enumerate(lines)
    ]
    open_fence = _open_fence(told)
    return "\n".join([*told, open_fence] if open_fence else told)


def item(text: str) -> str:
    """Return one list item; its further lines are indented, so that they stay inside it."""
    return "- " + neutral(text.strip()).replace("\n", "\n  ")


def without_mentions(text: str) -> str:
    """Return a text with a backslash before each `@` that may mention a file.

    Claude Code (2.1.332) sends the model the file that a prompt mentions, whoever wrote the words
    and also within a quote.
    """
    return _MENTION.sub(r"\\@", text)


_MENTION = re.compile(r"(?<![\w\\])@", re.ASCII)


def one_line(text: str) -> str:
    """Return text on one line, white space folded."""
    return " ".join(text.split())


def shortened(text: str, characters_max: int) -> str:
    """Return text within so many characters: its beginning and its end, cut between them.

    What is asked stands at the one or at the other, whatever was put between.
    """
    if len(text) <= characters_max:
        return text
    room = max(characters_max - len(CUT), 0)
    end = room // 3
    return text[: room - end] + CUT + text[len(text) - end :]


def code(text: str) -> str:
    """Return text on one line as inline code, whatever backticks it holds (CommonMark 6.1)."""
    line = one_line(text)
    longest = max(map(len, re.findall(_BACKTICKS, line)), default=0)
    marks = "`" * (longest + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{marks}{pad}{line}{pad}{marks}"


def _lowered(line: str, *, after: str) -> str:
    heading = re.match(_HEADING, line)
    if heading and len(heading["marks"]) <= LEVELS_TAKEN:
        return f"{heading['indent']}{'#' * LEVELS_TAKEN}{line[len(heading['indent']) :]}"
    underline = re.match(_UNDERLINE, line)
    if underline and after.strip():
        return line.replace(underline["mark"], "\\" + underline["mark"], 1)
    return re.sub(_HTML_HEADING, "&lt;", line)


def _open_fence(lines: list[str]) -> str:
    """Return the fence that closes what was left open, empty when nothing was."""
    opened = ""
    for line in lines:
        found = re.match(_FENCE, line)
        if found is None:
            continue
        marks = found["marks"]
        if not opened:
            # A backtick in its info string makes it inline code (CommonMark 4.5).
            opened = marks if "~" in marks or "`" not in found["rest"] else ""
        elif marks.startswith(opened) and not found["rest"].strip():
            opened = ""
    return opened


# --- a command to be copied into a shell ----------------------------------------------------------


WORD_CHARACTERS_MAX = 1024
"""How long a word of a suggested command may be; a path is rarely longer."""


def command(*words: str) -> str:
    """Return a command to be copied: its words quoted for a shell, and nothing acts in them."""
    # Made visible first: a quote that is cut off afterwards would leave the line open.
    return shlex.join(visible_line(word, characters_max=WORD_CHARACTERS_MAX) for word in words)


# --- as it can be sent ----------------------------------------------------------------------------

# A half alone is no character, and Python keeps it in a text all the same.
SURROGATES = "[\ud800-\udfff]"


def unicode_text(text: str) -> str:
    """Return the text with halves of surrogate pairs joined, and single ones as U+FFFD."""
    if not re.search(SURROGATES, text):
        return text
    # Through UTF-16: two halves that stand side by side become the character that they were.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def quoted(text: str) -> str:
    """Return every line as a quotation: none reads as a heading or as the end of a block."""
    return "\n".join(f"> {line}" for line in text.splitlines())
