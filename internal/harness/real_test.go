package harness_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/trace"
)

// Tests with a real CLI need three things, and skip with a message where one is absent:
//
//   - ASSAY_AGENTS: a folder with a folder for each agent, in which npm has installed its CLI;
//   - ASSAY_MODELSERVER: a scripted model server, a Python program that is started with a port, a log folder, and how to
//     find the work folder in a request;
//   - a network namespace that has loopback only, so that no CLI can reach anything but that server:
//     unshare -n sh -c 'ip link set lo up && go test ./internal/harness -run Real'
//
// With ASSAY_SHOW set they print what the CLIs said.

const (
	calcPy    = "def add(a, b):\n    return a - b\n"
	calcFixed = "def add(a, b):\n    return a + b\n"
)

// realAgent returns the path of a CLI.
func realAgent(t *testing.T, folder, program string) string {
	t.Helper()
	root := os.Getenv("ASSAY_AGENTS")
	if root == "" {
		t.Skip("ASSAY_AGENTS does not name a folder of installed agents")
	}
	file := filepath.Join(root, folder, "node_modules/.bin", program)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("no agent %s: %v", program, err)
	}
	needLoopbackOnly(t)
	return file
}

// driveReal drives a real CLI, tells how it fared, and fails when a process of it is left.
func (p *place) driveReal(t *testing.T, h harness.Harness) (harness.Outcome, []trace.Event) {
	t.Helper()
	began := time.Now()
	o, events := p.drive(t, h)
	t.Logf("%s %s in %s, %d swept, version %s, model %s: %s", o.Stop, o.Class, time.Since(began).Round(10*time.Millisecond), o.Swept, o.Version, o.Model, o.Detail)
	if os.Getenv("ASSAY_SHOW") != "" {
		t.Log(p.log.String())
	}
	if len(o.Survivors) > 0 {
		t.Errorf("survivors %q", o.Survivors)
	}
	return o, events
}

// equip gives the task a skill called greeter and instructions.
func (p *place) equip(t *testing.T, description, instructions string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"skills/greeter/SKILL.md": "---\nname: greeter\ndescription: " + description + "\n---\nSay hi nicely.\n",
		"rules.md":                instructions + "\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.Extras.SkillsDir, p.Extras.InstructionsFile = filepath.Join(root, "skills"), filepath.Join(root, "rules.md")
}

// A modelServer is a scripted model server on loopback.
type modelServer struct {
	base string // without a path
	log  string // folder
}

// scriptedModels starts the model server for the length of the test.
func scriptedModels(t *testing.T) modelServer {
	t.Helper()
	program := os.Getenv("ASSAY_MODELSERVER")
	if program == "" {
		t.Skip("ASSAY_MODELSERVER does not name a scripted model server")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on PATH")
	}
	port, log := freePort(t), t.TempDir()
	server := exec.Command(python, "-u", program, fmt.Sprint(port), log, workFolder)
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the model server said %q: %v", line, err)
	}
	waitForPort(t, port)
	return modelServer{fmt.Sprintf("http://127.0.0.1:%d", port), log}
}

// workFolder finds the work folder of a place in a request. Gemini has a folder called work of its own.
const workFolder = `(/[\w.+/-]*/\d{3}/work)(?![\w.+-])`

// waitForPort waits until someone listens: the server does so right after its first line.
func waitForPort(t *testing.T, port int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// url is the base address of a scenario; path is what the agent's dialect has below it.
func (m modelServer) url(scenario, path string) string { return m.base + "/s/" + scenario + path }

// bodies returns the bodies of all requests as they came, in their order.
func (m modelServer) bodies(t *testing.T) [][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.log, "body-*.json"))
	if err != nil {
		t.Fatal(err)
	}
	bodies := make([][]byte, len(files))
	for i, file := range files {
		if bodies[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return bodies
}

// requests returns all requests, in their order.
func (m modelServer) requests(t *testing.T) []map[string]any {
	t.Helper()
	bodies := m.bodies(t)
	requests := make([]map[string]any, len(bodies))
	for i, b := range bodies {
		if err := json.Unmarshal(b, &requests[i]); err != nil {
			t.Fatal(err)
		}
	}
	return requests
}

// heard tells whether a request held the text, escaped as it came.
func (m modelServer) heard(t *testing.T, text string) bool {
	t.Helper()
	for _, b := range m.bodies(t) {
		if bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}

// needLoopbackOnly skips the test where a CLI could reach a network.
func needLoopbackOnly(t *testing.T) {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var others []string
	for _, i := range list {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			others = append(others, i.Name)
		}
	}
	if len(others) > 0 {
		t.Skipf("real agents run in a network namespace with loopback only; this one has %s", strings.Join(others, ", "))
	}
}

// freePort returns a port that is free, as is the next one.
func freePort(t *testing.T) int {
	t.Helper()
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		l.Close()
		if err == nil {
			next.Close()
			return port
		}
	}
	t.Fatal("no two free ports in a row")
	return 0
}
