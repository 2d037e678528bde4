"""Elicitation: a person is asked what a role wants to know, by the protocol's own request.

Since 2026-07-28 a tool answers that input is required and is called again with it; before, the
server asks while the call is open. A client that can ask nobody gets the questions, as `waiting`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from mcp.server.mcpserver import Context
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
)
from mcp_types.version import is_version_at_least

from upthread.surfaces.mcp_server.delegations import WAITING, Delegated, Delegations

INPUT_REQUIRED_SINCE: Final = "2026-07-28"
ROUNDS_MAX: Final = 3
"""How often a role may ask again within one call; then its questions are handed back."""

KEY: Final = "questions"

AnyContext: TypeAlias = Context[Any, Any]


async def with_answers(
    context: AnyContext, delegations: Delegations, stands: Delegated
) -> Delegated | InputRequiredResult:
    """Return how a delegation stands once a person has been asked, as far as one can be."""
    # Asked once and not answered: to ask again would be a question without end.
    is_declined = context.request_state is not None and _brought(context) is None
    if stands.status != WAITING or not _can_ask(context) or is_declined:
        return stands
    whose = delegations.address(stands.handle)
    if _is_called_again(context):
        asked = ElicitRequest(params=_form(whose, stands))
        return InputRequiredResult(input_requests={KEY: asked}, request_state=stands.handle)
    for _ in range(ROUNDS_MAX):
        form = _form(whose, stands)
        told = await context.session.elicit_form(
            form.message, form.requested_schema, context.request_id
        )
        answers = _answers(told)
        if answers is None:
            return stands
        stands = await delegations.answer(stands.handle, answers)
        if stands.status != WAITING:
            break
    return stands


async def resumed(context: AnyContext, delegations: Delegations) -> Delegated | None:
    """Return how a delegation stands whose answers a call has brought, None for a first call."""
    handle = context.request_state
    if handle is None:
        return None
    answers = _brought(context)
    if answers is None:
        return await delegations.wait(handle)
    return await delegations.answer(handle, answers)


def client_name(context: AnyContext) -> str:
    """Return what the client calls itself; nobody has checked it."""
    known = context.session.client_params
    return known.client_info.name if known is not None else "a client without a name"


def _can_ask(context: AnyContext) -> bool:
    capabilities = context.client_capabilities
    asking = capabilities.elicitation if capabilities is not None else None
    # `elicitation: {}`, as it was before there were two modes, is a form.
    return asking is not None and (asking.form is not None or asking.url is None)


def _is_called_again(context: AnyContext) -> bool:
    version = context.protocol_version
    return version is not None and is_version_at_least(version, INPUT_REQUIRED_SINCE)


def _brought(context: AnyContext) -> Mapping[str, str] | None:
    """Return the answers that a call has brought; None when a person gave none."""
    return _answers((context.input_responses or cast("InputResponses", {})).get(KEY))


def _form(whose: str, stands: Delegated) -> ElicitRequestFormParams:
    texts = {name: {"type": "string", "title": text} for name, text in stands.questions.items()}
    return ElicitRequestFormParams(
        message=f"{whose} asks:\n" + "\n".join(stands.questions.values()),
        requested_schema={"type": "object", "properties": texts, "required": list(texts)},
    )


def _answers(told: object) -> Mapping[str, str] | None:
    """Return what a person answered, by question; None when nobody did."""
    if not isinstance(told, ElicitResult) or told.action != "accept":
        return None
    return {name: str(value) for name, value in (told.content or {}).items()}
