"""The commands that a task stands for: a target of a Makefile, a script of a package.json. Pure.

Read as text, never as the program would: to find one too many costs a question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from upthread.core.types import JsonValue

ROUNDS_MAX: Final = 4
"""How deep a variable of a Makefile is put in the place of another."""

RECIPE_CHARACTERS_MAX: Final = 100_000

_RULE: Final = re.compile(r"@?([^\s:=#][^:=#]*?)\s*::?(?![=:])([^=]*)")
_VARIABLE: Final = re.compile(r"(?:export\s+)?([\w.-]+)\s*(?:[:?!+]{0,3}=)\s*(.*)")
_INCLUDED: Final = re.compile(r"^-?s?include\s+(.+)$|^import\s+['\"](.+)['\"]", re.MULTILINE)
_USED: Final = re.compile(r"\$[({]([\w.-]+)[)}]|\{\{\s*([\w.-]+)\s*\}\}")


def recipe_of(text: str, targets: Sequence[str]) -> str:
    """Return the commands of a Makefile's or justfile's targets, with those they depend on.

    Without any, those of the first target.
    """
    rules, variables = _rules_of(text)
    waiting = list(targets) or [name for name in rules if not name.startswith(".")][:1]
    seen: set[str] = set()
    lines: list[str] = []
    while waiting:
        target = waiting.pop(0)
        if target not in seen and target in rules:
            seen.add(target)
            needs, commands = rules[target]
            waiting += needs
            lines += commands
    recipe = "\n".join(lines)[:RECIPE_CHARACTERS_MAX]
    for _ in range(ROUNDS_MAX):
        recipe = _USED.sub(lambda found: variables.get(found[1] or found[2], found[0]), recipe)
        # Each round: a variable that names itself twice doubles the text.
        recipe = recipe[:RECIPE_CHARACTERS_MAX]
    # Last: `$$A` is the shell's own variable, not one of make's.
    return recipe.replace("$$", "$")


def included_in(text: str) -> tuple[str, ...]:
    """Return the files that a Makefile or a justfile takes in, by their paths in it."""
    found = (each for each in _INCLUDED.finditer(text))
    return tuple(path for each in found for path in (each[1] or each[2]).split())


def script_of(text: str, name: str) -> str:
    """Return the commands of a package's script, with those before and after; empty for none."""
    try:
        package: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    scripts = package.get("scripts") if isinstance(package, Mapping) else None
    if not isinstance(scripts, Mapping):
        return ""
    # npm runs those before and after unasked.
    found = (scripts.get(each) for each in (f"pre{name}", name, f"post{name}"))
    return "\n".join(each for each in found if isinstance(each, str))


def _rules_of(text: str) -> tuple[dict[str, tuple[list[str], list[str]]], dict[str, str]]:
    """Return each target's prerequisites and commands, and the variables."""
    rules: dict[str, tuple[list[str], list[str]]] = {}
    variables: dict[str, str] = {}
    at: list[str] = []
    # A line that is continued is one to make, and its second half no command of its own.
    for line in text.replace("\\\n", " ").splitlines():
        if line[:1] in {"\t", " "}:
            for name in at:
                # These marks are for make, which takes them off.
                rules[name][1].append(line.strip().lstrip("@+-"))
        elif found := _VARIABLE.fullmatch(line):
            variables[found[1]] = found[2]
        elif found := _RULE.fullmatch(line):
            needs, _, command = found[2].partition(";")
            at = [each for each in found[1].split() if each]
            for name in at:
                needed, commands = rules.setdefault(name, ([], []))
                needed += needs.split()
                commands += [command.strip()] if command else []
    return rules, variables
