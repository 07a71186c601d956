package internal

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestCutsAreMarked: no code cuts a text by the precision of a verb, but for the beginning of a digest. Such a cut leaves no
// mark, so the beginning of a secret that it went through would reach a page.
func TestCutsAreMarked(t *testing.T) {
	cut := regexp.MustCompile(`%[-+# 0]*\.(?:\*|\d+)[qsv]`)
	short := regexp.MustCompile(`%\.(?:[1-9]|1[0-2])s`)
	files := 0
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name != "." && name != "cmd" && name != "internal" && !strings.HasPrefix(name, "cmd/") && !strings.HasPrefix(name, "internal/") {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"), strings.Contains(name, "/testdata/"), strings.HasPrefix(name, "internal/githubtest/"):
			return nil
		}
		files++
		text, err := os.ReadFile("../" + name)
		for n, line := range strings.Split(string(text), "\n") {
			for _, verb := range cut.FindAllString(line, -1) {
				if !short.MatchString(verb) {
					t.Errorf("%s:%d: %s cuts a text without a mark; cut it by trace.Shorten, or by what the room has for it", name, n+1, verb)
				}
			}
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("%d files: %v", files, err)
	}
}
