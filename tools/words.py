"""Print how plain our English is: `python -m tools.words`.

Counts rates per 1,000 words in the comments and docstrings of src/upthread and in the documents,
and how functions and classes are named. The goal stands in brackets; a `!` marks a missed goal.
Nothing fails yet.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tools.counting import find_comments
from tools.size_cap import ROOT, documents


class Rate(NamedTuple):
    """A pattern, and how often per 1,000 words it may occur, or must occur at least."""

    name: str
    pattern: str
    goal: float
    is_minimum: bool = False


RATES = (
    Rate('"what" as a noun clause', r"\bwhat\b", 4),
    Rate("it, they, them, these, those, that", r"\b(it|its|they|them|these|those|that)\b", 40),
    Rate("one, ones", r"\bones?\b", 4),
    Rate("told, tell (not the verb `tell`)", r"(?<!`)\b(told|tells?|telling)\b(?!`)", 0.5),
    Rate("said, says", r"\b(said|says?|saying)\b", 1.5),
    Rate(
        "nobody, whoever, somebody, whose",
        r"\b(nobody|whoever|somebody|whose|whom|anybody)\b",
        0.5,
    ),
    Rate("goes on, gone on with", r"\b(go|goes|gone|went|going) on\b", 0.2),
    Rate("examples", r"\b(e\.g\.|for example|such as|for instance|example)\b", 1, is_minimum=True),
    Rate(
        "reasons (because, so that, otherwise)",
        r"\b(because|so that|otherwise|to avoid|since|in order to|therefore)\b",
        3,
        is_minimum=True,
    ),
)
PARTICIPLES_PERCENT_MAX = 3.0
"""How many functions may have a participle as their first word, for example `told_again`."""

CODE_OR_COMMENT = re.compile(r"```.*?```|`[^`\n]*`|<!--.*?-->", re.DOTALL)
IRREGULAR = (
    "told said held kept found given known meant begun written made sent shown lost left taken"
    " spent built bound drawn driven done gone seen heard"
).split()
PARTICIPLE = re.compile(rf"([a-z]+ed|{'|'.join(IRREGULAR)})(_|$)")
NO_PARTICIPLE = re.compile("(seed|feed|need|embed|shed|speed|proceed|indeed|red)(_|$)")
BARE_PARTICIPLE = re.compile(rf"[A-Z][a-z]+ed|{'|'.join(word.capitalize() for word in IRREGULAR)}")


class PythonEnglish(NamedTuple):
    """The English of Python sources: their prose, and the names of functions and classes."""

    texts: list[str]
    functions: list[str]
    classes: list[str]


def read_python(sources: Iterable[str]) -> PythonEnglish:
    """Return the comments, the docstrings and the names in Python sources."""
    found = PythonEnglish([], [], [])
    for source in sources:
        found.texts.extend(find_comments(source))
        for node in ast.walk(ast.parse(source)):
            if not isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ):
                continue
            found.texts.append(ast.get_docstring(node) or "")
            if isinstance(node, ast.ClassDef):
                found.classes.append(node.name.strip("_"))
            elif not isinstance(node, ast.Module):
                found.functions.append(node.name.strip("_"))
    return found


def describe_rates(texts: Iterable[str]) -> list[str]:
    """Return a line with the number of words, then a line for each rate."""
    text = " ".join(texts)
    words = len(re.findall(r"[A-Za-z']+", text))
    lines = [f"{words:,} words; for each 1,000:"]
    for rate in RATES:
        share = 1000 * len(re.findall(rate.pattern, text, re.IGNORECASE)) / max(1, words)
        is_missed = share < rate.goal if rate.is_minimum else share > rate.goal
        goal = f"{'>=' if rate.is_minimum else '<='} {rate.goal:g}"
        lines.append(f"{'!' if is_missed else ' '} {rate.name:40s} {share:6.1f}  ({goal})")
    return lines


def describe_names(functions: list[str], classes: list[str]) -> list[str]:
    """Return a line on functions that are named by a participle, and a line on such classes."""
    named = [name for name in functions if is_participle(name)]
    share = 100 * len(named) / max(1, len(functions))
    bare = [name for name in classes if BARE_PARTICIPLE.fullmatch(name)]
    mark = "!" if share > PARTICIPLES_PERCENT_MAX else " "
    goal = f"(<= {PARTICIPLES_PERCENT_MAX:g} %)"
    listed = f"{len(bare)}  (0) {' '.join(sorted(set(bare)))}".rstrip()
    return [
        f"{mark} functions named by a participle: {share:.1f} %  {goal}",
        f"{'!' if bare else ' '} classes that are a bare participle: {listed}",
    ]


def is_participle(name: str) -> bool:
    """Return whether a name begins with a participle: `told_again`, and not `seed_rows`."""
    return bool(PARTICIPLE.match(name)) and not NO_PARTICIPLE.match(name)


def main() -> int:
    """Print the rates of the code and of the documents."""
    sources = sorted((ROOT / "src" / "upthread").rglob("*.py"))
    code = read_python(_read_all(sources))
    prose = [CODE_OR_COMMENT.sub(" ", text) for text in _read_all(documents(ROOT))]
    parts = {
        "words of the code": [
            *describe_rates(code.texts),
            *describe_names(code.functions, code.classes),
        ],
        "words of the documents": describe_rates(prose),
    }
    for title, (first, *lines) in parts.items():
        print(f"{title}: {first}", *lines, sep="\n")
    return 0


def _read_all(paths: Iterable[Path]) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in paths]


if __name__ == "__main__":
    raise SystemExit(main())
