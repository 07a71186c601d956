package report

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of OTLP's messages that we write are few and fixed by its first version, so they are written here field by
// field. The types made from its definition would cost every start of assay their registration, and the binary 1.8 MB; the
// tests read what is written here with them.

// otlpRequest is an ExportTraceServiceRequest of spans that are encoded already.
func otlpRequest(resource []Attribute, tool string, spans [][]byte) []byte {
	scope := appendText(nil, 1, "github.com/assay-ci/assay")
	scope = appendText(scope, 2, tool)
	scoped := appendMessage(nil, 1, scope)
	for _, s := range spans {
		scoped = appendMessage(scoped, 2, s)
	}
	rs := appendMessage(nil, 1, appendAttributes(nil, 1, resource))
	return appendMessage(nil, 1, appendMessage(rs, 2, scoped))
}

// otlpSpan is a Span message.
func otlpSpan(s Span) []byte {
	b := appendBytes(nil, 1, s.Trace[:])
	b = appendBytes(b, 2, s.ID[:])
	if s.Parent != ([8]byte{}) {
		b = appendBytes(b, 4, s.Parent[:])
	}
	b = appendText(b, 5, s.Name)
	kind := uint64(1) // internal
	if s.Client {
		kind = 3
	}
	b = appendNumber(b, 6, kind)
	b = appendTime(b, 7, s.Start)
	b = appendTime(b, 8, s.End)
	b = appendAttributes(b, 9, s.Attributes)
	for _, e := range s.Events {
		event := appendTime(nil, 1, e.At)
		event = appendText(event, 2, e.Name)
		b = appendMessage(b, 11, appendAttributes(event, 3, e.Attributes))
	}
	if s.Failed {
		b = appendMessage(b, 15, appendNumber(appendText(nil, 2, cutText(s.Message)), 3, 2))
	}
	return b
}

func appendAttributes(b []byte, field protowire.Number, list []Attribute) []byte {
	for _, a := range list {
		pair := appendText(nil, 1, a.Key)
		b = appendMessage(b, field, appendMessage(pair, 2, otlpValue(a.Value)))
	}
	return b
}

// otlpValue is an AnyValue message.
func otlpValue(v any) []byte {
	switch v := v.(type) {
	case string:
		return appendBytes(nil, 1, []byte(strings.ToValidUTF8(v, "\uFFFD")))
	case bool:
		return protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), protowire.EncodeBool(v))
	case int64:
		return protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), uint64(v))
	case float64:
		return protowire.AppendFixed64(protowire.AppendTag(nil, 4, protowire.Fixed64Type), math.Float64bits(v))
	case []string:
		var list []byte
		for _, s := range v {
			list = appendMessage(list, 1, otlpValue(s))
		}
		return appendMessage(nil, 5, list)
	}
	panic(fmt.Sprintf("report: an attribute is a %T", v))
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return appendBytes(b, field, []byte(strings.ToValidUTF8(s, "\uFFFD")))
}

func appendMessage(b []byte, field protowire.Number, message []byte) []byte {
	return appendBytes(b, field, message)
}

func appendBytes(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// appendTime writes nanoseconds since 1970.
func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(max(0, t.UnixNano())))
}

// readOTLPAnswer gives the number of rejected spans and why, out of the answer to a request that succeeded.
func readOTLPAnswer(contentType string, body []byte) (rejected int64, why string, err error) {
	switch {
	case len(body) == 0:
		return 0, "", nil // the empty message: all was taken
	case strings.HasPrefix(contentType, "application/json"):
		return readJSONAnswer(body)
	case strings.HasPrefix(contentType, "application/x-protobuf"):
		return readProtobufAnswer(body)
	}
	return 0, "", fmt.Errorf("the answer is %q, which is not OTLP", clean(contentType, nameSize))
}

func readJSONAnswer(body []byte) (int64, string, error) {
	var answer struct {
		Partial struct {
			Rejected json.Number `json:"rejectedSpans"` // an int64 is a string in protobuf's JSON; json.Number takes both
			Message  string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, "", fmt.Errorf("the answer is not OTLP: %w", err)
	}
	if answer.Partial.Rejected == "" {
		return 0, answer.Partial.Message, nil
	}
	n, err := answer.Partial.Rejected.Int64()
	return n, answer.Partial.Message, err
}

func readProtobufAnswer(body []byte) (rejected int64, why string, err error) {
	err = eachField(body, func(field protowire.Number, number uint64, message []byte) error {
		if field != 1 || message == nil {
			return nil
		}
		return eachField(message, func(field protowire.Number, number uint64, text []byte) error {
			switch {
			case field == 1 && text == nil:
				rejected = int64(number)
			case field == 2 && text != nil:
				why = string(text)
			}
			return nil
		})
	})
	if err != nil {
		return 0, "", fmt.Errorf("the answer is not OTLP: %w", err)
	}
	return rejected, why, nil
}

// eachField gives the fields of a message: numbers with a nil message, messages and texts as bytes that are not nil.
func eachField(b []byte, do func(field protowire.Number, number uint64, message []byte) error) error {
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var number uint64
		var message []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			message, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
			field = 0 // nothing that we know
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if field == 0 {
			continue
		}
		if err := do(field, number, message); err != nil {
			return err
		}
	}
	return nil
}

// MarshalJSON is a span for a person to read: ids in hexadecimal, times in RFC 3339.
func (s Span) MarshalJSON() ([]byte, error) {
	type event struct {
		At         time.Time      `json:"at"`
		Name       string         `json:"name"`
		Attributes map[string]any `json:"attributes"`
	}
	out := struct {
		Trace      string         `json:"trace_id"`
		ID         string         `json:"span_id"`
		Parent     string         `json:"parent_span_id,omitempty"`
		Name       string         `json:"name"`
		Kind       string         `json:"kind"`
		Start      time.Time      `json:"start"`
		End        time.Time      `json:"end"`
		Error      string         `json:"error,omitempty"`
		Failed     bool           `json:"failed,omitempty"`
		Attributes map[string]any `json:"attributes"`
		Events     []event        `json:"events,omitempty"`
	}{
		Trace: hex.EncodeToString(s.Trace[:]), ID: hex.EncodeToString(s.ID[:]), Name: s.Name, Kind: "internal",
		Start: s.Start, End: s.End, Error: s.Message, Failed: s.Failed, Attributes: attributeMap(s.Attributes),
	}
	if s.Parent != ([8]byte{}) {
		out.Parent = hex.EncodeToString(s.Parent[:])
	}
	if s.Client {
		out.Kind = "client"
	}
	for _, e := range s.Events {
		out.Events = append(out.Events, event{e.At, e.Name, attributeMap(e.Attributes)})
	}
	return json.Marshal(out)
}

func attributeMap(list []Attribute) map[string]any {
	out := make(map[string]any, len(list))
	for _, a := range list {
		out[a.Key] = a.Value
	}
	return out
}
