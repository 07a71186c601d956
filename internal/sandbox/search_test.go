package sandbox

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	boilerplate = "const { test } = require('node:test');\nconst assert = require('node:assert/strict');\nconst report = require('../src/report');\n\n"
	hiddenTest  = boilerplate + `test('the report names the days of the reader', () => {
  assert.deepEqual(report.days('Europe/Berlin', 1700000000), ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']);
});

test('an entry at five past midnight belongs to the new day', () => {
  assert.equal(report.dayOf('2024-03-31T00:05:00+02:00', 'Europe/Berlin'), '2024-03-31');
});
`
)

// found are the sightings in a line each: ! says that it is more than chance.
func found(list []Sighting) []string {
	out := []string{}
	for _, s := range list {
		mark := ""
		if s.Told {
			mark = "!"
		}
		out = append(out, fmt.Sprintf("%s%s in %s", mark, s.Hidden, s.In))
	}
	return out
}

func search(t *testing.T, source, hidden map[string]string) (*Search, Look) {
	t.Helper()
	_, src, assets := gradingSandbox(t, source, hidden)
	s, err := assets.Search()
	must(t, err)
	shown, err := s.Publish(src.Files())
	must(t, err)
	return s, shown
}

// TestHiddenTextIsFound: what an agent is given is told from what it may know.
func TestHiddenTextIsFound(t *testing.T) {
	t.Parallel()
	half := hiddenTest[len(hiddenTest)/3:]
	long := strings.Repeat("a line of the hidden test number 123456789\n", 1) + strings.Repeat("0123456789abcdef", 32)
	for _, tt := range []struct {
		name           string
		source, hidden map[string]string
		place          map[string]string
		shown, found   []string
	}{
		{"nothing", map[string]string{"a": "x"}, map[string]string{"t.js": hiddenTest}, map[string]string{"a": "x", "b": boilerplate[:60]}, nil, nil},
		{"the whole file", nil, map[string]string{"t.js": hiddenTest}, map[string]string{"skill/t.js": hiddenTest}, nil, []string{"!t.js in skill/t.js"}},
		{"in the midst of another", nil, map[string]string{"t.js": hiddenTest}, map[string]string{"SKILL.md": "Write this:\n" + half + "\nand no more."}, nil, []string{"!t.js in SKILL.md"}},
		{"the head of every test", nil, map[string]string{"t.js": hiddenTest}, map[string]string{"SKILL.md": boilerplate}, nil, []string{"t.js in SKILL.md"}},
		{"a head that the source has too", map[string]string{"test/a.js": boilerplate + "x"}, map[string]string{"t.js": hiddenTest}, map[string]string{"SKILL.md": boilerplate}, nil, nil},
		{"a small file", nil, map[string]string{"t.sh": "grep -q FIXED answer.txt\n"}, map[string]string{"x.sh": "grep -q FIXED answer.txt\n"}, nil, []string{"!t.sh in x.sh"}},
		{"a tiny file", nil, map[string]string{"t.sh": "exit 0\n"}, map[string]string{"x.sh": "exit 0\n"}, nil, nil},
		{"bytes that are no text", nil, map[string]string{"t.bin": "\x00" + hiddenTest}, map[string]string{"x": "\x00" + hiddenTest, "y": hiddenTest}, nil, []string{"!t.bin in x"}},
		{"a long passage of a longer file", nil, map[string]string{"t": long + strings.Repeat("other text that nobody knows, line 7\nand 8", 90)},
			map[string]string{"x": long}, nil, []string{"!t in x"}},
		{"the source shows it", map[string]string{"old/t.js": hiddenTest}, map[string]string{"t.js": hiddenTest}, nil, []string{"!t.js in old/t.js"}, nil},
		{"the source nearly shows it", map[string]string{"old.js": hiddenTest + "// end"}, map[string]string{"t.js": "\n" + hiddenTest}, nil, []string{"!t.js in old.js"}, nil},
		{"a test that hidden puts back", map[string]string{"test/a.js": hiddenTest}, map[string]string{"test/a.js": hiddenTest}, map[string]string{"test/a.js": hiddenTest, "b.js": hiddenTest}, nil, nil},
		{"a test that hidden makes longer", map[string]string{"test/a.js": hiddenTest}, map[string]string{"test/a.js": hiddenTest + strings.ToUpper(hiddenTest)},
			map[string]string{"test/a.js": hiddenTest, "b.js": strings.ToUpper(half)}, nil, []string{"!test/a.js in b.js"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, shown := search(t, tt.source, tt.hidden)
			look := s.Look("")
			must(t, look.Tree("", handed(tt.place)))
			if diff := cmp.Diff(append([]string{}, tt.shown...), found(shown.Found)); diff != "" {
				t.Errorf("in the source:\n%s", diff)
			}
			if diff := cmp.Diff(append([]string{}, tt.found...), found(look.Found)); diff != "" {
				t.Errorf("in the place:\n%s", diff)
			}
			if look.Files != len(tt.place) {
				t.Errorf("looked at %d files, want %d", look.Files, len(tt.place))
			}
		})
	}
}

