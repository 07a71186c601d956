package redact

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/redacttest"
)

// canaryValue has characters that every encoding writes in another way, and none that a decoder would take for an escape.
const canaryValue = `sk-canary/ 7Fq+"v'=<&$Zr0`

// around is what stands before and after a secret in a log.
func around(text string) string { return "the key: " + text + " and more" }

// TestA24EverySplit writes a secret in each encoding, cut at every byte, and with a line break at every byte. A decoder of
// that encoding finds it before, and none of all finds it after.
func TestA24EverySplit(t *testing.T) {
	t.Parallel()
	r := New([]Secret{{Name: "OTHER", Value: "another-secret-entirely"}, {Name: "KEY", Value: canaryValue}})
	encodings := redacttest.Encodings()
	if len(encodings) != 21 {
		t.Errorf("there are %d encodings, want 21", len(encodings))
	}
	for _, e := range encodings {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			text := around(e.Encode(canaryValue))
			if !strings.Contains(e.Decode(text), canaryValue) {
				t.Fatalf("the decoder does not find it in %q, so nothing is tested", text)
			}
			for cut := range len(text) {
				checkGone(t, "cut", cut, written(r, text, cut))
			}
			start, end := len("the key: "), len(text)-len(" and more")
			for _, br := range []string{"\n", "\r\n"} {
				for at := start; at < end; at++ {
					checkGone(t, "broken", at, r.String(text[:at]+br+text[at:]))
				}
				var lines strings.Builder
				for i := 0; i < len(text); i += 7 {
					lines.WriteString(text[i:min(i+7, len(text))] + br)
				}
				checkGone(t, "broken every", 7, r.String(lines.String()))
				for _, inner := range []string{text, lines.String()} {
					quoted, err := json.Marshal(inner)
					if err != nil {
						t.Fatal(err)
					}
					checkGone(t, "within json, broken by", len(br), r.String(string(quoted)))
				}
			}
			checkGone(t, "byte by", 1, byByte(r, text))
		})
	}
}

// TestA24EveryCut writes the beginning of a secret in each encoding, however much of it is left before a cut mark, as it is
// and within JSON. No eight bytes of its beginning are left, nor of its end where it is written backwards.
func TestA24EveryCut(t *testing.T) {
	t.Parallel()
	r := New([]Secret{{Name: "OTHER", Value: "sk-canaries"}, {Name: "KEY", Value: canaryValue}})
	parts := []string{canaryValue[:minLength], canaryValue[len(canaryValue)-minLength:]}
	for _, e := range redacttest.Encodings() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			whole, masked := e.Encode(canaryValue), 0
			for end := range len(whole) {
				for _, mark := range []string{"…", "\n[… 7 bytes left out …]\n"} {
					text := "the key: " + whole[:end] + mark
					quoted, err := json.Marshal(text)
					if err != nil {
						t.Fatal(err)
					}
					for _, text := range []string{text, string(quoted)} {
						out := r.String(text)
						if found := redacttest.Find(out, parts...); len(found) > 0 {
							t.Errorf("cut at %d: %v find a part in %q", end, found, out)
						}
						if byByte(r, text) != out {
							t.Errorf("cut at %d: byte by byte it is not %q", end, out)
						}
						masked += strings.Count(out, "[redacted:KEY]")
					}
				}
			}
			if masked < len(whole) {
				t.Errorf("there are only %d marks", masked)
			}
		})
	}
}

func checkGone(t *testing.T, how string, at int, out string) {
	t.Helper()
	if found := redacttest.Find(out, canaryValue); len(found) > 0 {
		t.Errorf("%s %d: %v find it in %q", how, at, found, out)
	}
	if !strings.Contains(out, "[redacted:KEY]") {
		t.Errorf("%s %d: there is no mark in %q", how, at, out)
	}
}

// byByte passes a text through a Writer one byte at a time.
func byByte(r *Redactor, text string) string {
	var out strings.Builder
	w := r.Writer(&out, nil)
	for i := range len(text) {
		io.WriteString(w, text[i:i+1])
	}
	w.Close()
	return out.String()
}

// TestMaskedIsCounted counts the marks that are written, and none that was there before.
func TestMaskedIsCounted(t *testing.T) {
	t.Parallel()
	r := New([]Secret{{Name: "K", Value: "opensesame"}})
	text := "[redacted:K] opensesame, b3BlbnNlc2FtZQ==, opensesame"
	if clean, masked := r.Clean([]byte(text)); masked != 3 || strings.Count(string(clean), "[redacted:K]") != 4 {
		t.Errorf("%d marks in %q, want 3 new ones", masked, clean)
	}
	n := 1
	var out strings.Builder
	w := r.Writer(&out, &n)
	io.WriteString(w, text)
	if err := w.Close(); err != nil || n != 4 {
		t.Errorf("%d, %v", n, err)
	}
	var none *Redactor
	if clean, masked := none.Clean([]byte(text)); string(clean) != text || masked != 0 {
		t.Errorf("without secrets %q became %q, %d marks", text, clean, masked)
	}
}
