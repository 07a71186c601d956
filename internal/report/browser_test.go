package report

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A real browser opens the page: it asks for nothing else, complains of nothing, and shows every case.
func TestHTMLInABrowser(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	b := demo(t)
	page, err := HTML(b)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "report.html")
	if err := os.WriteFile(name, page, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--enable-logging=stderr", "--user-data-dir="+filepath.Join(dir, "profile"), "--dump-dom", "file://"+name)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, complaints.String())
	}
	for _, c := range b.Metadata.Cases {
		if !strings.Contains(string(dom), c.Case) {
			t.Errorf("the page does not show %s", c.Case)
		}
	}
	for line := range strings.Lines(complaints.String()) {
		if strings.Contains(line, "CONSOLE") || strings.Contains(line, "Refused to") {
			t.Errorf("the browser complains: %s", line)
		}
	}
}
