package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/assay-ci/assay/internal/redact"
)

// A model that was told where the agent works names files there. So an answer is recorded with marks in place of these
// folders, and played with those of the agent that asks.
const (
	workMark      = "{assay:work}"
	workSlugMark  = "{assay:work-slug}" // the folder as a file name, with - for /
	placeMark     = "{assay:place}"     // the folder around it
	placeSlugMark = "{assay:place-slug}"
)

// marksOf are the folders of a request, each followed by its mark. There are none when the request does not tell, or when
// the folder is so near the root that its name says nothing.
func marksOf(request []byte) []string {
	work := workFolder(request)
	var pairs []string
	for _, p := range [][3]string{{work, workMark, workSlugMark}, {path.Dir(work), placeMark, placeSlugMark}} {
		if strings.Count(p[0], "/") >= 2 {
			pairs = append(pairs, p[0], p[1], slug(p[0]), p[2])
		}
	}
	return pairs
}

// withFolders puts the folders of a request into recorded bytes.
func withFolders(recorded, request []byte) []byte {
	if !bytes.Contains(recorded, []byte("{assay:")) {
		return recorded
	}
	pairs := marksOf(request)
	for i := 0; i < len(pairs); i += 2 {
		pairs[i], pairs[i+1] = pairs[i+1], pairs[i]
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(recorded)))
}

// A cleaner takes secrets and folders out of an answer.
type cleaner struct {
	secrets *redact.Redactor
	marks   *strings.Replacer
}

func newCleaner(request []byte, secrets *redact.Redactor) cleaner {
	return cleaner{secrets, strings.NewReplacer(marksOf(request)...)}
}

func (c cleaner) text(s string) string { return c.marks.Replace(c.secrets.String(s)) }

// stream cleans a streamed answer. A model tells a text in small pieces, each within an event of its own, so a secret or a
// path may be in none of them: a text that needs cleaning is told by its first event as a whole. The chunks that come out
// are events.
func (c cleaner) stream(d Dialect, chunks []Chunk) []chunkEntry {
	events := eventsOf(chunks)
	slots := map[string][]slot{}
	for i := range events {
		for _, s := range deltas(d, events[i].object) {
			s.event = &events[i]
			slots[s.key] = append(slots[s.key], s)
		}
	}
	for _, list := range slots {
		c.join(list)
	}
	list := []chunkEntry{}
	var out bytes.Buffer
	w := c.secrets.Writer(&out, nil) // what no event tells as a text; writing to a buffer cannot fail
	for i, e := range events {
		w.Write(e.bytes())
		if i == len(events)-1 {
			w.Close()
		}
		if out.Len() > 0 {
			list = append(list, chunkEntry{e.At.Milliseconds(), blob(c.marks.Replace(out.String()))})
		}
		out.Reset()
	}
	return list
}

// join cleans a text that several events tell.
func (c cleaner) join(list []slot) {
	var whole strings.Builder
	for _, s := range list {
		whole.WriteString(textAt(s.holder, s.field))
	}
	clean := c.text(whole.String())
	if clean == whole.String() {
		return
	}
	for _, s := range list {
		s.holder[s.field] = clean
		s.event.changed = true
		clean = ""
	}
}

// A streamEvent is an event of a stream, with all its bytes.
type streamEvent struct {
	Chunk
	object  object // its data; nil when that is no object
	changed bool
}

// eventsOf cuts a stream into events. One counts as come when its last byte came.
func eventsOf(chunks []Chunk) []streamEvent {
	var events []streamEvent
	var begun []byte
	for i, c := range chunks {
		begun = append(begun, c.Data...)
		for {
			n := eventEnd(begun)
			if n == 0 {
				break
			}
			events = append(events, newEvent(c, begun[:n:n]))
			begun = begun[n:]
		}
		if i == len(chunks)-1 && len(begun) > 0 {
			events = append(events, newEvent(c, begun))
		}
	}
	return events
}

func newEvent(c Chunk, data []byte) streamEvent {
	e := streamEvent{Chunk: Chunk{At: c.At, Data: data}}
	var payload []byte
	for line := range bytes.Lines(data) {
		if rest, is := bytes.CutPrefix(line, []byte("data:")); is {
			payload = append(payload, rest...)
		}
	}
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.UseNumber()
	if dec.Decode(&e.object) != nil {
		e.object = nil
	}
	return e
}

// eventEnd is how long the first event is, 0 when it is not whole. Line ends may be of either kind.
func eventEnd(data []byte) int {
	n := 0
	if i := bytes.Index(data, []byte("\n\n")); i >= 0 {
		n = i + 2
	}
	if i := bytes.Index(data, []byte("\r\n\r\n")); i >= 0 && (n == 0 || i+4 < n) {
		n = i + 4
	}
	return n
}

// bytes are the event, with its data written anew if they were changed.
func (e streamEvent) bytes() []byte {
	if !e.changed {
		return e.Data
	}
	var b bytes.Buffer
	told := false
	for line := range bytes.Lines(e.Data) {
		switch {
		case !bytes.HasPrefix(line, []byte("data:")):
			b.Write(line)
		case !told:
			fmt.Fprintf(&b, "data: %s\n", marshal(e.object))
			told = true
		}
	}
	return b.Bytes()
}

// A slot is the place of a piece of a text in an event. Pieces with one key are one text.
type slot struct {
	key    string
	holder object
	field  string
	event  *streamEvent
}

// deltas finds the pieces of texts in the data of an event.
func deltas(d Dialect, o object) []slot {
	var list []slot
	add := func(holder object, field string, key ...any) {
		if _, is := holder[field].(string); is {
			list = append(list, slot{key: fmt.Sprint(append(key, field)...), holder: holder, field: field})
		}
	}
	switch d {
	case Anthropic:
		for _, field := range []string{"text", "thinking", "partial_json"} {
			add(objectAt(o, "delta"), field, o["index"])
		}
	case Chat:
		for _, choice := range listAt(o, "choices") {
			delta := objectAt(choice, "delta")
			add(delta, "content", at(choice, "index"))
			add(delta, "reasoning_content", at(choice, "index"))
			for _, call := range listAt(delta, "tool_calls") {
				add(objectAt(call, "function"), "arguments", at(choice, "index"), at(call, "index"))
			}
		}
	case Responses:
		add(o, "delta", o["type"], o["output_index"], o["content_index"], o["summary_index"])
	case Gemini:
		for _, candidate := range listAt(o, "candidates") {
			for _, p := range listAt(candidate, "content", "parts") {
				part, _ := p.(object)
				add(part, "text", at(candidate, "index"), part["thought"])
			}
		}
	}
	return list
}
