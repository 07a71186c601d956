package report

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/bench"
)

// A Marker is the hidden first line of a comment: by it the comment is found again, and an older run is kept from
// overwriting a newer one. A page writes V, State and Verdict itself.
type Marker struct {
	V       int       `json:"v"`             // 1
	Key     string    `json:"key"`           // at most 100 bytes, cut when it is longer; empty is written as assay
	SHA     string    `json:"sha,omitempty"` // head commit, 40 hexadecimal digits
	Run     int64     `json:"run,omitempty"` // id of the workflow run
	Attempt int       `json:"attempt,omitempty"`
	Started time.Time `json:"started,omitzero"` // of the workflow run; whole seconds
	State   State     `json:"state"`
	Verdict string    `json:"verdict,omitempty"` // of Done
}

// Bounds of a marker, in bytes.
const (
	maxMarker = 1024
	maxKey    = 100
)

// marker is the page's marker as it is written.
func (p Page) marker() Marker {
	m := p.Marker
	m.State, m.Verdict = p.state(), ""
	if m.State == Done {
		m.Verdict = string(known(p.benchmark().Verdict))
	}
	m.V, m.Key = 1, cut(cmp.Or(strings.ToValidUTF8(m.Key, "\uFFFD"), "assay"), maxKey)
	if !isSHA(m.SHA) {
		m.SHA = ""
	}
	m.Started = m.Started.UTC().Truncate(time.Second)
	if year := m.Started.Year(); year < 1 || year > 9999 {
		m.Started = time.Time{} // JSON has no such time
	}
	return m
}

// line is the marker as an HTML comment. JSON escapes angle brackets and we escape every second of two dashes, so
// nothing inside can end it.
func (m Marker) line() string {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings, numbers and a time of four digits a year always marshal
	}
	return markerStart + strings.ReplaceAll(string(data), "--", `-\u002d`) + markerEnd
}

const (
	markerStart = "<!-- assay "
	markerEnd   = " -->"
)

// ReadMarker reads the first line of a comment. It accepts only what a page writes, byte for byte; whoever may edit the
// comment may write that too.
func ReadMarker(body string) (Marker, bool) {
	line, _, _ := strings.Cut(body[:min(len(body), maxMarker+2)], "\n")
	line = strings.TrimSuffix(line, "\r")
	data, ok := strings.CutPrefix(line, markerStart)
	if !ok || len(line) > maxMarker {
		return Marker{}, false
	}
	data, ok = strings.CutSuffix(data, markerEnd)
	if !ok {
		return Marker{}, false
	}
	var m Marker
	if err := json.Unmarshal([]byte(data), &m); err != nil || m.V != 1 || m.Key == "" || !m.canonical() || m.line() != line {
		return Marker{}, false
	}
	return m, true
}

// canonical tells whether a page could have written the marker.
func (m Marker) canonical() bool {
	p := Page{State: m.State, Marker: m}
	if m.State == Done {
		p.Benchmark = &bench.Benchmark{Verdict: bench.Verdict(m.Verdict)}
	}
	return p.marker() == m
}

// isSHA tells whether s is a full commit id.
func isSHA(s string) bool { return len(s) == 40 && hexRun([]rune(s)) == 40 }
