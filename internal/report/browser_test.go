package report

import (
	"bytes"
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"
)

// browse opens a page in a real browser and returns what it writes to its output and what it complains about. The test
// is skipped when there is no browser.
func browse(t *testing.T, page []byte, args ...string) (out, complaints string) {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "page.html")
	if err := os.WriteFile(name, page, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	args = append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
		"--enable-logging=stderr", "--user-data-dir=" + filepath.Join(dir, "profile")}, args...)
	cmd := exec.CommandContext(ctx, browser, append(args, "file://"+name)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	data, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, stderr.String())
	}
	return string(data), stderr.String()
}

// A real browser opens the page: it asks for nothing else, complains of nothing, and shows every case.
func TestHTMLInABrowser(t *testing.T) {
	b := demo(t)
	page, err := HTML(b)
	if err != nil {
		t.Fatal(err)
	}
	dom, complaints := browse(t, page, "--dump-dom")
	for _, c := range b.Metadata.Cases {
		if !strings.Contains(dom, c.Case) {
			t.Errorf("the page does not show %s", c.Case)
		}
	}
	for line := range strings.Lines(complaints) {
		if strings.Contains(line, "CONSOLE") || strings.Contains(line, "Refused to") {
			t.Errorf("the browser complains: %s", line)
		}
	}
}

//go:embed testdata/github.css
var githubCSS string

// alertStart is how an alert of GitHub's Markdown looks to one that does not know it.
var alertStart = regexp.MustCompile(`<blockquote>\s*<p>\[!([A-Z]+)\]\n?`)

// onGitHubs is a comment as GitHub shows it, about: its Markdown with alerts, in a box. The picture says that its numbers
// are invented.
func onGitHubs(t *testing.T, comment []byte, theme string) []byte {
	t.Helper()
	var body bytes.Buffer
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()))
	if err := md.Convert(comment, &body); err != nil {
		t.Fatal(err)
	}
	shown := alertStart.ReplaceAllStringFunc(body.String(), func(s string) string {
		kind := alertStart.FindStringSubmatch(s)[1]
		return `<blockquote class="alert ` + kind + `"><p class="kind">` + kind[:1] + strings.ToLower(kind[1:]) + `</p><p>`
	})
	return []byte(`<!doctype html><html lang="en" data-theme="` + theme + `"><meta charset="utf-8"><title>comment</title><style>` + githubCSS + `</style>
<div class="comment"><div class="by"><b>assay</b> <span class="bot">bot</span> commented, an example with invented numbers</div><div class="body">` + shown + `</div></div>
<script>document.title = [...document.querySelectorAll(".body table")].filter(t => t.getBoundingClientRect().right > document.querySelector(".body").getBoundingClientRect().right - 16).length + " wide of " + document.querySelectorAll(".body table").length</script>`)
}

// The documented comments, as a browser draws them. With -update the pictures in docs/img are drawn again.
func TestCommentInABrowser(t *testing.T) {
	all := states(t)
	for _, shot := range []struct{ state, theme, file, size string }{
		{"example", "light", "comment-light.png", "960,1390"},
		{"example", "dark", "comment-dark.png", "960,1390"},
		{"running", "light", "comment-running.png", "960,250"},
		{"first_run", "light", "comment-first-run.png", "960,500"},
	} {
		page := onGitHubs(t, all[shot.state].Comment(CommentBudget), shot.theme)
		dom, _ := browse(t, page, "--window-size="+shot.size, "--dump-dom")
		if !strings.Contains(dom, "<title>0 wide of ") {
			t.Errorf("a table of %s does not fit its box: %s", shot.state, dom[:min(len(dom), 200)])
		}
		if !*update {
			continue
		}
		if err := os.MkdirAll("../../docs/img", 0o755); err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Abs("../../docs/img/" + shot.file)
		if err != nil {
			t.Fatal(err)
		}
		browse(t, page, "--window-size="+shot.size, "--screenshot="+name)
		if info, err := os.Stat(name); err != nil || info.Size() > 300_000 {
			t.Errorf("%s: %v, %v", shot.file, info, err)
		}
	}
}
