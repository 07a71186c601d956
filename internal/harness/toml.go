package harness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tomlString returns s as a basic string of TOML, which may stand as a value and as a key. Bytes that are not UTF-8 cannot
// be written in TOML; they become U+FFFD.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tomlStrings returns an array of strings.
func tomlStrings(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = tomlString(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// tomlPairs returns an inline table of NAME=value pairs, sorted. A table holds a key once, so the last pair of a name counts.
func tomlPairs(pairs []string) string {
	values := map[string]string{}
	for _, kv := range pairs {
		name, value, _ := strings.Cut(kv, "=")
		values[name] = value
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, tomlString(name)+" = "+tomlString(values[name]))
	}
	return "{" + strings.Join(list, ", ") + "}"
}
