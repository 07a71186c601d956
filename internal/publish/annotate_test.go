package publish

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLogCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		note Note
		want string
	}{
		{"whole", Note{Path: "evals/a/case.yaml", Line: 3, EndLine: 5, Level: "failure", Title: "a regressed", Text: "3/3 to 0/3"},
			"::error file=evals/a/case.yaml,line=3,endLine=5,title=a regressed::3/3 to 0/3"},
		{"without an end", Note{Path: "a", Line: 3, Level: "warning", Text: "t"}, "::warning file=a,line=3::t"},
		{"without a place", Note{Line: 3, Level: "notice", Text: "t"}, "::notice::t"},
		{"of an unknown level", Note{Level: "catastrophe", Text: "t"}, "::notice::t"},
		{"foreign in its text", Note{Level: "failure", Text: "50%\r\n::set-output name=x::y"}, "::error::50%25%0D%0A::set-output name=x::y"},
		{"foreign in its properties", Note{Path: "a,b:c%\n", Line: 1, Level: "failure", Title: "x,line=9::boo"},
			"::error file=a%2Cb%3Ac%25%0A,line=1,title=x%2Cline=9%3A%3Aboo::"},
	} {
		if diff := cmp.Diff(c.want, logCommand(command(c.note.Level), c.note)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Whatever a note holds, its command is one line, and the runner reads the same text back.
func FuzzLogCommand(f *testing.F) {
	f.Add("a.yaml", "title", "text")
	f.Add("a", " ", " ")
	f.Add("a,b:c", "%25", "\r\n::error::x")
	f.Fuzz(func(t *testing.T, path, title, text string) {
		line := logCommand("error", Note{Path: path, Line: 1, Title: title, Text: text})
		if strings.ContainsAny(line, "\r\n") {
			t.Fatalf("more than one line: %q", line)
		}
		properties, data, _ := strings.Cut(strings.TrimPrefix(line, "::error"), "::")
		if got := unescape(data); got != text {
			t.Errorf("text %q came back as %q", text, got)
		}
		for property := range strings.SplitSeq(strings.TrimPrefix(properties, " "), ",") {
			key, value, _ := strings.Cut(property, "=")
			if key == "title" && unescape(value) != title || key == "file" && unescape(value) != path {
				t.Errorf("%s came back as %q", key, value)
			}
		}
	})
}

// unescape is how the runner reads a command.
func unescape(s string) string {
	return strings.NewReplacer("%0D", "\r", "%0A", "\n", "%3A", ":", "%2C", ",", "%25", "%").Replace(s)
}

// GitHub drops the eleventh annotation of a level without a word; we say how many there were, worst first.
func TestLogNotesAreBounded(t *testing.T) {
	t.Parallel()
	var notes []Note
	for i := range 12 {
		notes = append(notes, Note{Level: "warning", Text: fmt.Sprint("w", i)}, Note{Level: "failure", Text: fmt.Sprint("f", i)})
	}
	var lines []string
	d := &delivery{notes: notes, settings: Settings{Annotations: "check"}, local: Local{Log: func(s string) { lines = append(lines, s) }}}
	if err := annotate(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range mostCommands {
		want = append(want, fmt.Sprint("::error::f", i))
	}
	for i := range mostCommands {
		want = append(want, fmt.Sprint("::warning::w", i))
	}
	want = append(want, "3 more annotations of level error are not shown; GitHub takes no more from a log",
		"3 more annotations of level warning are not shown; GitHub takes no more from a log")
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
