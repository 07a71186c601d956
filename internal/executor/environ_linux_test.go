package executor

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestEnvironmentIsHidden starts this program with a secret. TestMain has hardened it before it looks.
func TestEnvironmentIsHidden(t *testing.T) {
	const secret = "canary-5be1c2a7"
	if os.Getenv("A_KEY") != secret {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.run=^TestEnvironmentIsHidden$", "-test.v")
		cmd.Env = []string{"A_KEY=" + secret, "EMPTY=", tokenName + "=mark", "LAST=" + secret}
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("looked at it")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	start, end, err := environmentBlock()
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, end-start)
	if err := transfer(unix.ProcessVMReadv, block, start); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // who is not root cannot read even its own, once it is not dumpable
		shown, err := os.ReadFile("/proc/self/environ")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(shown, block) {
			t.Errorf("the kernel shows %q, and we looked at %q", shown, block)
		}
	}
	const want = "A_KEY=\x00EMPTY=\x00ASSAY_CELL=mark\x00LAST=\x00" // each value is as many NUL bytes
	if got := squeezed(string(block)); got != want {
		t.Errorf("the environment is %q, want %q", got, want)
	}
	t.Log("looked at it")
}

func squeezed(s string) string {
	for strings.Contains(s, "\x00\x00") {
		s = strings.ReplaceAll(s, "\x00\x00", "\x00")
	}
	return s
}
