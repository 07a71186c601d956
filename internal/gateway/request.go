package gateway

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/trace"
)

// maxBody is the largest request or answer in bytes, after unpacking.
const maxBody = 64 << 20

// A request is one call of a model as an agent sent it.
type request struct {
	route
	header http.Header
	query  string // without keys
	body   []byte // unpacked, otherwise as it came
	stream bool
	model  string
	tools  bool   // it offers tools
	agent  string // the agent's own name for the sub-agent that speaks; empty: none
	system digest // of the system prompt
	first  digest // of the first message of the user
	asked  bool   // for the usage of a chat stream, or there is no need to ask
	fields map[string]json.RawMessage
}

// A digest stands for a text; the zero digest for none.
type digest [sha256.Size]byte

// readRequest reads and understands the request of an agent. The error is the agent's, in words for it.
func readRequest(rt route, r *http.Request) (*request, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	q, err := newRequest(rt, body)
	if err != nil {
		return nil, err
	}
	q.header = r.Header
	q.query = forwardedQuery(r.URL.Query())
	q.agent = r.Header.Get("X-Claude-Code-Agent-Id")
	return q, nil
}

func readBody(r *http.Request) ([]byte, error) {
	src := io.Reader(r.Body)
	switch enc := r.Header.Get("Content-Encoding"); enc {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, errors.New("the body of the request is not gzip, as its header says")
		}
		src = z
	default:
		return nil, fmt.Errorf("the body of the request is encoded as %q; send it plain or as gzip", trace.Shorten(enc, 40))
	}
	body, err := io.ReadAll(io.LimitReader(src, maxBody+1))
	if err != nil {
		return nil, errors.New("the body of the request could not be read to its end")
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("the request has more than %d MiB", maxBody>>20)
	}
	return body, nil
}

func newRequest(rt route, body []byte) (*request, error) {
	fields, err := topLevel(body)
	if err != nil {
		return nil, err
	}
	q := &request{route: rt, body: body, model: rt.model, stream: rt.stream, asked: true, fields: fields, header: http.Header{}}
	if rt.dialect == Gemini {
		q.tools = hasItems(fields["tools"])
		q.system, q.first = digestOf(fields["systemInstruction"], fields["system_instruction"]), digestOf(item(fields["contents"], "user"))
		return q, nil
	}
	if json.Unmarshal(fields["model"], &q.model) != nil {
		return nil, errors.New("the request names no model")
	}
	q.stream = string(fields["stream"]) == "true"
	q.tools = hasItems(fields["tools"])
	switch rt.dialect {
	case Anthropic:
		q.system, q.first = digestOf(fields["system"]), digestOf(item(fields["messages"], "user"))
	case Chat:
		q.tools = q.tools || hasItems(fields["functions"])
		q.system = digestOf(item(fields["messages"], "system"), item(fields["messages"], "developer"))
		q.first = digestOf(item(fields["messages"], "user"))
		q.asked = !q.stream || asksForUsage(fields["stream_options"])
	case Responses:
		q.tools = q.tools || bytes.Contains(fields["input"], []byte(`"additional_tools"`))
		q.system, q.first = digestOf(fields["instructions"]), digestOf(item(fields["input"], "user"))
	}
	return q, nil
}

// topLevel returns the members of a JSON object. A name that stands twice is an error: whoever reads the request after us
// could take the other one.
func topLevel(body []byte) (map[string]json.RawMessage, error) {
	notObject := errors.New("the request is not a JSON object")
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, notObject
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, notObject
		}
		name, _ := t.(string)
		if _, twice := fields[name]; twice {
			return nil, fmt.Errorf("the request has the member %q twice", trace.Shorten(name, 40))
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, notObject
		}
		fields[name] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, notObject
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, notObject
	}
	return fields, nil
}

func hasItems(raw json.RawMessage) bool { return len(firstItems(raw, 1)) > 0 }

// firstItems returns the first items of an array, at most n. What follows is not read: a history is long, and its beginning
// tells whose it is.
func firstItems(raw json.RawMessage, n int) []json.RawMessage {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil
	}
	var items []json.RawMessage
	for len(items) < n && dec.More() {
		var item json.RawMessage
		if dec.Decode(&item) != nil {
			return items
		}
		items = append(items, item)
	}
	return items
}

// item returns the content of the first message of a role near the beginning, or a message that is a string alone.
func item(raw json.RawMessage, role string) json.RawMessage {
	if len(raw) > 0 && raw[0] == '"' && role == "user" {
		return raw
	}
	for _, m := range firstItems(raw, 8) {
		var head struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
			Parts   json.RawMessage `json:"parts"`
		}
		if json.Unmarshal(m, &head) == nil && (head.Role == role || head.Role == "" && role == "user" && len(head.Parts) > 0) {
			return append(head.Content, head.Parts...)
		}
	}
	return nil
}