// TestAnyPassageIsFound: wherever a passage of 79 bytes stands in whatever else, and however the bytes arrive.
func TestAnyPassageIsFound(t *testing.T) {
	t.Parallel()
	s, _ := search(t, nil, map[string]string{"t.js": hiddenTest})
	rapid.Check(t, func(r *rapid.T) {
		from := rapid.IntRange(0, len(hiddenTest)-79).Draw(r, "from")
		before := strings.Repeat("#", rapid.IntRange(0, 300).Draw(r, "before"))
		after := strings.Repeat("#", rapid.IntRange(0, 300).Draw(r, "after"))
		text := before + hiddenTest[from:from+79] + after
		look := s.Look("canary-1")
		if err := look.Stream("x", iotest.HalfReader(strings.NewReader(text))); err != nil || len(look.Found) != 1 || look.Bytes != int64(len(text)) {
			r.Fatalf("error %v, found %v", err, look.Found)
		}
		other := s.Look("canary-1")
		if err := other.Stream("x", strings.NewReader(before+hiddenTest[from:from+63]+after)); err != nil || len(other.Found) != 0 {
			r.Fatalf("63 bytes: error %v, found %v", err, other.Found)
		}
	})
}

// TestCanaryIsFound: at any place of a stream, also where two reads meet.
func TestCanaryIsFound(t *testing.T) {
	t.Parallel()
	s, _ := search(t, nil, map[string]string{"t": hiddenTest})
	for _, at := range []int{0, 1, 63, 64, readAtOnce - 5, readAtOnce, 2*readAtOnce - 1, 300_000} {
		look := s.Look("canary-of-mine")
		must(t, look.Stream("x", strings.NewReader(strings.Repeat("z", at)+"canary-of-mine-1234")))
		must(t, look.Stream("y", strings.NewReader(strings.Repeat("z", at)+"canary-of-min")))
		if diff := cmp.Diff([]string{"x"}, look.Canaries); diff != "" {
			t.Errorf("at %d: %s", at, diff)
		}
	}
}

func TestFolderIsLookedAt(t *testing.T) {
	t.Parallel()
	s, _ := search(t, nil, map[string]string{"t.js": hiddenTest})
	dir := t.TempDir()
	write(t, dir, map[string]string{"home/.assay/skills/a/SKILL.md": hiddenTest, "home/link@": "/etc/passwd"})
	look := s.Look("")
	must(t, look.Folder("home/", os.DirFS(filepath.Join(dir, "home"))))
	must(t, look.Folder("none/", os.DirFS(filepath.Join(dir, "none"))))
	if diff := cmp.Diff([]string{"!t.js in home/.assay/skills/a/SKILL.md"}, found(look.Found)); diff != "" {
		t.Error(diff)
	}
}

// TestCanaryIsLaid: one more file among the hidden assets, under a name that is new each time.
func TestCanaryIsLaid(t *testing.T) {
	t.Parallel()
	s, src, hidden := gradingSandbox(t, nil, map[string]string{"t": "true"})
	names := map[string]bool{}
	for range 2 {
		p, _, err := s.Grading(t.Context(), src, Handover{Tree: handed(nil), Hidden: hidden, Canary: "tweet"}, Needs{})
		must(t, err)
		for name, text := range look(t, p.Work) {
			if name != "t" && text == "tweet\n" {
				names[name] = true
			}
		}
		must(t, p.Close(t.Context()))
	}
	if len(names) != 2 {
		t.Errorf("canaries are %v", names)
	}
}

func BenchmarkSearch(b *testing.B) {
	tree := &tree{entries: []entry{{path: "t.js", mode: 0o644, size: int64(len(hiddenTest)), data: []byte(hiddenTest)}}, kept: true}
	tree.entries[0].sum = sha256.Sum256([]byte(hiddenTest))
	s, err := (&Assets{tree: tree}).Search()
	if err != nil {
		b.Fatal(err)
	}
	text := bytes.Repeat([]byte("func main() { fmt.Println(\"some code of a tree\", 17*4) }\n"), 1<<14)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := s.Look("assay-canary-0123456789").Stream("x", bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
}
