package cli

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite what the scripts compare with")

// TestMain makes this test binary stand for the programs that the scripts run: assay itself, and an agent with many
// behaviours, most of them bad.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"assay":      mainForTest,
		"fake-agent": func() { os.Exit(fakeAgent(os.Args[1:])) },
	})
}

func mainForTest() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(Main(ctx, os.Args[1:], IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ()}))
}

// TestScripts runs what a user types and sees: one txtar file a behaviour.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("ASSAY_CACHE", env.WorkDir+"/.cache")
			return nil
		},
		Condition: func(cond string) (bool, error) {
			_, err := exec.LookPath(cond)
			return err == nil, nil
		},
		RequireExplicitExec: true,
		UpdateScripts:       *update,
	})
}
