"""The verb: reads the record and writes it in the form asked for."""

from __future__ import annotations

from typing import Literal, TypeAlias

from upthread.client import Project
from upthread.runtime.audit import Audit
from upthread.surfaces.cli.audit import markdown, shape
from upthread.surfaces.cli.call import Call

AuditFormat: TypeAlias = Literal["md", "json"]


def audit(call: Call, workstream: str, *, form: AuditFormat) -> int:
    """Write the audit. `--json` is the same as `--format json`."""

    async def use(project: Project) -> Audit:
        return await project.audit(workstream)

    record = call.with_project(use)
    if form == "json" or call.output.is_json:
        call.output.json(shape.audit(record))
    else:
        call.output.document(markdown.audit(record))
    return 0
