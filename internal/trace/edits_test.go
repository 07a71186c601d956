package trace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/trace"
	"github.com/google/go-cmp/cmp"
)

// TestRecordedEdits reads what real agents said of the edits that they made. Each line of the file names the recorded run
// and the line in it that the call was taken from.
func TestRecordedEdits(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join("testdata", "edits.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for line := range bytes.Lines(data) {
		var recorded struct {
			Source       string
			Call, Result trace.Tool
		}
		if err := json.Unmarshal(line, &recorded); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&got, recorded.Source)
		for _, e := range trace.Edits(recorded.Call, recorded.Result) {
			fmt.Fprintf(&got, "\t%s %s: %q -> %q\n", e.Op, e.Path, e.Old, e.New)
		}
	}
	golden := filepath.Join("testdata", "edits.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEdits(t *testing.T) {
	t.Parallel()
	replace := func(path, old, new string) trace.Edit {
		return trace.Edit{Op: trace.EditReplace, Path: path, Old: old, New: new}
	}
	write := func(path, text string) trace.Edit { return trace.Edit{Op: trace.EditWrite, Path: path, New: text} }
	unsaid := func(path string) trace.Edit { return trace.Edit{Op: trace.EditUnsaid, Path: path} }
	remove := func(path string) trace.Edit { return trace.Edit{Op: trace.EditDelete, Path: path} }
	move := func(from, to string) trace.Edit { return trace.Edit{Op: trace.EditMove, Path: from, To: to} }
	patch := func(lines ...string) string {
		text := strings.Join(append(append([]string{"*** Begin Patch"}, lines...), "*** End Patch"), "\n")
		b, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, test := range map[string]struct {
		tool  string // its name
		input string
		call  trace.Tool // the rest of the call
		diff  string     // of the result
		want  []trace.Edit
	}{
		// claude-code
		"all places": {tool: "Edit", input: `{"file_path":"/w/a","old_string":"x","new_string":"y","replace_all":true}`,
			want: []trace.Edit{{Op: trace.EditReplace, Path: "/w/a", Old: "x", New: "y", All: true}}},
		"a file made by an edit": {tool: "Edit", input: `{"file_path":"/w/a","old_string":"","new_string":"y\n"}`,
			want: []trace.Edit{write("/w/a", "y\n")}},
		"text taken out": {tool: "Edit", input: `{"file_path":"/w/a","old_string":"x\n","new_string":""}`,
			want: []trace.Edit{replace("/w/a", "x\n", "")}},
		"a whole file": {tool: "Write", input: `{"file_path":"/w/a","content":"x\n"}`, want: []trace.Edit{write("/w/a", "x\n")}},
		"several edits of a file": {tool: "MultiEdit", call: trace.Tool{Kind: trace.ToolEdit},
			input: `{"file_path":"/w/a","edits":[{"old_string":"x","new_string":"y"},{"old_string":"z","new_string":"q"}]}`,
			want:  []trace.Edit{replace("/w/a", "x", "y"), replace("/w/a", "z", "q")}},
		"a cell of a notebook does not say what was there": {tool: "NotebookEdit",
			input: `{"notebook_path":"/w/n.ipynb","cell_id":"1","new_source":"x"}`, want: []trace.Edit{unsaid("/w/n.ipynb")}},
		// gemini-cli, opencode
		"write_file": {tool: "write_file", input: `{"file_path":"a","content":""}`, want: []trace.Edit{write("a", "")}},
		"replace in several places": {tool: "replace", input: `{"file_path":"a","old_string":"x","new_string":"y","expected_replacements":2}`,
			want: []trace.Edit{{Op: trace.EditReplace, Path: "a", Old: "x", New: "y", All: true}}},
		"write of opencode": {tool: "write", input: `{"filePath":"/w/a","content":"x"}`, want: []trace.Edit{write("/w/a", "x")}},
		// codex
		"a patch of all kinds": {tool: "apply_patch", input: patch("*** Add File: new.txt", "+one", "+", "*** Delete File: gone.txt",
			"*** Update File: a.txt", "*** Move to: b.txt", "@@ func f", " same", "-old", "+new", "@@", "-two", "", "*** End of File"),
			want: []trace.Edit{write("new.txt", "one\n\n"), remove("gone.txt"), move("a.txt", "b.txt"),
				replace("b.txt", "same\nold\n", "same\nnew\n"), replace("b.txt", "two\n\n", "\n")}},
		"a patch in an object": {tool: "apply_patch", input: `{"input":` + patch("*** Delete File: a") + `}`, want: []trace.Edit{remove("a")}},
		"a patch without an end was cut": {tool: "apply_patch", input: `"*** Begin Patch\n*** Update File: a\n@@\n-x\n"`,
			want: []trace.Edit{unsaid("")}},
		"a patch with a hole": {tool: "apply_patch", input: patch("*** Update File: a", "-x", "[… 9 bytes left out …]", "+y"),
			want: []trace.Edit{unsaid("")}},
		"changed files with and without content": {tool: "file_change",
			input: `{"changes":[{"path":"a","kind":"add","content":"x\n"},{"path":"b","kind":"delete"},{"path":"c","kind":"update"}]}`,
			want:  []trace.Edit{write("a", "x\n"), remove("b"), unsaid("c")}},
		"a change that moves": {tool: "file_change",
			input: `{"changes":{"a":{"type":"update","unified_diff":"@@ -1 +1 @@\n-x\n+y\n","move_path":"b"}}}`,
			want:  []trace.Edit{move("a", "b"), replace("b", "x\n", "y\n")}},
		// scripts of our own
		"write of a script": {tool: "write", input: `{"content":"x\n","path":"a"}`, want: []trace.Edit{write("a", "x\n")}},
		"edit of a script": {tool: "edit", input: `{"all":true,"new":"y","old":"x","path":"a"}`,
			want: []trace.Edit{{Op: trace.EditReplace, Path: "a", Old: "x", New: "y", All: true}}},
		"delete of a script":                     {tool: "delete", input: `{"path":"a"}`, want: []trace.Edit{remove("a")}},
		"move of a script":                       {tool: "move", input: `{"from":"a","to":"b"}`, want: []trace.Edit{move("a", "b")}},
		"a script's patch is a name, not a text": {tool: "apply_patch", input: `{"patch":"fix.patch"}`, want: []trace.Edit{unsaid("")}},
		// diffs
		"a unified diff as git prints it": {tool: "edit", input: `{"diff":"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ f\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"}`,
			want: []trace.Edit{replace("x", "a\nb", "a\nc")}},
		"a new file in a unified diff": {tool: "edit", diff: "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a\n",
			want: []trace.Edit{write("x", "a\n")}},
		"a diff as JSON, of a new file":      {tool: "edit", diff: `[{"type":"diff","path":"/w/a","oldText":null,"newText":"x"}]`, want: []trace.Edit{write("/w/a", "x")}},
		"a cut diff says less than was done": {tool: "edit", call: trace.Tool{Paths: []string{"x"}}, diff: "--- x\n+++ x\n@@ -1,3 +1,3 @@\n a\n-b\n[… 70 bytes left out …]\n+c\n", want: []trace.Edit{unsaid("x")}},
		// what nobody can read
		"an input that was cut":   {tool: "Write", input: `"{\"file_path\":\"/w/a\",\"content\":\"x [… 1 bytes left out …]"`, call: trace.Tool{Paths: []string{"/w/a"}}, want: []trace.Edit{unsaid("/w/a")}},
		"nothing at all":          {tool: "Edit", want: []trace.Edit{unsaid("")}},
		"fields of other types":   {tool: "Edit", input: `{"file_path":7,"old_string":[]}`, want: []trace.Edit{unsaid("")}},
		"only paths of a move":    {tool: "move", call: trace.Tool{Paths: []string{"a", "b"}}, want: []trace.Edit{move("a", "b")}},
		"only paths of a removal": {tool: "delete", call: trace.Tool{Paths: []string{"a", "b"}}, want: []trace.Edit{remove("a"), remove("b")}},
		// other tools
		"a command":                 {tool: "Bash", input: `{"command":"sed -i s/x/y/ a"}`},
		"another kind for the name": {tool: "Edit", call: trace.Tool{Kind: trace.ToolRead}, input: `{"file_path":"a","content":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call := test.call
			call.Name, call.Input = test.tool, json.RawMessage(test.input)
			if diff := cmp.Diff(test.want, trace.Edits(call, trace.Tool{Diff: test.diff})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// FuzzEdits holds Edits to what its caller counts on, whatever an agent says.
func FuzzEdits(f *testing.F) {
	f.Add(`{"file_path":"a","old_string":"x","new_string":"y"}`, "")
	f.Add(`{"changes":{"a":{"type":"update","unified_diff":"@@ -1 +1 @@\n-x\n+y\n","move_path":"b"}}}`, "")
	f.Add(`"*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch"`, "")
	f.Add(`{"path":"a","edits":[{"old":"x","new":"y","all":true}]}`, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n")
	f.Add("", `[{"type":"diff","path":"/w/a","oldText":null,"newText":"x"}]`)
	f.Fuzz(func(t *testing.T, input, diff string) {
		size := 0
		for _, kind := range []trace.ToolKind{trace.ToolEdit, trace.ToolDelete, trace.ToolMove} {
			edits := trace.Edits(trace.Tool{Kind: kind, Input: json.RawMessage(input)}, trace.Tool{Diff: diff})
			if len(edits) == 0 {
				t.Fatal("a call of an editing tool without an edit")
			}
			for _, e := range edits {
				size += len(e.Old) + len(e.New)
				switch e.Op {
				case trace.EditReplace, trace.EditWrite, trace.EditDelete, trace.EditMove, trace.EditUnsaid:
				default:
					t.Fatalf("op %q", e.Op)
				}
			}
		}
		// A line of context stands on both sides, and JSON may make three bytes of one that is no UTF-8.
		if limit := 3 * 2 * 3 * (len(input) + len(diff) + 1); size > limit {
			t.Fatalf("%d bytes of edits from %d bytes", size, len(input)+len(diff))
		}
	})
}
