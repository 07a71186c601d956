package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestProblemFaces(t *testing.T) {
	p := Problem{Pos: Pos{"a.yaml", 2, 3}, Level: LevelWarning, Msg: "odd", Hint: "look", snippet: "  key: x", width: 3}
	if got, want := p.Error(), "a.yaml:2:3: warning: odd\n    key: x\n    ^~~\nhint: look"; got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
	got, err := json.Marshal(Problems{p, {Pos: Pos{File: "b.yaml"}, Level: LevelFault, Msg: "gone"}})
	want := `[{"file":"a.yaml","line":2,"col":3,"level":"warning","message":"odd","hint":"look"},` +
		`{"file":"b.yaml","line":0,"col":0,"level":"fault","message":"gone"}]`
	if err != nil || string(got) != want {
		t.Errorf("JSON is %s, %v", got, err)
	}
}

func TestFlatten(t *testing.T) {
	at := func(file string, line int) Problem {
		return Problem{Pos: Pos{file, line, 1}, Level: LevelFault, Msg: "m"}
	}
	err := errors.Join(at("b", 1), fmt.Errorf("harness: %w", Problems{at("a", 9), at("a", 2)}), errors.New("no docker"), at("b", 1), nil)
	want := Problems{{Level: LevelFault, Msg: "no docker"}, at("a", 2), at("a", 9), at("b", 1)}
	if diff := cmp.Diff(want, Flatten(err), cmp.AllowUnexported(Problem{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Flatten(fmt.Errorf("open x: %w", errors.New("no space"))); len(got) != 1 || got[0].Msg != "open x: no space" {
		t.Errorf("a plain error became %v", got)
	}
	if got := Flatten(nil); got != nil {
		t.Errorf("nil became %v", got)
	}
}

func TestUnderline(t *testing.T) {
	tests := map[string]struct {
		line       string
		col, width int
		want       string // both lines
	}{
		"plain":               {"a: bcd", 4, 3, "a: bcd\n   ^~~"},
		"tab before":          {"\ta:\tb", 5, 1, "\ta:\tb\n\t  \t^"},
		"wide before":         {"名: x", 4, 1, "名: x\n    ^"},
		"wide inside":         {"x: 名前", 4, 2, "x: 名前\n   ^~~~"},
		"combining before":    {"e\u0301: x", 5, 1, "e\u0301: x\n   ^"},
		"after the end":       {"a:", 3, 1, "a:\n  ^"},
		"escape sequence":     {"a\x1b[31m: x", 8, 1, "a\ufffd[31m: x\n       ^"},
		"direction character": {"a\u202eb", 3, 1, "a\ufffdb\n  ^"},
	}
	for name, test := range tests {
		shown, caret := underline(test.line, test.col, test.width)
		if diff := cmp.Diff(test.want, shown+"\n"+caret); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUnderlineOfLongLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		length := rapid.IntRange(1, 4000).Draw(t, "length")
		col := rapid.IntRange(1, length).Draw(t, "col")
		width := rapid.IntRange(1, 50).Draw(t, "width")
		line := strings.Repeat("-", col-1) + "X" + strings.Repeat("-", length-col)
		shown, caret := underline(line, col, width)
		if len(shown) > snippetMax || len(caret) > snippetMax+1 {
			t.Fatalf("%d and %d characters are shown", len(shown), len(caret))
		}
		if at := strings.IndexByte(caret, '^'); at != strings.IndexByte(shown, 'X') {
			t.Fatalf("the caret is off:\n%s\n%s", shown, caret)
		}
	})
}

func TestDidYouMean(t *testing.T) {
	known := []string{"timeout", "max_turns", "max_tokens", "run"}
	for got, want := range map[string]string{
		"timeot": "did you mean timeout?", "max-tokens": "did you mean max_tokens?", "Run": "did you mean run?", "rnu": "did you mean run?",
		"zebra": "known: timeout, max_turns, max_tokens, run", strings.Repeat("run", 500): "known: timeout, max_turns, max_tokens, run",
	} {
		if hint := didYouMean(got, known); hint != want {
			t.Errorf("%.20q: %s, want %s", got, hint, want)
		}
	}
}

func TestDistanceLaws(t *testing.T) {
	word := rapid.StringMatching(`[a-d]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		switch d := distance(a, b); {
		case d != distance(b, a):
			t.Fatal("not symmetric")
		case (d == 0) != (a == b):
			t.Fatal("zero is for equal words")
		case d > max(len(a), len(b)) || d < max(len(a), len(b))-min(len(a), len(b)):
			t.Fatalf("%d is out of bounds", d)
		}
	})
}
