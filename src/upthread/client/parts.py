"""What a project was opened with, and what is made of its settings. Each call is made of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from upthread.config import Settings
from upthread.core.actors import Actor
from upthread.core.redaction.redactor import Redactor
from upthread.core.types import ProjectId, RecordMode
from upthread.runtime.lease import LeaseTimes
from upthread.runtime.record.project_store import RecordPolicy
from upthread.runtime.system import System
from upthread.store.base import Store

if TYPE_CHECKING:
    from upthread.runtime.permissions.policy import AskPerson


class ProjectParts(Struct, frozen=True, kw_only=True):
    """One open project.

    `ask_person` is None where nobody is there to ask, `lease_times` None for the usual ones.
    `store` shows this project alone, and keeps what `policy` says; `notices_at_rest` are what was
    found and put right when it was opened.
    """

    store: Store
    system: System
    settings: Settings
    project_id: ProjectId
    environment: Mapping[str, str]
    ask_person: AskPerson | None
    actor: Actor
    lease_times: LeaseTimes | None
    redactor: Redactor
    policy: RecordPolicy
    notices_at_rest: tuple[str, ...] = ()


def record_policy(settings: Settings) -> RecordPolicy:
    """Return what is recorded in a project, by role."""
    roles: dict[str, RecordMode] = {
        name: role.record for name, role in settings.roles.items() if role.record is not None
    }
    return RecordPolicy(mode=settings.record, roles=roles)


def redactor_for(settings: Settings, key: bytes) -> Redactor:
    """Return a project's redactor. Raises ConfigError for a rule that is none."""
    own = settings.redaction
    if not own.rules:
        return Redactor(key, allowed=own.allow)
    from upthread.core.redaction.rules import rules_of  # noqa: PLC0415  # a hook may redact nothing

    return Redactor(key, rules=rules_of(own.rules), allowed=own.allow)
