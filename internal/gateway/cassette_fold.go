package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/assay-ci/assay/internal/redact"
)

// Folding takes out of a request what differs between two runs that are the same: two recordings of a cell, or a recording
// and its replay in another folder, on another day.
//
//	where                                    what                                              becomes
//	anthropic   metadata                     device, account and session                       left out
//	chat        metadata, user,              who asks, and keys of caches                      left out
//	            safety_identifier,
//	            prompt_cache_key
//	responses   the same, client_metadata    installation, thread, turn and window             left out
//	gemini      labels                       who asks                                          left out
//	everywhere  id, call_id, item_id,        ids, which join calls with results                {id 1}, {id 2} … as they
//	            tool_use_id, tool_call_id,                                                     first come
//	            response_id,
//	            previous_response_id
//	any text    the folder that the agent    also as file names have it, with - for /          {work}
//	            says it works in
//	            the folder around it         where HOME, TMPDIR and the settings are           {place}
//	            http://127.0.0.1:…/c/…       the address of the gateway                        {gateway}
//	            UUIDs                                                                          {uuid}
//	            dates and times              2026-11-21T23:22:40Z, Nov 21 23:22, 23:22:40      {date}, {time}
//	            durations                    0.52s, 12 ms, Wall time: 0.5                      {duration}
//	            process ids                  PID: 4711                                         {pid}
//	            hex of 7 to 64 digits        commits, digests; also long numbers               {hex}
//	            chunk ids of codex                                                             {chunk}
//	responder,  the code of the lines        new for each call, so that no agent can end them  {nonce}
//	judge       around what an agent wrote
//	            the folders of a place       in what the agent wrote                           {place}/work, …
//
// Everything else is compared: model, prompts, tools, messages, settings.
type folder struct {
	paths *strings.Replacer
	ids   map[string]int
}

// foldClean takes the secrets out of a request, and folds it: the other way round, a part of a secret could be folded and
// the rest be seen. The result is JSON.
func foldClean(x Exchange, secrets *redact.Redactor) []byte {
	request := secrets.Bytes(x.Request)
	if ours(x.Lane) {
		request = foldOurs(request)
	}
	return fold(x.Dialect, request)
}

var foldPlaces = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:/[^/\s"'\\<>]+)+/p\d{4,}/(work|home|tmp|env)\b`)
})

var foldNonces = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`=== BEGIN DATA ([0-9A-Za-z]{16,}) ===`)
})

// foldOurs folds what only requests of our own lanes have. An agent may write such a line itself; folding it hides one code
// from the comparison, and nothing else.
func foldOurs(request []byte) []byte {
	for _, found := range foldNonces().FindAllSubmatch(request, -1) {
		request = bytes.ReplaceAll(request, found[1], []byte("{nonce}"))
	}
	return foldPlaces().ReplaceAll(request, []byte("{place}/$1"))
}

func digestFolded(folded []byte) string { return fmt.Sprintf("%x", sha256.Sum256(folded)) }

// fold returns the folded request as JSON with sorted members; one that is no JSON becomes a text.
func fold(d Dialect, request []byte) []byte {
	f := folder{paths: foldPaths(workFolder(request)), ids: map[string]int{}}
	dec := json.NewDecoder(bytes.NewReader(request))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || dec.More() {
		return marshal(f.text(string(request)))
	}
	if o, is := v.(object); is {
		for _, name := range aside(d) {
			delete(o, name)
		}
	}
	return marshal(f.value("", v))
}

// aside are the members of a request that say who asks, not what.
func aside(d Dialect) []string {
	switch d {
	case Anthropic:
		return []string{"metadata"}
	case Chat:
		return []string{"metadata", "user", "safety_identifier", "prompt_cache_key"}
	case Responses:
		return []string{"metadata", "user", "safety_identifier", "prompt_cache_key", "client_metadata"}
	}
	return []string{"labels"}
}

// value folds a member and what is in it.
func (f *folder) value(name string, v any) any {
	switch v := v.(type) {
	case object:
		for _, key := range slices.Sorted(maps.Keys(v)) { // sorted, so that ids are met in one order
			v[key] = f.value(key, v[key])
		}
	case []any:
		for i := range v {
			v[i] = f.value("", v[i])
		}
	case string:
		switch name {
		case "id", "call_id", "item_id", "tool_use_id", "tool_call_id", "response_id", "previous_response_id":
			return f.id(v)
		}
		return f.text(v)
	}
	return v
}

func (f *folder) id(v string) string {
	if f.ids[v] == 0 {
		f.ids[v] = len(f.ids) + 1
	}
	return fmt.Sprintf("{id %d}", f.ids[v])
}

// text folds a text, line by line. Nearly all that is folded has a digit, and most lines have none.
func (f *folder) text(text string) string {
	text = f.paths.Replace(text)
	if !strings.ContainsAny(text, digits) {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.ContainsAny(line, digits) || strings.Contains(line, "hunk") {
			line = foldLine(line)
		}
		b.WriteString(line)
	}
	return b.String()
}

const digits = "0123456789"

type foldRule struct {
	expr *regexp.Regexp
	with string
}

// foldRules are applied in order. Group 1 of an expression stays.
var foldRules = sync.OnceValue(func() []foldRule {
	var list []foldRule
	for _, r := range [][2]string{
		{`()\bhttps?://(?:127\.0\.0\.1|localhost|\[::1\]):\d+(?:/c/[\w-]+)?`, "{gateway}"},
		{`()\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b`, "{uuid}"},
		{`()\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?: ?Z|[+-]\d\d:?\d\d| [+-]\d{4})?)?`, "{date}"},
		{`()(?:\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* +\d{1,2}\b` +
			`(?:,? \d{4}\b)?(?: \d\d:\d\d(?::\d\d)?)?(?: \d{4}\b)?(?: [+-]\d{4})?`, "{date}"},
		{`()\b\d?\d:\d\d:\d\d(?:\.\d+)?`, "{time}"},
		{`(?i)(\bwall[ _]time(?:_seconds)?\W{1,6})\d[\d.e-]*`, "{duration}"},
		{`(?i)(\bchunk[ _]id\W{1,6})[0-9a-f]+`, "{chunk}"},
		{`()\b\d+(?:\.\d+)? ?(?:ms|µs|s|secs?|seconds?|minutes?)\b`, "{duration}"},
		{`(?i)(\bp[gp]?ids?\W{1,3})\d+`, "{pid}"},
	} {
		list = append(list, foldRule{regexp.MustCompile(r[0]), "${1}" + r[1]})
	}
	return list
})

var foldHex = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[0-9a-f]{7,64}\b`) })

func foldLine(line string) string {
	for _, r := range foldRules() {
		line = r.expr.ReplaceAllString(line, r.with)
	}
	return foldHex().ReplaceAllStringFunc(line, func(word string) string {
		if strings.ContainsAny(word, digits) {
			return "{hex}"
		}
		return word // defaced
	})
}

// foldPaths replaces the work folder and the one around it, unless that is the root or just below it.
func foldPaths(work string) *strings.Replacer {
	var pairs []string
	add := func(folder, name string) {
		if strings.Count(folder, "/") < 2 {
			return
		}
		pairs = append(pairs, folder, name)
		pairs = append(pairs, slug(folder), name)
	}
	add(work, "{work}")
	add(path.Dir(work), "{place}")
	return strings.NewReplacer(pairs...)
}

// slug is a folder as agents make a file name of it.
func slug(folder string) string {
	return strings.Map(func(c rune) rune {
		if c < 0x80 && (c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
			return c
		}
		return '-'
	}, folder)
}
