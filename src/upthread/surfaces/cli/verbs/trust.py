"""`upthread trust`: settings of a repository that need a person's consent, and this consent."""

from collections.abc import Sequence

from upthread.boundary.consents import Consent
from upthread.client.consent import BY_YOURSELF, decided_of, refuse_models, take_back
from upthread.config import Settings
from upthread.errors import UsageError
from upthread.surfaces.cli import options
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consent import change_of, decide_now, show
from upthread.surfaces.cli.failures import EXIT_WAITING
from upthread.surfaces.cli.terminal.input import DECLINED, can_ask, is_agreed, who_acts
from upthread.surfaces.cli.terminal.output import members, members_or_none
from upthread.surfaces.cli.terminal.phrases import counted, one_line

QUESTION = "Agree to this, exactly as it stands here?"


@options.verb
@options.flag("--list", "is_listing", "What was decided about this repository.")
@options.flag("--remove", "is_removing", "Take back all decisions about it.")
@options.yes
@options.dry_run
def main(call: Call, *, is_listing: bool, is_removing: bool) -> int:
    """Show this repository's settings that need your consent, and agree to them.

    Where nobody can be asked, the exit code 4 says that a decision waits for a person.
    """
    if is_listing and is_removing:
        raise UsageError("--list and --remove exclude each other", hint="choose one")
    if is_listing:
        settings = call.trusted_settings()
        return _list(call, settings, decided_of(settings))
    if is_removing:
        return _remove(call)
    # First, so that a model with --yes is refused before anything is read or shown.
    if call.is_yes and not call.is_dry_run:
        refuse_models(who_acts())
    settings = call.trusted_settings()
    pending, output = settings.pending, call.output
    show(pending, output.line)
    is_asked = bool(pending) and not call.is_dry_run
    is_given = is_asked and (call.is_yes or (can_ask(output) and is_agreed(output, QUESTION)))
    if is_given:
        decide_now(settings, is_given=True)
    output.json(
        {
            "repository": settings.repository,
            "is_given": is_given,
            "pending": [
                {
                    **members(each.item, "kind name"),
                    "sha256": each.item.digest,
                    **members(each, "is_declined instead"),
                    "change": "\n".join(change_of(each)),
                }
                for each in pending
            ],
        }
    )
    _tell(call, settings, is_given=is_given)
    if is_given or call.is_dry_run or not pending:
        return 0
    # Without a person the decision waits, so that CI fails and does not continue without it.
    return DECLINED if can_ask(output) else EXIT_WAITING


def _remove(call: Call) -> int:
    settings = call.trusted_settings()
    decided = decided_of(settings)
    if not call.is_dry_run and decided:
        call.confirm("Take all of it back?", declined="")
        take_back(settings, by=who_acts())
    code = _list(call, settings, decided)
    if decided and not call.is_dry_run:
        call.output.line("taken back", "green")
    return code


def _tell(call: Call, settings: Settings, *, is_given: bool) -> None:
    where = one_line(settings.repository)
    if not settings.pending:
        call.output.line(f"{where}: nothing that you have not agreed to")
    elif is_given:
        call.output.line(f"{where}: agreed to {counted(len(settings.pending), 'thing')}", "green")
    else:
        is_model = who_acts().kind == "model"
        how = BY_YOURSELF if is_model else "upthread trust --yes"
        call.output.remark(f"it is ignored until you agree: {how}", "yellow")


def _list(call: Call, settings: Settings, decided: Sequence[Consent]) -> int:
    shapes = [
        {
            **members(each, "kind name sha256 is_given decided_at_ms"),
            "by": members_or_none(each.by, "kind name"),
        }
        for each in decided
    ]
    call.output.json({"repository": settings.repository, "decided": shapes})
    for each in decided:
        said = "agreed" if each.is_given else "declined"
        by = each.by.in_words if each.by else "somebody, before it was recorded who"
        call.output.line(f"{said}  {one_line(each.name)}  sha256 {each.sha256[:16]}  by {by}")
    if not decided:
        call.output.line(f"{one_line(settings.repository)}: nothing was decided")
    return 0
