#!/bin/sh
# Installs what agents.json pins into .agents: the agents, and what checks our pages, each from its package.
# Install scripts stay off: they only copy a binary that the package already ships.
# The Node among them is for claude-agent-acp alone, which takes a newer one than many machines have.
set -eu
cd "$(dirname "$0")/.."
mkdir -p .agents
echo "installing the agents of agents.json into .agents"
cp agents.json .agents/package.json
npm install --prefix .agents --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error
