package sandbox

import (
	"path"
	"strings"
	"time"
)

// VenvParams are the settings of the environment venv.
type VenvParams struct {
	Requirements []string      `yaml:"requirements" doc:"requirements files of the source; when one of them has hashes, every package must have one" rule:"path"`
	Lock         string        `yaml:"lock" doc:"a uv.lock of the source, with its pyproject.toml beside it; needs uv, and takes the place of requirements" rule:"path"`
	Python       string        `yaml:"python" doc:"the interpreter: a program on PATH" default:"python3" rule:"id"`
	Inputs       []string      `yaml:"inputs" doc:"further files and folders of the source that these files name, such as wheels" rule:"path"`
	Timeout      time.Duration `yaml:"timeout" doc:"of the whole step" default:"15m" rule:"above=0s"`
}

func buildVenv(s Settings) (*Environment, error) {
	var p VenvParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	if (p.Lock == "") == (len(p.Requirements) == 0) {
		return nil, s.Fault("requirements", "a venv is made from requirements or from a lock", "name one of them")
	}
	e := &Environment{
		env: map[string]string{"VIRTUAL_ENV": "{env}"}, path: "{env}/bin", tool: "venv", timeout: p.Timeout,
		look:   interpreter(p.Python),
		inputs: append(p.Requirements, p.Inputs...),
		run:    []string{withRequirements(p), compiled},
	}
	if p.Lock != "" {
		e.inputs = append(p.Inputs, p.Lock, path.Join(path.Dir(p.Lock), "pyproject.toml"))
		e.run[0] = withLock(p)
	}
	return e, nil
}

// interpreter prints what of a place decides what a virtual environment holds: python with its platform, and uv.
func interpreter(python string) string {
	return "{ ! command -v uv >/dev/null || uv --version; } && " + python +
		` -c 'import platform, sys, sysconfig; print(sys.version, sys.executable, sysconfig.get_platform(), platform.libc_ver())'`
}

// withRequirements installs packages by uv, or else by pip. Neither compiles: see compiled.
func withRequirements(p VenvParams) string {
	var named, read []string
	for _, name := range p.Requirements {
		named = append(named, shellWord("./"+name))
		read = append(read, "-r "+shellWord("./"+name))
	}
	return `set -eu
set -- ` + strings.Join(read, " ") + `
! grep -qe '--hash=' -- ` + strings.Join(named, " ") + ` || set -- --require-hashes "$@"
if command -v uv >/dev/null; then
	export UV_PYTHON_DOWNLOADS=never
	uv venv --quiet --python ` + p.Python + ` {env}
	uv pip install --quiet --python {env}/bin/python --link-mode copy "$@"
else
	` + p.Python + ` -m venv {env}
	{env}/bin/python -m pip install --quiet --no-input --no-compile --disable-pip-version-check "$@"
fi`
}

// withLock installs what a uv.lock names but the project itself, whose code is the agent's to change.
func withLock(p VenvParams) string {
	return `set -eu
command -v uv >/dev/null || { echo "a uv.lock needs uv, which is not on PATH" >&2; exit 1; }
cd ` + shellWord("./"+path.Dir(p.Lock)) + `
export UV_PYTHON_DOWNLOADS=never UV_PROJECT_ENVIRONMENT={env}
uv sync --quiet --frozen --no-install-project --no-install-workspace --link-mode copy --python ` + p.Python
}

// compiled compiles all packages so that a copy is used as it is: by default a compiled file holds the time of its source,
// and every copy would be compiled again. A file that no Python of today can compile is left alone.
const compiled = `{env}/bin/python -m compileall -qq -f --invalidation-mode checked-hash -s {env} -p ` + standardPlace + `/env {env}/lib || true`

// shellWord quotes a text for sh.
func shellWord(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
