package suite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

// FuzzLoad mutates the two files of a suite. Whatever they hold, Load ends, every problem lies inside its file, and a
// suite without a problem is whole.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/faults/*.txtar", "testdata/good/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal("no seeds: ", err)
		}
		for _, file := range files {
			var suite, one []byte
			for _, part := range readArchive(f, file).Files {
				switch filepath.Base(part.Name) {
				case "suite.yaml":
					suite = part.Data
				case "case.yaml":
					one = part.Data
				}
			}
			f.Add(suite, one)
		}
	}
	f.Add([]byte(bomb()), []byte("\ufeffid: a\r\nprompt: \u2028x"))
	f.Fuzz(func(t *testing.T, suite, one []byte) {
		fsys := fstest.MapFS{
			"evals/suite.yaml":         {Data: suite},
			"evals/a/case.yaml":        {Data: one},
			"evals/a/tree/main.go":     {Data: []byte("package main\n")},
			"evals/a/prompt.md":        {Data: []byte("Fix it.\n")},
			"evals/a/hidden/test.sh":   {Data: []byte("exit 1\n")},
			"skills/fixing/SKILL.md":   {Data: []byte("---\nname: fixing\n---\n")},
			"evals/a/tree/link":        {Data: []byte("main.go"), Mode: os.ModeSymlink},
			"evals/a/tree/a folder/.k": {},
		}
		ruled := paired(fsys)
		ruled.Rules = ruled.Open
		restrained, refused := LoadAgainst(fsys, ruled, "evals", nil)
		if _, err := LoadAgainst(fsys, against(fsys), "evals", nil); err == nil && refused == nil && restrained.HeadGate != nil {
			t.Fatal("the gate of a suite differs from itself")
		}
		s, err := Load(fsys, "evals", nil)
		var problems Problems
		if err != nil && (!errors.As(err, &problems) || len(problems) == 0) {
			t.Fatalf("the error is not problems: %v", err)
		}
		checkPlaces(t, fsys, problems)
		if s == nil {
			if err == nil {
				t.Fatal("neither a suite nor an error")
			}
			return
		}
		checkPlaces(t, fsys, s.Warnings)
		if err == nil && (len(s.Cases) != 1 || len(s.Broken) > 0) {
			t.Fatalf("%d cases and %d broken ones without an error", len(s.Cases), len(s.Broken))
		}
		if len(s.Harnesses) == 0 || len(s.Conditions) == 0 || s.Trials < 1 || s.Limits.Timeout <= 0 {
			t.Fatalf("the suite is not whole: %+v", s)
		}
		for _, c := range s.Cases {
			if c.ID == "" || c.Prompt == "" || len(c.Assertions) == 0 || c.AgentDigest == "" || c.GradeDigest == "" || c.Limits.Timeout <= 0 {
				t.Fatalf("the case is not whole: %+v", c)
			}
		}
	})
}
