"""The names of OpenTelemetry's conventions for generative AI that we use, as they were read.

From open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-agent-spans.md and
gen-ai-spans.md, at COMMIT. All of them are still in development there, and the constants of the
Python package are deprecated: so they stand here, and are read again when they change. Ours begin
with `upthread.`.
"""

from __future__ import annotations

from typing import Final

COMMIT: Final = "002c8a6ea1c8a42b14a4527db83b3cabcded610a"

INVOKE_WORKFLOW: Final = "invoke_workflow"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"

OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
AGENT_ID: Final = "gen_ai.agent.id"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"

TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
"""What was said: told only where somebody asks for it."""

SESSION_ID: Final = "session.id"
"""OpenInference's name for a conversation, which viewers group by."""

WORKSTREAM: Final = "upthread.workstream"
ADDRESS: Final = "upthread.address"
ROLE: Final = "upthread.role"
RUN_ID: Final = "upthread.run_id"
TURN_ID: Final = "upthread.turn_id"
TURN_NUMBER: Final = "upthread.turn_number"
DECISION: Final = "upthread.decision"
REASONS: Final = "upthread.reasons"
UPSTREAM_SESSION_ID: Final = "upthread.upstream_session_id"
OUTCOME: Final = "upthread.outcome"
STATUS: Final = "upthread.status"
TOOL_TITLE: Final = "upthread.tool.title"
EFFECT: Final = "upthread.effect"
IS_OUTWARD: Final = "upthread.effect.is_outward"
PERMISSION: Final = "upthread.permission"
