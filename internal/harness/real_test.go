package harness_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Tests with a real CLI need three things, and skip with a message where one is absent:
//
//   - ASSAY_AGENTS: a folder with a folder for each agent, in which npm has installed its CLI;
//   - ASSAY_MODELSERVER: a scripted model server, a Python program that is started with a port and a log folder;
//   - a network namespace that has loopback only, so that no CLI can reach anything but that server:
//     unshare -n sh -c 'ip link set lo up && go test ./internal/harness -run Real'

// realAgent returns the path of a CLI.
func realAgent(t *testing.T, folder, program string) string {
	t.Helper()
	root := os.Getenv("ASSAY_AGENTS")
	if root == "" {
		t.Skip("ASSAY_AGENTS does not name a folder of installed agents")
	}
	file := filepath.Join(root, folder, "node_modules/.bin", program)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("agent %s is not installed: %v", program, err)
	}
	return file
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
		t.Skip("python3 is not installed")
	}
	needLoopbackOnly(t)
	port, log := freePort(t), t.TempDir()
	server := exec.Command(python, program, fmt.Sprint(port), log)
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
	return modelServer{fmt.Sprintf("http://127.0.0.1:%d", port), log}
}

// url is the base address of a scenario.
func (m modelServer) url(scenario string) string { return m.base + "/s/" + scenario }

// requests returns the bodies of all requests, in their order.
func (m modelServer) requests(t *testing.T) []map[string]any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(m.log, "body-*.json"))
	if err != nil {
		t.Fatal(err)
	}
	bodies := make([]map[string]any, len(files))
	for i, file := range files {
		b, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(b, &bodies[i])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return bodies
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
