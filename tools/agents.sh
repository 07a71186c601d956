#!/bin/sh
# Installs the agents that Assay drives, at the versions that its tests are written for, each in a folder of its own:
# tools/agents.sh DIR [AGENT...]. What is there already stays. All six need 1.4 GB.
set -eu
dir=$1
shift
test $# -gt 0 || set -- claude codex gemini opencode claude-acp codex-acp
for agent; do
	case $agent in
	claude) package=@anthropic-ai/claude-code@2.1.197 ;;
	codex) package=@openai/codex@0.169.0 ;;
	gemini) package=@google/gemini-cli@0.61.0 ;;
	opencode) package=opencode-ai@1.18.33 ;;
	claude-acp) package=@agentclientprotocol/claude-agent-acp@0.49.0 ;;
	codex-acp) package=@zed-industries/codex-acp@0.16.0 ;;
	*) echo "tools/agents.sh: no agent is named $agent" >&2; exit 2 ;;
	esac
	test -e "$dir/$agent/node_modules" && continue
	mkdir -p "$dir/$agent"
	npm install --prefix "$dir/$agent" --no-audit --no-fund --silent "$package"
done
