package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// obeyed lists the commands of a step's output that the runner of GitHub Actions would carry out. It knows both forms, and
// that a line may be ended by a carriage return. stopped are the words of which commands were off, in their order.
func obeyed(output string) (commands, stopped []string) {
	modern, old := regexp.MustCompile(`^\s*::([^ :]+)[^:]*::`), regexp.MustCompile(`##\[[a-zA-Z-]+`)
	stop := ""
	for _, line := range regexp.MustCompile(`\r\n|\r|\n`).Split(output, -1) {
		m := modern.FindStringSubmatch(line)
		switch word, ok := strings.CutPrefix(strings.TrimSpace(line), "::stop-commands::"); {
		case stop != "":
			if strings.TrimSpace(line) == "::"+stop+"::" {
				stop = ""
			}
			if old.MatchString(line) {
				commands = append(commands, line) // who knows
			}
		case ok:
			stop, stopped = word, append(stopped, word)
		case m != nil, old.MatchString(line):
			commands = append(commands, line)
		}
	}
	return commands, stopped
}

// attacks are what an agent prints to be obeyed: by the runner, by a terminal, or by a reader.
const attacks = "::add-mask::PWNED\n  ::error file=PWNED::x\n##[error]PWNED\nx\r::warning::PWNED\r\n#\u200b#[group]PWNED\n" +
	"::stop-commands::PWNED\n::PWNED::\n::set-output name=PWNED::x\n\x1b[2J\u202ePWNED\u2066\u200d\n"

// a25Suite has an agent that writes attacks into whatever assay tells of it: what it says, its errors, the names and texts of
// its files; and a grader that does the same.
const a25Suite = `
-- suite/suite.yaml --
name: a25
retries: 1
matrix:
  harnesses:
    - {id: says, type: command, stdin: prompt, argv: [sh, ATTACK, "0"]}
    - {id: fails, type: command, stdin: prompt, argv: [sh, ATTACK, "7"]}
    - {id: killed, type: command, stdin: prompt, argv: [sh, ATTACK, kill]}
  conditions: [{id: only, baseline: true}]
  trials: 1
limits: {timeout: 1m}
-- suite/look/case.yaml --
id: look
prompt: Do it.
source: {path: fixture}
assertions:
  - {id: correct, type: files, present: ["^FIXED"], absent: ["PWNED"]}
  - {id: scope, type: diff_scope, max_files_touched: 0}
  - {id: shown, type: command, run: "cat attacks; cat attacks >&2; exit 1"}
-- suite/look/fixture/answer.txt --
BROKEN
-- attack.sh --
set -f
text=$(cat ATTACKS)
printf '%s' "$text" > attacks
printf '%s' "$text" > answer.txt
: > "::error::PWNED"
: > "##[error]PWNED"
: > "a
::warning::PWNED
b"
: > "$(printf '\342\200\256PWNED\033[2J')"
printf '%s\n' "$text"
printf '%s\n' "$text" >&2
[ "$1" = kill ] && kill -9 $$
exit $1
`

// TestA25 has agents print commands to the runner of GitHub Actions in all that assay tells of them, as a step of the action
// and as a command in one: none is obeyed, and nothing a terminal would obey is printed.
func TestA25(t *testing.T) {
	t.Parallel()
	y := newYard(t, "")
	y.lay(strings.NewReplacer("ATTACKS", y.path("attacks"), "sh, ATTACK,", "sh, "+y.path("attack.sh")+",").Replace(a25Suite))
	y.write("attacks", attacks)
	for _, name := range []string{"::error::PWNED", "##[error]PWNED", "a\n::warning::PWNED\nb", "\u202ePWNED\x1b[2J"} {
		y.write("evil/"+name, attacks)
	}
	hub := httptest.NewServer(http.NotFoundHandler())
	defer hub.Close()
	action := y.told([]string{
		"GITHUB_REPOSITORY=owner/name", "INPUT_MODE=auto", "INPUT_SUITE=suite", "INPUT_OUT=out", "INPUT_BASELINE=none", "GITHUB_WORKSPACE=" + y.dir,
		"GITHUB_API_URL=" + hub.URL, "GITHUB_EVENT_NAME=push",
	})
	commands, stopped := obeyed(action)
	for _, c := range commands {
		t.Errorf("the runner would obey %q", c)
	}
	if len(stopped) == 0 || len(stopped[0]) < 26 || strings.Contains(strings.Join(stopped, " "), "PWNED") {
		t.Errorf("commands were not off under a word that nobody can guess: %q", stopped)
	}
	for line := range strings.Lines(action) {
		if !strings.HasPrefix(line, "│ ") && strings.Contains(line, "PWNED") {
			t.Errorf("an agent's text stands at the beginning of a line: %q", line)
		}
	}
	told := []string{action}
	for _, args := range [][]string{
		{"run", "suite", "--out", "again"}, {"grade", "again", "suite"}, {"trace", "again", "look/says/none/only/1"}, {"report", "again"},
		{"compare", "again", "out"}, {"diff", "suite/look/fixture", "evil"},
	} {
		out := y.told(nil, args...)
		if commands, _ := obeyed(out); len(commands) > 0 {
			t.Errorf("assay %v: the runner would obey %q", args, commands)
		}
		told = append(told, out)
	}
	all := strings.Join(told, "\n")
	for _, bad := range []string{"\x1b", "\u202e", "\u2066", "\u200d"} {
		if strings.Contains(all, bad) {
			t.Errorf("%q was printed: %q", bad, lineWith(all, bad))
		}
	}
	if n := strings.Count(all, "PWNED"); n < 3 {
		t.Errorf("only %d texts of agents were printed, so little was tested:\n%s", n, all)
	}
}

// told is all that one call of assay prints.
func (y *yard) told(env []string, args ...string) string {
	y.Helper()
	cmd := exec.Command(y.path("bin", "assay"), args...)
	cmd.Dir = y.dir
	cmd.Env = append([]string{
		"PATH=" + y.path("bin") + ":/usr/local/bin:/usr/bin:/bin", "TMPDIR=" + y.path("tmp"), "HOME=" + y.path("tmp"), "ASSAY_CACHE=" + y.path("cache"),
		"GITHUB_ACTIONS=true",
	}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	y.Logf("assay %s: %v\n%s", strings.Join(args, " "), err, &out)
	return out.String()
}

func lineWith(text, part string) string {
	at := strings.Index(text, part)
	from := strings.LastIndexByte(text[:at], '\n') + 1
	line, _, _ := strings.Cut(text[from:], "\n")
	return line
}
