//go:build !linux

package cli

import "github.com/rogpeppe/go-internal/testscript"

// sit needs Linux, as do the agents that ask.
func sit(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("sit needs Linux") }
