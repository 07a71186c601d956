package trace

import (
	"io"
	"strings"
	"testing"
)

// TestA27EndlessTracesEnd: so many lines are read, empty ones too, and no more.
func TestA27EndlessTracesEnd(t *testing.T) {
	t.Parallel()
	in := io.MultiReader(strings.NewReader(strings.Repeat("\n", 99)+"{\"kind\":\"thinking\"}\n"), endless{})
	var kinds []Kind
	var last error
	for e, err := range read(in, 100) {
		if last = err; err == nil {
			kinds = append(kinds, e.Kind)
		}
	}
	if len(kinds) != 1 || last == nil || last.Error() != "the trace has more than 100 lines" {
		t.Errorf("got %v, then error %v", kinds, last)
	}
}

// A trace of just as many lines is read to its end.
func TestA27ManyLinesAreRead(t *testing.T) {
	t.Parallel()
	n := 0
	for _, err := range read(strings.NewReader(strings.Repeat("{\"kind\":\"thinking\"}\n", 100)), 100) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 100 {
		t.Errorf("%d events", n)
	}
}

// endless gives events for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "{\"kind\":\"stop\"}\n"), nil }
