package harness

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/trace"
)

// furniture is what an agent finds in its fresh home. Paths are in folders below HOME; an empty one is a thing that it does not look for.
type furniture struct {
	config       string // the file of its settings
	content      string // of that file
	instructions string // where it looks for standing instructions
	skills       string // where it looks for skills, one folder each
}

// furnish lays the settings of an agent and the parts of the condition in its home. The folder of the settings is made
// afresh: what the setup of a case left there is no part of the condition. It lies outside the work folder, so it goes
// through a command.
func furnish(ctx context.Context, t Task, f furniture) error {
	const script = `cd -- "$1" || exit
if [ -n "$2" ]; then rm -rf -- "${2%/*}" && mkdir -p -- "${2%/*}" && cat >"$2" || exit; fi
if [ -n "$3" ] && [ -n "$4" ]; then mkdir -p -- "${4%/*}" && cp -- "$3" "$4" || exit; fi
if [ -n "$5" ] && [ -n "$6" ]; then mkdir -p -- "$6" && cp -R -- "$5/." "$6/" || exit; fi`
	return lay(ctx, t, "the settings of the agent", f.content, script,
		t.Home, f.config, t.Extras.InstructionsFile, f.instructions, t.Extras.SkillsDir, f.skills)
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
		err = fmt.Errorf("exit %d: %s", ex.Code, printable(said.String()))
	}
	if err != nil {
		return fmt.Errorf("lay %s: %w", what, err)
	}
	return nil
}
