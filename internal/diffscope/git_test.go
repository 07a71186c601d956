package diffscope

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestHistory compares the counts of every changed text file in the newest commits of this repository with those of git.
// git is no exact oracle: it drops frequent lines before it searches, so its scripts can be longer than the shortest.
func TestHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 300 commits")
	}
	t.Parallel()
	changes := history(t, historyRepository, 300)
	if len(changes) < 20 {
		t.Skipf("this checkout has only %d changes in its history", len(changes))
	}
	blobs := blobReader(t, historyRepository)
	equal, larger := 0, 0
	for _, c := range changes {
		edits, _ := diffLines(splitLines(blobs(c.oldID)), splitLines(blobs(c.newID)), exactSteps)
		var got Counts
		for _, e := range edits {
			got.LinesAdded += e.newEnd - e.newStart
			got.LinesRemoved += e.oldEnd - e.oldStart
			got.Hunks++
		}
		if got == c.Counts {
			equal++
		} else {
			t.Logf("%s..%s: git %+v, ours %+v", c.oldID, c.newID, c.Counts, got)
		}
		if got.LinesChanged() > c.LinesChanged() {
			larger++
		}
	}
	t.Logf("%d changes, %d equal", len(changes), equal)
	if larger > 0 {
		t.Errorf("%d of %d changes count more lines than git", larger, len(changes))
	}
	if equal*100 < len(changes)*99 {
		t.Errorf("%d of %d changes equal git's counts, want 99 %%", equal, len(changes))
	}
}

const historyRepository = "../.."

type historic struct {
	oldID, newID string
	Counts
}

var hunkHeader = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)

// history reads the modified text files of the newest commits, with the counts at zero context.
func history(t *testing.T, repository string, commits int) []historic {
	t.Helper()
	log := gitCommand(t, repository, "log", "-p", "-U0", "-n", fmt.Sprint(commits), "--no-merges", "--no-renames", "--no-ext-diff", "--no-textconv",
		"--no-color", "--diff-algorithm=myers", "--full-index", "--diff-filter=M", "--format=")
	out, err := log.Output()
	if err != nil {
		t.Skipf("this checkout has no history: %v", err)
	}
	var changes []historic
	for line := range bytes.Lines(out) {
		switch {
		case bytes.HasPrefix(line, []byte("index ")):
			ids := string(bytes.Fields(line)[1])
			oldID, newID, _ := strings.Cut(ids, "..")
			changes = append(changes, historic{oldID: oldID, newID: newID})
		case hunkHeader.Match(line):
			c := &changes[len(changes)-1]
			m := hunkHeader.FindSubmatch(line)
			c.LinesRemoved += headerCount(m[1])
			c.LinesAdded += headerCount(m[2])
			c.Hunks++
		}
	}
	text := changes[:0]
	for _, c := range changes {
		if c.Hunks > 0 {
			text = append(text, c)
		}
	}
	return text
}

// headerCount reads a count of a hunk header, which is left out when it is 1.
func headerCount(count []byte) int {
	if len(count) == 0 {
		return 1
	}
	n, _ := strconv.Atoi(string(count))
	return n
}

// blobReader returns a function that reads objects of a repository.
func blobReader(t *testing.T, repository string) func(id string) string {
	t.Helper()
	cmd := gitCommand(t, repository, "cat-file", "--batch")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	r := bufio.NewReader(out)
	return func(id string) string {
		fmt.Fprintln(in, id)
		header, err := r.ReadString('\n')
		must(t, err)
		size, err := strconv.Atoi(strings.Fields(header)[2])
		must(t, err)
		content := make([]byte, size+1)
		_, err = io.ReadFull(r, content)
		must(t, err)
		return string(content[:size])
	}
}
