// Command assay runs regression tests for coding agents. See the README, or assay --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/assay-ci/assay/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once; the ledger is whole at any moment
	debug.SetGCPercent(200)      // what lives is a few MiB: collecting half as often costs little memory and saves time
	os.Exit(cli.Main(ctx, os.Args[1:], cli.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ()}))
}
