# Two commands do everything: `make demo` and `make test`.
# Each installs what it needs into .venv and .agents, which git ignores.
PYTHONS := python3.11 python3.12 python3.13 python3.14 python3
IS_NEW := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(firstword $(foreach each,$(PYTHONS),$(shell $(each) -c '$(IS_NEW)' 2>/dev/null && echo $(each))) python3.11)
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: help demo test test-rest test-all live storm new-agents frameworks check soak bench bench-peers recording lock format docs agents clean
help:            ## what can be made
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/ —/'

.venv/app: requirements/app.lock pyproject.toml
	@echo "installing upthread and what it needs into .venv, with $(PYTHON)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/app.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.venv/dev: .venv/app requirements/dev.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@touch $@

.agents/installed: agents.json
	@sh tools/install_agents.sh && touch $@

demo: .venv/app  ## run the main job on the embedded defaults
	$(BIN)/upthread demo

test: .venv/dev agents  ## install what the tests need; run each promise, verb and adapter once
	$(BIN)/python -m tools.run_tests test

agents: .venv/app  ## the real agents, pinned, in .agents (needs Node)
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory .agents/installed; \
	else echo "WARNING: npm was not found, so the tests with real agents will not run"; fi

check: .venv/dev  ## lint, format, types, imports, sizes, words, generated docs, the core's coverage
	$(BIN)/python -m tools.check

docs: .venv/dev  ## write the generated parts of the docs again, and take its pictures
	$(BIN)/python -m tools.generate_docs
	$(BIN)/python -m tools.take_pictures

test-rest: .venv/dev agents  ## what `make test-all` has beyond `make test`
	@failed=0; $(MAKE) --no-print-directory frameworks || failed=1; \
	$(BIN)/python -m tools.run_tests rest || failed=1; exit $$failed

test-all: test test-rest  ## also the pairwise matrices, the frameworks, the real agents

live: .venv/dev agents  ## all tests of the real agents: loopback only, a HOME that is watched
	$(BIN)/python -m tools.run_tests live

storm: .venv/dev agents  ## turns stopped in six ways while they act outwardly, an hour; STOPS=2 for a few
	$(BIN)/python tools/enclosed.py $(BIN)/python -m tools.storm $(if $(STOPS),--stops $(STOPS)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE)) $(if $(AGENTS),--agents $(AGENTS)) \
	  $(if $(WAYS),--ways $(WAYS))
	UPTHREAD_SOAK=1 $(BIN)/python -m pytest tests/live/test_guard_in_agents.py -m ""

new-agents: .venv/dev  ## the same with the newest agents of the npm registry: docs/agents/measured.md
	$(BIN)/python -m tools.new_agents

.frameworks/installed: requirements/frameworks.lock pyproject.toml
	@echo "installing the agent frameworks into .frameworks"
	$(PYTHON) -m venv .frameworks
	.frameworks/bin/python -m pip install --quiet --require-hashes -r requirements/frameworks.lock
	.frameworks/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

frameworks: .venv/dev .frameworks/installed  ## the agent frameworks' own suites, and ours, on our stores for them
	$(BIN)/mypy --python-executable .frameworks/bin/python src/upthread/integrations/*.py
	.frameworks/bin/python -m pytest tests/integrations -n 2 --dist loadgroup -m "not soak" \
	  -o filterwarnings=default

soak: .venv/dev agents frameworks  ## everything: whole matrices, long, random; and mutants
	$(BIN)/python -m tools.run_tests soak
	$(BIN)/python tools/mutants.py --sample 40

bench: .venv/dev  ## our figures beside the raw limit, in one interleaved run
	PYTHONPATH=. $(BIN)/python bench/run.py

bench-peers: .frameworks/installed  ## our stores for the frameworks beside their own, interleaved
	PYTHONPATH=. .frameworks/bin/python bench/frameworks.py

lock:            ## resolve the lock files again
	$(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --no-emit-index-url --no-header --generate-hashes -o requirements/app.lock pyproject.toml requirements/build.in
	$(BIN)/uv pip compile --quiet --no-emit-index-url --no-header --generate-hashes -o requirements/frameworks.lock --group frameworks pyproject.toml requirements/build.in
	$(BIN)/uv pip compile --quiet --no-emit-index-url --no-header --generate-hashes -c requirements/app.lock --group test --group check -o requirements/dev.lock

recording: .venv/dev  ## record the demo for the README again
	$(BIN)/python -m tools.record_demo

format: .venv/dev  ## write the format
	$(BIN)/ruff format . && $(BIN)/ruff check --fix-only .

clean:           ## remove all that make made
	rm -rf .venv .agents .agents-new .frameworks .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
