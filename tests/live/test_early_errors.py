"""A person's mistake about a real agent ends the turn with the agent's own words."""

import json

import pytest
from tests.live import opencode
from tests.live.asked import last_request
from tests.live.shell import ADDRESS, PATIENCE_S, only, wait_until
from tests.support.sets import EXTENDED, spread

pytestmark = [pytest.mark.live, EXTENDED, pytest.mark.timeout(300)]


def break_configuration(shell) -> None:
    (shell.home / ".codex" / "config.toml").write_text("model = = what\n")


def without(variable: str):
    return lambda shell: shell.environment.pop(variable)


def change_nothing(_shell) -> None:
    """The prompt itself makes the provider refuse the model."""


MISTAKES = {
    "codex-configuration": ("codex", break_configuration, "unknown", "config.toml"),
    "codex-key": ("codex", without("REHEARSAL_API_KEY"), "unknown", "REHEARSAL_API_KEY"),
    "codex-model": ("codex", change_nothing, "unknown", "gpt-none"),
    "claude-key": ("claude-code", without("ANTHROPIC_API_KEY"), "auth", "/login"),
    "claude-model": ("claude-code", change_nothing, "unknown", "model"),
}


@pytest.mark.parametrize(("name", "spoil", "reason", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_ends_the_turn_at_once_in_the_agents_own_words(shell, spoil, reason, says):
    """The prompt's own deadline is an hour; a start of the agent takes some of the patience."""
    shell.patience_s = PATIENCE_S
    spoil(shell)
    prompt = "Plan. [[FAIL 404 no such model: gpt-none]]"
    ended = only(shell.lines("tell", ADDRESS, prompt, exit_code=None), "turn_ended")
    stopped = ended["parked"] or {"reason": ended["outcome"], "detail": ended["detail"]}
    assert stopped["reason"] == reason
    assert says in stopped["detail"]


@EXTENDED
@pytest.mark.parametrize("name", ["claude-code"])
def test_a_prompt_that_a_persons_hook_blocks_is_told_in_its_words_and_not_told_again(shell, model):
    shell.tell("Plan.")
    settings = shell.home / ".claude" / "settings.json"
    blocking = {"type": "command", "command": "echo 'every prompt needs a ticket' >&2; exit 2"}
    settings.write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [blocking]}]}}))
    blocked = only(shell.lines("tell", ADDRESS, "Blocked words.", exit_code=None), "turn_ended")
    assert blocked["detail"] == "refusal: every prompt needs a ticket"
    settings.unlink()
    assert shell.tell("Go on.")["reasons"] == ["unchanged"]
    assert "Blocked words." not in last_request(model)


WITHOUT_A_NETWORK = {
    "codex": "Reconnecting... ",
    "claude-code": "no answer from its provider",
    "opencode": "",
}


@pytest.mark.parametrize(
    "name", spread(WITHOUT_A_NETWORK, first=0, extended=["codex", "claude-code"])
)
def test_an_agent_without_a_network_tells_meanwhile_that_it_tries_again(name, shell, model) -> None:
    address, nobody_listens = model.openai_base_url.removesuffix("/v1"), "http://127.0.0.1:9"
    shell.environment["CLAUDE_CODE_MAX_RETRIES"] = "10"
    for variable, value in shell.environment.items():
        shell.environment[variable] = value.replace(address, nobody_listens)
    for configuration in shell.home.glob(".codex/config.toml"):
        text = configuration.read_text()
        configuration.write_text(text.replace(address, nobody_listens))
    running = shell.start("tell", ADDRESS, "Plan.")
    assert running.stdout is not None
    told: list[str] = []
    repeated = 0
    with running, running.stdout:
        for line in map(json.loads, running.stdout):
            told += [line["text"]] if line.get("kind") == "agent_retries" else []
            repeated += line.get("unknown_kind") == "retry"
            if repeated == 2:  # Codex waits for a network as long as it is left alone
                shown = wait_until(lambda: shell.one("show", "spec-42")["standing"]["detail"], "it")
                listed = shell.run(*shell.command("ls"))
                running.terminate()
                break
    (only_once,) = told
    assert only_once.startswith(f"{name}: {WITHOUT_A_NETWORK[name]}")
    assert only_once.endswith(shown)
    assert f"spec-42: {shown[:40]}" in listed


@EXTENDED
@pytest.mark.parametrize("name", ["opencode"])
def test_a_question_that_nobody_is_there_to_answer_is_told_and_is_no_answer(shell, model):
    question = {"question": "Blue or red?", "header": "Colour", "options": []}
    told = shell.tell(opencode.call("question", questions=[question]), exit_code=1)
    assert "Blue or red?" in told["detail"]
    assert "Blue or red?" in json.dumps(shell.one("show", ADDRESS))
