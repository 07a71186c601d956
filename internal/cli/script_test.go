package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/executor"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite what the scripts and the pages made from tables compare with")

// TestMain makes this test binary stand for the programs that the scripts run: assay itself, and an agent with many
// behaviours, most of them bad.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"assay":      mainForTest,
		"fake-agent": func() { syscall.Exit(fakeAgent(os.Args[1:])) },
	})
}

// quickEnd keeps a program that was built with the race detector from sleeping for a second at its end. Supervisors and
// agents have no environment of ours; they leave by syscall.Exit, which does not wait either.
const quickEnd = "GORACE=atexit_sleep_ms=0"

func mainForTest() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	code := Main(ctx, os.Args[1:], IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ()})
	if len(os.Args) > 1 && os.Args[1] == executor.SuperviseName {
		syscall.Exit(code)
	}
	os.Exit(code)
}

// TestScripts runs what a user types and sees: one txtar file a behaviour. Beside the commands of testscript they have
//
//	exits N PROGRAM ARG...   runs a program that must end with exit code N
//	expand FILE...           fills the variables of the script into files; those that are not set stay
//	serve DIR...             commits each folder to a repository and serves them by git's own server on loopback;
//	                         sets $URL, and for each folder its commit, such as $COMMIT_upstream
//	unserve                  stops that server
//	sit N ANSWERS SCREEN PROGRAM ARG...
//	                         runs a program at a terminal at which somebody types, see there
//	model                    starts a model on loopback that judges and answers, see startModel
//	github                   starts a fake GitHub and its runner, see startGitHub
//
// and the conditions gitserver, which holds where git has brought its server, and agents:NAME,..., which holds where these
// real agents are installed and nothing but loopback can be reached.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, "ASSAY_CACHE="+env.WorkDir+"/.cache", quickEnd)
			for i, kv := range env.Vars {
				if path, ok := strings.CutPrefix(kv, "PATH="); ok {
					env.Vars[i] = "PATH=" + strings.Join(append(agentPrograms(), path), string(os.PathListSeparator))
				}
			}
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":       exits,
			"expand":      expand,
			"serve":       serve,
			"github":      startGitHub(t),
			"samenumbers": sameNumbers,
			"sit":         sit,
			"model":       startModel,
		},
		Condition: func(name string) (bool, error) {
			name, of, _ := strings.Cut(name, ":")
			switch name {
			case "gitserver":
				_, err := gitServer()
				return err == nil, nil
			case "agents":
				return loopbackOnly() && areInstalled(strings.Split(of, ",")), nil
			}
			return false, fmt.Errorf("there is no condition %s", name)
		},
		RequireExplicitExec: true,
		UpdateScripts:       *update,
	})
}

// agentPrograms are the folders of the real agents that tools/agents.sh installed in the folder ASSAY_AGENTS: of those that
// ASSAY_WHICH names, or of all.
func agentPrograms() []string {
	root := os.Getenv("ASSAY_AGENTS")
	if root == "" {
		return nil
	}
	var folders []string
	for _, name := range strings.Fields(cmp.Or(os.Getenv("ASSAY_WHICH"), "*")) {
		found, err := filepath.Glob(programsOf(root, name))
		if err != nil || len(found) == 0 && name != "*" {
			found = []string{programsOf(root, name)} // whoever needs it says that it is absent
		}
		folders = append(folders, found...)
	}
	return folders
}

func programsOf(root, agent string) string { return filepath.Join(root, agent, "node_modules", ".bin") }

func areInstalled(agents []string) bool {
	have := agentPrograms()
	return !slices.ContainsFunc(agents, func(name string) bool {
		folder := programsOf(os.Getenv("ASSAY_AGENTS"), name)
		_, err := os.Stat(folder)
		return err != nil || !slices.Contains(have, folder)
	})
}

// loopbackOnly tells whether there is no network but loopback, so that no agent can reach anything.
func loopbackOnly() bool {
	list, err := net.Interfaces()
	return err == nil && !slices.ContainsFunc(list, func(i net.Interface) bool {
		return i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0
	})
}

// sameNumbers holds two results folders against each other: times aside, their benchmarks must be equal.
func sameNumbers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: samenumbers DIR DIR")
	}
	var texts [2][]byte
	for i, dir := range args {
		f, err := os.Open(ts.MkAbs(filepath.Join(dir, "benchmark.json")))
		ts.Check(err)
		b, err := bench.Read(f)
		f.Close()
		ts.Check(err)
		texts[i], err = json.MarshalIndent(b.WithoutTimes(), "", " ")
		ts.Check(err)
	}
	if diff := gocmp.Diff(string(texts[0]), string(texts[1])); diff != "" {
		ts.Fatalf("%s and %s differ:\n%s", args[0], args[1], diff)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: expand FILE...")
	}
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), func(v string) string { return cmp.Or(ts.Getenv(v), "$"+v) })
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
}

// gitServer is the path of the program by which git serves repositories over http.
func gitServer() (string, error) {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return "", err
	}
	return exec.LookPath(filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"))
}

func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve DIR...")
	}
	program, err := gitServer()
	ts.Check(err)
	const config = "GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*"
	root := ts.MkAbs(".")
	git := func(dir string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, append(strings.Fields(config), "PATH="+ts.Getenv("PATH"), "HOME="+root)
		out, err := cmd.CombinedOutput()
		if err != nil {
			ts.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	for _, name := range args {
		dir := ts.MkAbs(name)
		git(dir, "init", "-q", "-b", "main")
		git(dir, "add", "-A")
		git(dir, "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-q", "--allow-empty", "-m", "all")
		ts.Setenv("COMMIT_"+name, git(dir, "rev-parse", "HEAD"))
	}
	s := httptest.NewServer(&cgi.Handler{
		Path:   program,
		Env:    append(strings.Fields(config), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
		Stderr: io.Discard,
	})
	ts.Defer(s.Close)
	ts.SetCmd("unserve", func(*testscript.TestScript, bool, []string) { s.Close() })
	ts.Setenv("URL", s.URL)
}