// digestOf is the digest of the texts in some JSON values.
func digestOf(raws ...json.RawMessage) digest {
	h, wrote := sha256.New(), false
	for _, raw := range raws {
		texts(raw, maxNested, func(s string) {
			// claude-code begins its system prompt with a line of its own accounting that may differ in every request.
			if !strings.HasPrefix(s, "x-anthropic-billing-header:") {
				fmt.Fprintf(h, "%d:%s", len(s), s)
				wrote = true
			}
		})
	}
	var d digest
	if wrote {
		h.Sum(d[:0])
	}
	return d
}

// maxNested is how deep the texts of a prompt may lie in lists and blocks. No agent nests more than three; each level is read
// again for the next, so a tower of them must not be.
const maxNested = 6

// texts calls f with each text of a prompt: a string, or blocks and parts that have one. Marks beside the texts, such as
// those of a cache, move from request to request and are left out.
func texts(raw json.RawMessage, levels int, f func(string)) {
	var s string
	var list []json.RawMessage
	var block struct {
		Text  json.RawMessage   `json:"text"`
		Parts []json.RawMessage `json:"parts"`
	}
	switch {
	case len(raw) == 0 || levels == 0:
	case raw[0] == '"' && json.Unmarshal(raw, &s) == nil:
		f(s)
	case raw[0] == '[' && json.Unmarshal(raw, &list) == nil:
		for _, e := range list {
			texts(e, levels-1, f)
		}
	case raw[0] == '{' && json.Unmarshal(raw, &block) == nil:
		if len(block.Text) > 0 && block.Text[0] == '"' {
			texts(block.Text, levels-1, f)
		}
		for _, e := range block.Parts {
			texts(e, levels-1, f)
		}
	}
}

func asksForUsage(raw json.RawMessage) bool {
	var o struct {
		IncludeUsage bool `json:"include_usage"`
	}
	return json.Unmarshal(raw, &o) == nil && o.IncludeUsage
}

// upstreamBody is what goes to the provider: the bytes that came, but for a chat stream that does not ask for its usage.
func (q *request) upstreamBody() ([]byte, error) {
	if q.asked {
		return q.body, nil
	}
	options := map[string]json.RawMessage{}
	if raw, ok := q.fields["stream_options"]; ok && string(raw) != "null" && json.Unmarshal(raw, &options) != nil {
		return nil, errors.New("stream_options of the request is not an object")
	}
	options["include_usage"] = json.RawMessage("true")
	fields := map[string]json.RawMessage{}
	for name, raw := range q.fields {
		fields[name] = raw
	}
	fields["stream_options"] = mustJSON(options)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(fields); err != nil {
		return nil, fmt.Errorf("the request could not be written again: %w", err)
	}
	return b.Bytes(), nil
}

// unmet returns the markers that a request does not meet, as sentences.
func (q *request) unmet(markers []Marker) []string {
	text := folded(allTexts(q.body))
	tools := q.offered(text)
	var out []string
	for _, m := range markers {
		found, verb := strings.Contains(text, folded(m.Text)), "did not reach the model"
		if m.Tool {
			found = slices.ContainsFunc(tools, func(name string) bool {
				return strings.HasPrefix(name, m.Text) || name == strings.TrimRight(m.Text, "_")
			})
			verb = "its tools were not offered to the model"
		}
		switch {
		case m.Wanted && !found:
			out = append(out, m.Of+": "+verb)
		case !m.Wanted && found:
			out = append(out, m.Of+": reached the model, and this condition does not have it")
		}
	}
	return out
}

// allTexts is every string of a JSON text, with a blank after each.
func allTexts(body []byte) string {
	var all strings.Builder
	for dec := json.NewDecoder(bytes.NewReader(body)); ; {
		t, err := dec.Token()
		if err != nil {
			return all.String()
		}
		if s, ok := t.(string); ok {
			all.WriteString(s)
			all.WriteByte(' ')
		}
	}
}

// offered returns the names of the tools that the request offers, and of the groups that they are in. text is the whole
// request as one line: codex keeps tools back and gives the names of their groups there, each a word that begins with mcp__.
func (q *request) offered(text string) []string {
	var names []string
	if r, err := readAsked(q.dialect, q.body); err == nil {
		for _, t := range r.tools {
			names = append(names, t.name, t.namespace)
		}
	}
	for word := range strings.FieldsSeq(text) {
		if strings.HasPrefix(word, "mcp__") {
			names = append(names, strings.TrimRight(word, ".,:;"))
		}
	}
	return names
}

// folded is a text with every run of white space as one space.
func folded(s string) string { return strings.Join(strings.Fields(s), " ") }
