package internal

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the tests of the attack table in docs/security.md")

// The attack table is that of docs/security.md, and has this many rows.
const (
	attackTable = "../docs/security.md"
	attacks     = 33
)

// toCome are the rows whose tests are still to be written.
var toCome []string

// TestAttacks holds the attack table against the tree: each row names the tests that show its control, which are those that
// carry its number, and no test of the tree is forgotten.
func TestAttacks(t *testing.T) {
	shown, without := testsOfAttacks(t)
	page, err := os.ReadFile(attackTable)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(page), "\n")
	var rows []string
	for i, line := range lines {
		id := regexp.MustCompile(`^\| (A\d\d) \|`).FindStringSubmatch(line)
		if id == nil {
			continue
		}
		rows = append(rows, id[1])
		cells := strings.Split(line, " | ")
		if len(cells) != 5 {
			t.Fatalf("%s: the row of %s has %d cells", attackTable, id[1], len(cells))
		}
		lines[i] = fmt.Sprintf("%s | %s | %s |", strings.Join(cells[:3], " | "), list(shown[id[1]]), list(without[id[1]]))
		if shown[id[1]] == nil && !slices.Contains(toCome, id[1]) {
			t.Errorf("no test shows the control of %s", id[1])
		}
	}
	var want []string
	for n := range attacks {
		want = append(want, fmt.Sprintf("A%02d", n+1))
	}
	if !slices.Equal(rows, want) {
		t.Errorf("%s: the rows are %q", attackTable, rows)
	}
	for id := range shown {
		if !slices.Contains(want, id) {
			t.Errorf("tests are named for the row %s, which is not in the table: %q", id, shown[id])
		}
	}
	made := []byte(strings.Join(lines, "\n"))
	switch {
	case bytes.Equal(made, page):
	case *update:
		if err := os.WriteFile(attackTable, made, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not name the tests of the tree; go test ./internal -run TestAttacks -update writes it anew", attackTable)
	}
}

// list is a cell of the table.
func list(tests []string) string {
	if tests == nil {
		return "–"
	}
	return "`" + strings.Join(tests, "` `") + "`"
}

// testsOfAttacks are the tests that carry the number of a row, by row: those that show the control, and those behind the
// build tag negative, which do without it. Both are sorted.
func testsOfAttacks(t *testing.T) (shown, without map[string][]string) {
	t.Helper()
	shown, without = map[string][]string{}, map[string][]string{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)((?:A\d\d)+)\w*)\(`)
	number := regexp.MustCompile(`A\d\d`)
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		into := shown
		if bytes.HasPrefix(text, []byte("//go:build negative")) {
			into = without
		}
		for _, f := range function.FindAllSubmatch(text, -1) {
			test := filepath.ToSlash(filepath.Dir(name)) + "." + string(f[1])
			for _, id := range number.FindAllString(string(f[2]), -1) {
				into[id] = append(into[id], test)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tests := range []map[string][]string{shown, without} {
		for id := range tests {
			slices.Sort(tests[id])
			tests[id] = slices.Compact(tests[id])
		}
	}
	return shown, without
}
