package diffscope

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLines holds the lines for people to the bytes of the patch, where it shows everything.
func TestLines(t *testing.T) {
	t.Parallel()
	before, after := folder{}, folder{}
	for name, content := range everyBefore {
		if !strings.HasPrefix(name, "binary") {
			before[name] = content
		}
	}
	for name, content := range everyAfter {
		if !strings.HasPrefix(name, "binary") {
			after[name] = content
		}
	}
	patch, s := compare(t, before.memory(), after.memory(), Paths{})
	var got strings.Builder
	var n Counts
	for line, err := range patch.Lines() {
		must(t, err)
		got.WriteString(line.Text + "\n")
		switch line.Kind {
		case AddedLine:
			n.LinesAdded++
		case RemovedLine:
			n.LinesRemoved++
		}
	}
	if diff := cmp.Diff(string(patchText(t, patch)), got.String()); diff != "" {
		t.Errorf("lines (-patch +lines):\n%s", diff)
	}
	if n.LinesAdded != s.LinesAdded || n.LinesRemoved != s.LinesRemoved {
		t.Errorf("lines are +%d -%d, want +%d -%d", n.LinesAdded, n.LinesRemoved, s.LinesAdded, s.LinesRemoved)
	}
	for range patch.Lines() { // a reader may stop at once
		break
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, keep, want string }{
		{"plain é 漢字 🙂 \\x1b �", "", "plain é 漢字 🙂 \\x1b �"},
		{"a\tb\r\n", "", `a\tb\r\n`},
		{"a\tb\r\n", "\n\t", "a\tb\\r\n"},
		{"\x1b[31m\x7f\x00", "", `\x1b[31m\x7f\x00`},
		{"\u202e\u200b\ufeff\u2028\u009b", "", `\u202e\u200b\ufeff\u2028\u009b`},
		{"\U000e0041\ufe0f\u3164\u034f", "", `\U000e0041\ufe0f\u3164\u034f`},
		{"\xff\xc3", "", `\xff\xc3`},
	} {
		if got := Visible(test.text, test.keep); got != test.want {
			t.Errorf("Visible(%q, %q) = %q, want %q", test.text, test.keep, got, test.want)
		}
	}
}
