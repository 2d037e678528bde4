"""The parser: the words of a line as what a verb takes, by argparse.

argparse splits a line and reads its values; whatever it finds wrong becomes a UsageError, and the
help is ours (`help_page`). Nothing that was not typed is in what is returned, so that defaults
stand in one place, the verb's own signature.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, NoReturn

from upthread.errors import UsageError
from upthread.surfaces.cli.arguments.parameters import Option, Parameter

PROGRAM: Final = "upthread"
COLUMNS: Final = 80

_AS_IT_IS: Final = "\0"
"""Before a word that stood after `--`. No argument of a process can hold it, so that it cannot be
typed; and argparse, whose versions differ in what they make of `--`, never sees one."""


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises UsageError and prints nothing."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where the right words are."""
        raise UsageError(message, hint=f"see {self.prog} --help")


def parser_of(name: str, parameters: Iterable[Parameter] = ()) -> Parser:
    """Return a parser of options and arguments, called `name` in its errors."""
    # Said here, else some versions lay out a usage for each line they parse, and ask for the width
    # of the terminal, by `shutil`, for each option they are given.
    parser = Parser(
        prog=name,
        usage=name,
        formatter_class=partial(argparse.HelpFormatter, width=COLUMNS),
        add_help=False,
        allow_abbrev=False,
    )
    for each in parameters:
        add(parser, each)
    return parser


def add(parser: Parser, parameter: Parameter) -> argparse.Action:
    """Add an option or an argument to a parser, and return what argparse has of it."""
    read = _reader(parameter)
    choices = parameter.choices or None
    if not parameter.names:
        many = "+" if parameter.is_required else "*"
        one = None if parameter.is_required else "?"
        nargs = many if parameter.is_list else one
        action = parser.add_argument(
            parameter.name, nargs=nargs, type=read, choices=choices, metavar=parameter.metavar
        )
    elif parameter.kind is bool:
        flag = argparse.BooleanOptionalAction if parameter.is_undecided else "store_true"
        action = parser.add_argument(
            *parameter.names, dest=parameter.name, action=flag, default=argparse.SUPPRESS
        )
    else:
        action = parser.add_argument(
            *parameter.names,
            dest=parameter.name,
            action="append" if parameter.is_list else "store",
            required=parameter.is_required,
            default=argparse.SUPPRESS,
            type=read,
            choices=choices,
        )
    # Shown beside what a shell completes; argparse would put values in for a per cent sign.
    action.help = parameter.declared.help.replace("%", "%%")
    return action


def parsed_verb(name: str, parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any]:
    """Return what was typed for a verb, by the names of its parameters. Raises UsageError."""
    parser = parser_of(f"{PROGRAM} {name}", parameters)
    # Options may stand among the arguments: `tell ADDRESS --agent A TEXT`.
    found, left = parser.parse_known_intermixed_args(_after_dashes_as_is(words))
    _refuse(left, parser, parameters)
    return _typed(found)


def parsed_line(
    parameters: Sequence[Parameter], words: Sequence[str]
) -> tuple[dict[str, Any], str, list[str]]:
    """Return what was typed before the verb, the verb, empty for none, and the words after it."""
    parser = parser_of(PROGRAM, parameters)
    parser.add_argument("verb", nargs="?", default="", metavar="VERB")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    found, left = parser.parse_known_args(_after_dashes_as_is(words))
    _refuse(left, parser, parameters)
    typed = _typed(found)
    return typed, _word(typed.pop("verb")), typed.pop("words")


def before_dashes(words: Sequence[str]) -> Sequence[str]:
    """Return the words among which options are looked for."""
    return words[: words.index("--")] if "--" in words else words


def _after_dashes_as_is(words: Sequence[str]) -> list[str]:
    before = before_dashes(words)
    return [*before, *(_AS_IT_IS + each for each in words[len(before) + 1 :])]


def _typed(found: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(found).items() if value is not None}


def _refuse(left: Sequence[str], parser: Parser, parameters: Iterable[Parameter]) -> None:
    """Say what is wrong with the words that nothing took."""
    options = [each for each in left if each.startswith("-") and " " not in each and each != "-"]
    if options:
        typed = options[0].partition("=")[0]
        known = (name for each in parameters for name in each.names)
        from upthread.core.names import did_you_mean

        parser.error(f"No such option: {typed}{did_you_mean(typed, known)}")
    if left:
        parser.error(f"one word too many: {_word(left[0])!r}")


def _reader(parameter: Parameter) -> Callable[[str], object]:
    """Return what makes a value of a word. It raises ArgumentTypeError for one that is none."""

    def read(word: str) -> object:
        try:
            value = parameter.kind(_word(word))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{word!r} is no number") from None
        if isinstance(parameter.declared, Option):
            _check(value, parameter.declared)
        return value

    return read


def _check(value: Any, option: Option) -> None:
    least, most = option.minimum, option.maximum
    # So said, what is not a number (NaN) is out of any bounds.
    if least is not None and not value >= least:
        raise argparse.ArgumentTypeError(f"{value} is less than {least}")
    if most is not None and not value <= most:
        raise argparse.ArgumentTypeError(f"{value} is more than {most}")


def _word(word: str) -> str:
    return word.removeprefix(_AS_IT_IS)
