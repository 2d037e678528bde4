"""`upthread restore`: puts a backup in the place of the database.

It shows what the backup lacks and asks; the present file is kept.
"""

from pathlib import Path

import click

from upthread.client.database_files import Restored, restore
from upthread.errors import UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call, require_person
from upthread.surfaces.cli.terminal.output import Output, members
from upthread.surfaces.cli.terminal.phrases import command, conversation_name, counted, one_line


@options.verb
@click.argument(
    "source", metavar="[FILE]", required=False, help="A file that `upthread backup` made."
)
@options.yes
@options.dry_run
@options.flag("--settle", "is_settling", "You looked: `once` takes keys that it lacks.")
def main(call: Call, *, source: str | None, is_settling: bool) -> None:
    """Replace the database by a backup. The present file is kept aside."""
    if is_settling:
        require_person("nobody settles what a restore left in doubt", "restore", "--settle")
        call.with_project(lambda up: up.once.settle_restore())
        call.output.json({"is_settled": True})
        call.output.line("keys of `once` that are not on record are new from now on", "green")
        return
    if source is None:
        raise UsageError("there is no backup named", hint="upthread restore FILE")
    settings, file = call.settings(), Path(source)
    # Compared before the question, so that a person can refuse when the backup lacks turns.
    if not call.is_dry_run:
        require_person("nobody puts a backup in the place of the record", "restore", source)
    if call.is_dry_run or not call.is_yes:
        plan = restore(settings, file, is_done=False)
        _show(call.output, plan)
        if call.is_dry_run:
            _told(call.output, plan, is_done=False)
            return
        call.confirm(f"Put {plan.backup} in the place of {plan.database}?")
    done = restore(settings, file)
    if call.is_yes:
        _show(call.output, done)
    _told(call.output, done, is_done=True)


def _show(output: Output, found: Restored) -> None:
    if found.unread:
        output.remark(f"what it lacks cannot be told: {found.unread}", "yellow")
    for each in found.lacking:
        name = conversation_name(each.conversation)
        address = each.conversation.address
        turns = f"{counted(each.turns, 'turn')} more than the backup" if each.turns > 0 else ""
        if each.is_known:
            said = f"{turns}, which {each.agent} has in {each.session}"
            cure = command("upthread", "tell", address, "…")
        else:
            session = f"goes on in {each.session} of {each.agent}, which the backup does not know"
            said = "; ".join(filter(None, (turns, session)))
            cure = command("upthread", "adopt", address, each.session)
        output.row((f"{one_line(name)}: ", "bold"), one_line(said))
        output.command("  ", cure)


def _told(output: Output, found: Restored, *, is_done: bool) -> None:
    output.json(
        {
            **members(found, "database backup"),
            "kept": found.aside,
            "is_restored": is_done,
            "lacking": [
                {
                    **members(each.conversation, "address conversation_id"),
                    "turns": each.turns,
                    "agent": each.agent or None,
                    "upstream_session_id": each.session or None,
                    "is_session_known": each.is_known,
                }
                for each in found.lacking
            ],
            "not_compared_because": found.unread or None,
        }
    )
    if is_done:
        output.line(f"{found.database}: is now the backup {found.backup}", "green")
        if found.aside is not None:
            output.line(f"what was there is kept: {found.aside}")
