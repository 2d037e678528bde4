"""`upthread help`: the help of the program or of one verb."""

import click

from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call


@options.verb
@click.argument("name", metavar="[VERB]", required=False, help="The verb.")
@options.flag("--all", "is_all", "List every verb.")
def main(call: Call, *, name: str | None, is_all: bool) -> None:
    """Show the help of upthread or of a verb."""
    program = click.get_current_context().parent
    assert program is not None
    assert isinstance(program.command, click.Group)
    program.meta["is_all"] = is_all
    shown = program
    if name is not None:
        _, verb, _ = program.command.resolve_command(program, [name])
        assert verb is not None
        shown = click.Context(verb, parent=program, info_name=name)
    if call.output.is_json:
        call.output.json({"help": shown.get_help()})
    else:
        call.output.document(f"{shown.get_help()}\n")
