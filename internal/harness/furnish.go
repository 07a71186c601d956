package harness

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/trace"
)

// furniture is what an agent finds in its fresh home. Paths are absolute in the place.
type furniture struct {
	config       string // the file of its settings
	content      string // of that file
	instructions string // where it looks for standing instructions
	skills       string // where it looks for skills, one folder each
}

// furnish lays the settings of an agent and the parts of the condition in its home. These folders lie outside the work
// folder, so it goes through a command.
func furnish(ctx context.Context, t Task, f furniture) error {
	const script = `mkdir -p -- "$1" && cat >"$2" || exit
if [ -n "$3" ]; then mkdir -p -- "$4" && cp -- "$3" "$5" || exit; fi
if [ -n "$6" ]; then mkdir -p -- "$7" && cp -R -- "$6/." "$7/" || exit; fi`
	return lay(ctx, t, "the settings of the agent", f.content, script, path.Dir(f.config), f.config,
		t.Extras.InstructionsFile, path.Dir(f.instructions), f.instructions, t.Extras.SkillsDir, f.skills)
}

// lay runs a line of sh in the place that puts something of ours outside the work folder, where Files does not reach. what
// names it in an error.
func lay(ctx context.Context, t Task, what, stdin, line string, args ...string) error {
	said := trace.NewTail(400)
	ex, err := t.Exec.Run(ctx, executor.Command{
		Argv:    append([]string{"sh", "-c", "umask 077\n" + line, "sh"}, args...),
		Stdin:   strings.NewReader(stdin),
		Stderr:  said,
		Timeout: time.Minute,
	})
	if err == nil && (ex.Code != 0 || ex.Signal != "") && ctx.Err() == nil {
		err = fmt.Errorf("exit %d: %s", ex.Code, oneLine(said.String()))
	}
	if err != nil {
		return fmt.Errorf("lay %s: %w", what, err)
	}
	return nil
}

// agentEnv is the environment of an agent's program: what the settings name, then what case and condition name, and
// last what leads the agent to its home and its models, which nobody may turn elsewhere.
func agentEnv(t Task, settings map[string]string, ours ...string) []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		env = append(env, name+"="+settings[name])
	}
	env = slices.Concat(env, t.Env, ours)
	last := map[string]string{}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		last[name] = kv
	}
	env = env[:0]
	for _, name := range slices.Sorted(maps.Keys(last)) {
		env = append(env, last[name])
	}
	return env
}

// checkProgram finds a program without a name.
func checkProgram(name string, s Settings) error {
	if name == "" {
		return s.Fault("program", "program must not be empty", "leave it out for the usual name")
	}
	return nil
}

// probeProgram looks for the program of an agent and asks it for its version.
func probeProgram(
	ctx context.Context, program, install string, look func(string) (string, error), run func(context.Context, []string) (string, error),
) (version string, err error) {
	if path.IsAbs(program) || !strings.Contains(program, "/") {
		if _, err := look(program); err != nil {
			return "", fmt.Errorf("agent %s: %w; install it with %s, or name it in program", program, err, install)
		}
	}
	out, err := run(ctx, []string{program, "--version"})
	if err != nil {
		return "", fmt.Errorf("version of agent %s: %w", program, err)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(out, "\uFFFD")), "\n")
	return line, nil
}
