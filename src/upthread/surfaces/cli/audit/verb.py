"""The verb: reads the record and writes it in the form asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, cast

from upthread.client import Project
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import JsonValue
from upthread.runtime.record.audit import Audit
from upthread.surfaces.cli.audit import markdown, shape
from upthread.surfaces.cli.call import Call
from upthread.surfaces.cli.terminal.output import plain

AuditFormat: TypeAlias = Literal["md", "json"]


def audit(call: Call, workstream: str, *, form: AuditFormat) -> int:
    """Write the audit. `--json` is the same as `--format json`."""

    async def use(project: Project) -> tuple[Audit, Redactor]:
        return await project.audit(workstream), project.redactor

    record, redactor = call.with_project(use, is_reading=True)
    # Also of a record that is kept in full: an audit is made to be shown to others.
    if form == "json" or call.output.is_json:
        told = cast("Mapping[str, JsonValue]", plain(shape.audit(record)))
        call.output.json(cast("Mapping[str, object]", redactor.redact_json(told)))
    else:
        call.output.document(redactor.redact(markdown.audit(record)))
    return 0
