package run

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// TestUnescaped: what an agent wrote is found in its trace as it wrote it.
func TestUnescaped(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		text := strings.ToValidUTF8(rapid.StringOf(rapid.SampledFrom([]rune("ab\n\t\"\\<&/é\x01"))).Draw(r, "text"), "")
		data, err := json.Marshal(text)
		if err != nil {
			r.Fatal(err)
		}
		got, err := io.ReadAll(iotest.OneByteReader(&unescaped{from: bufio.NewReader(strings.NewReader(string(data)))}))
		if want := `"` + text + `"`; err != nil || string(got) != want {
			r.Fatalf("%q, error %v, want %q", got, err, want)
		}
	})
}

// FuzzUnescaped: traces hold what agents wrote; nothing in them makes reading fail or go on for ever.
func FuzzUnescaped(f *testing.F) {
	for _, seed := range []string{`"\u00e9\n"`, `\`, `\u12`, `\uZZZZ`, `\ud83d\ude00`, `\\n`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := io.ReadAll(&unescaped{from: bufio.NewReader(strings.NewReader(text))})
		if err != nil && err != io.EOF || len(got) > len(text) {
			t.Errorf("%d bytes of %d, error %v", len(got), len(text), err)
		}
	})
}
