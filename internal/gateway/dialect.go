package gateway

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// A route is what the path of a request asks for.
type route struct {
	dialect Dialect
	path    string // below the base URL of an upstream
	model   string // only gemini names it in the path
	stream  bool   // the path asks for a stream; the other dialects say so in the body
	count   bool   // counts tokens only, and costs nothing
}

// routeOf understands a path below the address of a cell.
func routeOf(p string) (route, bool) {
	switch p = path.Clean(p); p {
	case "/v1/messages":
		return route{dialect: Anthropic, path: p}, true
	case "/v1/messages/count_tokens":
		return route{dialect: Anthropic, path: p, count: true}, true
	case "/v1/chat/completions":
		return route{dialect: Chat, path: "/chat/completions"}, true
	case "/v1/responses":
		return route{dialect: Responses, path: "/responses"}, true
	}
	call, ok := strings.CutPrefix(p, "/v1beta/models/")
	colon := strings.LastIndexByte(call, ':')
	if !ok || colon < 1 {
		return route{}, false
	}
	r := route{dialect: Gemini, model: call[:colon]}
	switch verb := call[colon+1:]; verb {
	case "generateContent":
	case "streamGenerateContent":
		r.stream = true
	case "countTokens":
		r.count = true
	default:
		return route{}, false
	}
	r.path = "/v1beta/models/" + url.PathEscape(r.model) + call[colon:]
	return r, true
}

// basePath is what the base URL of a dialect ends with, both ours and that of a provider.
func (d Dialect) basePath() string {
	if d == Chat || d == Responses {
		return "/v1"
	}
	return ""
}

func (d Dialect) known() bool {
	return d == Anthropic || d == Chat || d == Responses || d == Gemini
}

// authorize sets the key in the way of the dialect.
func (d Dialect) authorize(h http.Header, key string) {
	switch {
	case key == "":
	case d == Anthropic:
		h.Set("X-Api-Key", key)
	case d == Gemini:
		h.Set("X-Goog-Api-Key", key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
}

// notForwarded are the headers of an agent that stay here: its keys, what belongs to one connection, and what we say
// ourselves. They are in the canonical form.
func notForwarded(name string) bool {
	switch name {
	case "Authorization", "X-Api-Key", "X-Goog-Api-Key", "X-Goog-User-Project", "Api-Key", "Cookie",
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect",
		"Host", "Content-Length", "Content-Encoding", "Accept-Encoding", "Forwarded":
		return true
	}
	return strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "X-Forwarded-")
}

// notReturned are the headers of an upstream that stay here.
func notReturned(name string) bool {
	switch name {
	case "Set-Cookie", "Location", "Connection", "Keep-Alive", "Trailer", "Transfer-Encoding", "Upgrade", "Alt-Svc",
		"Content-Length", "Content-Encoding", "Strict-Transport-Security", "Www-Authenticate":
		return true
	}
	return strings.HasPrefix(name, "Proxy-")
}

// forwardedQuery is the query of a request without a key.
func forwardedQuery(q url.Values) string {
	for _, name := range []string{"key", "api_key", "access_token"} {
		q.Del(name)
	}
	return q.Encode()
}

// endBody is the answer that ends an agent: in one body, what each dialect looks for in an error that must not be tried
// again. Every agent that was measured stopped at it.
func endBody(why string) []byte {
	type inner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Code    int    `json:"code"`
		Status  string `json:"status"`
	}
	return mustJSON(struct {
		Type  string `json:"type"`
		Error inner  `json:"error"`
	}{"error", inner{"invalid_request_error", "assay: " + why, http.StatusBadRequest, "INVALID_ARGUMENT"}})
}

// deadBody is the answer for an upstream that could not be reached, before the cell is ended for it: worth another try.
func deadBody() []byte {
	return []byte(`{"type":"error","error":{"type":"api_error","message":"assay: the model could not be reached","code":502,"status":"UNAVAILABLE"}}`)
}

// modelsBody lists the models of a cell, in one document for the dialects that ask.
func modelsBody(models []Model) []byte {
	type row struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Type    string `json:"type"`
		Name    string `json:"display_name"`
		Created int    `json:"created"`
		Owner   string `json:"owned_by"`
	}
	rows := []row{}
	for _, m := range models {
		rows = append(rows, row{m.Name, "model", "model", m.Name, 0, "assay"})
	}
	return mustJSON(struct {
		Object  string   `json:"object"`
		Data    []row    `json:"data"`
		HasMore bool     `json:"has_more"`
		Models  []string `json:"models"` // codex asks for its own list, and takes an empty one
	}{"list", rows, false, []string{}})
}

// mustJSON encodes what is known to be encodable.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("gateway: " + err.Error())
	}
	return b
}

// Provider is where the provider of a dialect is, as it documents its address, and the environment variable in which its
// users keep their key.
func Provider(d Dialect) (baseURL, keyEnv string) {
	switch d {
	case Anthropic:
		return "https://api.anthropic.com", "ANTHROPIC_API_KEY"
	case Gemini:
		return "https://generativelanguage.googleapis.com", "GEMINI_API_KEY"
	}
	return "https://api.openai.com/v1", "OPENAI_API_KEY"
}
