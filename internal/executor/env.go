package executor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// inherited names all that a place takes over from the host.
var inherited = []string{"PATH", "LANG", "LC_ALL", "TZ"}

// tokenName is the variable by which processes of a place are recognised; its value is the place's token.
const tokenName = "ASSAY_CELL"

// ForbiddenEnv reports whether an environment variable never enters a place, even when a suite names it: it carries
// credentials of the host, or speaks to the CI service that runs us, or is ours.
func ForbiddenEnv(name string) bool {
	for _, prefix := range []string{"GITHUB_", "ACTIONS_", "RUNNER_", "INPUT_", "DOCKER_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, "_TOKEN") || name == "SSH_AUTH_SOCK" || name == tokenName
}

// placeEnv is the environment that every command of a place starts from.
func placeEnv(o HostOptions) (map[string]string, error) {
	env := map[string]string{}
	for _, v := range o.Host {
		if name, value, ok := strings.Cut(v, "="); ok && slices.Contains(inherited, name) {
			env[name] = value
		}
	}
	env["TERM"] = "dumb"
	env["HOME"] = cmp.Or(o.inside.Home, o.Home)
	env["TMPDIR"] = cmp.Or(o.inside.Tmp, o.Tmp)
	env["GIT_CONFIG_GLOBAL"] = "/dev/null"
	env["GIT_CONFIG_NOSYSTEM"] = "1"
	env[tokenName] = o.Token
	return env, addEnv(env, o.Env)
}

// addEnv sets what vars name; the last value of a name wins.
func addEnv(env map[string]string, vars []string) error {
	for _, v := range vars {
		name, value, ok := strings.Cut(v, "=")
		switch {
		case !ok || name == "":
			return fmt.Errorf("environment %q: want NAME=value", v)
		case strings.ContainsRune(v, 0):
			return fmt.Errorf("environment variable %q holds a NUL byte", name)
		case ForbiddenEnv(name):
			return fmt.Errorf("environment variable %s never enters a place; choose another name", name)
		}
		env[name] = value
	}
	return nil
}

// listEnv returns NAME=value, sorted by name.
func listEnv(env map[string]string) []string {
	vars := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		vars = append(vars, name+"="+env[name])
	}
	return vars
}
