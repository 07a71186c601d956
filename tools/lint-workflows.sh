#!/bin/sh
# Lints action.yml, our workflows, the workflows in docs/github and those inside of Markdown pages, with three linters that
# find different things: actionlint (expressions, inputs, shell), action-validator (GitHub's schemas) and zizmor (security).
# What the first run has to install from npm and PyPI is pinned and stays in .cache. Ends with 1 if anything was found.
set -eu
cd "$(dirname "$0")/.."
zizmor=1.32.0
validator=0.6.0
root=$PWD
tools=$root/.cache/lint
tree=$tools/tree

if ! "$tools/python/bin/zizmor" --version 2>/dev/null | grep -qxF "zizmor $zizmor"; then
	python3 -m venv "$tools/python"
	"$tools/python/bin/pip" install --quiet --disable-pip-version-check "zizmor==$zizmor"
fi
if ! grep -qF "\"version\": \"$validator\"" "$tools/node_modules/@action-validator/cli/package.json" 2>/dev/null; then
	npm install --silent --no-audit --no-fund --ignore-scripts --no-save --prefix "$tools" \
		"@action-validator/core@$validator" "@action-validator/cli@$validator"
fi

# All is linted in a copy of the tree that holds nothing else. There the documented workflows name our action by ./, so that
# actionlint holds every input and output that they use against action.yml.
rm -rf "$tree"
mkdir -p "$tree/.git" "$tree/.github/workflows" "$tree/docs/github"
cp action.yml Dockerfile "$tree"
cp .github/workflows/*.yml "$tree/.github/workflows"
cp docs/github/*.yml "$tree/docs/github"

# blocks writes each YAML block of a Markdown page that holds a workflow to a file of its own.
blocks() {
	awk -v out="$2" '
		/^```ya?ml$/ && !inside { inside = 1; text = ""; flow = 0; line = NR; next }
		/^```$/ && inside       { inside = 0; if (flow) print text > sprintf("%s-%d.yml", out, line); next }
		inside                  { text = text $0 "\n"; if ($0 == "jobs:") flow = 1 }
		END                     { if (inside) { print "a block has no end" > "/dev/stderr"; exit 1 } }
	' "$1"
}
blocks README.md "$tree/README.md"
blocks docs/github/README.md "$tree/docs/github/README.md"

found=0
cd "$tree"
# shellcheck disable=SC2046 # no name holds a blank
set -- $(find . -name '*.yml' ! -path ./action.yml | sed 's|^\./||' | sort)
"$tools/python/bin/zizmor" --offline --pedantic --quiet --config "$root/.github/zizmor.yml" action.yml "$@" || found=1
sed -i.bak 's|assay-ci/assay@v1|./|' "$@"
go tool -modfile="$root/tools/go.mod" actionlint "$@" || found=1
# The schema inside of action-validator is older than this permission.
sed -i.bak '/^ *attestations: write/d' "$@"
for file in action.yml "$@"; do
	"$tools/node_modules/.bin/action-validator" "$file" || found=1
done

[ "$found" = 0 ] && verdict='nothing found in' || verdict='looked at'
echo "actionlint, action-validator $validator, zizmor $zizmor: $verdict" action.yml "$@"
exit "$found"
