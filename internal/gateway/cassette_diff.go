package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	maxDifferences = 8   // that are told
	maxShown       = 120 // bytes of a text that are told
)

// differences says how a folded request differs from the recorded one, one line for each place.
func differences(recorded, now []byte) string {
	var d diff
	d.value("", decoded(recorded), decoded(now))
	if d.more > 0 {
		d.lines = append(d.lines, fmt.Sprintf("  and %d more", d.more))
	}
	return strings.Join(d.lines, "\n")
}

// decoded is the value that a folded request holds, its numbers as they were written.
func decoded(folded []byte) any {
	dec := json.NewDecoder(bytes.NewReader(folded))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return "no JSON"
	}
	return v
}

type diff struct {
	lines []string
	more  int
}

func (d *diff) value(at string, a, b any) {
	switch x := a.(type) {
	case object:
		if y, is := b.(object); is {
			d.object(at, x, y)
			return
		}
	case []any:
		if y, is := b.([]any); is {
			d.list(at, x, y)
			return
		}
	case string:
		if y, is := b.(string); is {
			if x != y {
				x, y = around(x, y)
				d.tell(at, fmt.Sprintf("%q", x), fmt.Sprintf("%q", y))
			}
			return
		}
	default:
		if a == b && isPlain(b) {
			return
		}
	}
	d.tell(at, brief(a), brief(b))
}

// isPlain says whether a value is neither an object nor a list.
func isPlain(v any) bool {
	switch v.(type) {
	case object, []any:
		return false
	}
	return true
}

func (d *diff) object(at string, a, b object) {
	both := maps.Clone(a)
	maps.Copy(both, b)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		x, had := a[key]
		y, has := b[key]
		name := strings.TrimPrefix(at+"."+key, ".")
		switch {
		case !had:
			d.tell(name, "absent", brief(y))
		case !has:
			d.tell(name, brief(x), "absent")
		default:
			d.value(name, x, y)
		}
	}
}

func (d *diff) list(at string, a, b []any) {
	for i := range min(len(a), len(b)) {
		d.value(fmt.Sprintf("%s[%d]", at, i), a[i], b[i])
	}
	if len(a) != len(b) {
		d.tell(at, fmt.Sprintf("%d elements", len(a)), fmt.Sprintf("%d", len(b)))
	}
}

func (d *diff) tell(at, recorded, now string) {
	if len(d.lines) == maxDifferences {
		d.more++
		return
	}
	if at == "" {
		at = "the request"
	}
	if len(at) > maxShown {
		at = "…" + at[len(at)-maxShown:]
	}
	d.lines = append(d.lines, strings.ToValidUTF8(fmt.Sprintf("  %s: recorded %s, now %s", at, recorded, now), "?"))
}

// around cuts two texts to what stands where they first differ.
func around(a, b string) (string, string) {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	from := max(0, i-maxShown/3)
	return excerpt(a, from), excerpt(b, from)
}

func excerpt(s string, from int) string {
	cut := s[from:min(len(s), from+maxShown)]
	if from > 0 {
		cut = "…" + cut
	}
	if from+maxShown < len(s) {
		cut += "…"
	}
	return strings.ToValidUTF8(cut, "")
}

func brief(v any) string {
	switch v := v.(type) {
	case object:
		return fmt.Sprintf("an object of %d members", len(v))
	case []any:
		return fmt.Sprintf("%d elements", len(v))
	case string:
		return fmt.Sprintf("%q", excerpt(v, 0))
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}
