"""`doctor --probe`: what an agent really does about sessions, one line a check."""

from __future__ import annotations

from typing import Final

from msgspec import structs, to_builtins

from upthread.runtime.continuity_probe import CHECKS, Probed
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.consent import STARTING, Needs
from upthread.surfaces.cli.terminal.input import DECLINED, confirm
from upthread.surfaces.cli.terminal.neutral import one_line
from upthread.surfaces.cli.terminal.phrases import counted

_STYLES: Final = {"good": "green", "quirk": "yellow"}


def probe(call: Call, agent: str, *, rate_limit_prompt: str | None, is_yes: bool) -> int:
    """Probe an agent, after asking: it costs two prompts, and leaves a session with the agent."""
    output = call.output
    prompts = "two short prompts" if rate_limit_prompt is None else "three prompts"
    if not output.is_json:
        output.line(
            f"{agent} is started several times and killed once, in an empty directory; {prompts} "
            "go to its model, and its sessions stay with it."
        )
    if not is_yes and not confirm(output, f"Probe {agent}?", declined="nothing was done"):
        return DECLINED
    probed = call.with_project(
        lambda project: project.probe(agent, rate_limit_prompt=rate_limit_prompt),
        needs=Needs(tables=STARTING),
    )
    _show(call, agent, probed)
    return 0


def _show(call: Call, agent: str, probed: Probed) -> None:
    output = call.output
    capabilities = structs.asdict(probed.capabilities)
    quirks = [each for each in probed.findings if each.verdict == "quirk"]
    if output.is_json:
        findings = [
            {**to_builtins(each), "good_is": CHECKS[each.check]} for each in probed.findings
        ]
        output.json(
            {
                "agent": agent,
                "version": probed.capabilities.version,
                "can": [
                    name[4:]
                    for name, can in capabilities.items()
                    if can is True and name.startswith(("can_", "has_"))
                ],
                "quirks": len(quirks),
                "findings": findings,
            }
        )
        return
    output.line(f"{agent} {one_line(probed.capabilities.version)}".rstrip(), "bold")
    for each in probed.findings:
        mark = each.verdict.replace("_", " ")
        output.row(
            (f"{mark:<12}", _STYLES.get(each.verdict, "dim")),
            (f"{each.check}: {one_line(each.seen)}", ""),
        )
        if each.verdict == "quirk":
            output.row((" " * 12, ""), (f"good would be: {CHECKS[each.check]}", "dim"))
    output.line(counted(len(quirks), "quirk"), "yellow" if quirks else "green")
