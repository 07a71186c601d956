package gateway

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	const key = "secret-of-the-provider"
	tests := map[string]struct {
		dialect Dialect
		status  int
		body    string
		path    string
		header  string
		reason  string // empty: it is there
	}{
		"anthropic":                      {Anthropic, 200, "{}", "/v1/models", "X-Api-Key", ""},
		"chat":                           {Chat, 200, "{}", "/models", "Authorization", ""},
		"gemini":                         {Gemini, 200, "{}", "/v1beta/models", "X-Goog-Api-Key", ""},
		"no list":                        {Chat, 404, "", "/models", "Authorization", ""},
		"overloaded":                     {Anthropic, 529, "", "/v1/models", "X-Api-Key", ""},
		"a redirect is not followed":     {Chat, 302, "", "/models", "Authorization", ""},
		"wrong key":                      {Responses, 401, `{"error": {}}`, "/models", "Authorization", "no_auth"},
		"forbidden":                      {Gemini, 403, "", "/v1beta/models", "X-Goog-Api-Key", "no_auth"},
		"a key that may not list models": {Chat, 403, `{"error": "Missing scopes: api.model.read"}`, "/models", "Authorization", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = append(asked, r.Method+" "+r.URL.Path+" "+strings.TrimPrefix(r.Header.Get(tt.header), "Bearer "))
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			defer server.Close()
			err := Probe(t.Context(), nil, Upstream{Dialect: tt.dialect, BaseURL: server.URL + "/", KeyEnv: "KEY"}, key+"\n")
			if len(asked) != 1 || asked[0] != "GET "+tt.path+" "+key {
				t.Errorf("asked %q", asked)
			}
			var u *Unavailable
			switch {
			case tt.reason == "" && err != nil:
				t.Error(err)
			case tt.reason != "" && (!errors.As(err, &u) || u.Reason != tt.reason || strings.Contains(err.Error(), key)):
				t.Errorf("got %v, want %s", err, tt.reason)
			}
		})
	}
}

func TestProbeOfNobody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	plain := httptest.NewTLSServer(http.NotFoundHandler()) // with a certificate that nobody vouches for
	defer plain.Close()
	for address, reason := range map[string]string{
		server.URL:                   "no_network",
		plain.URL:                    "unknown",
		"http://127.0.0.1:no-port/x": "unknown",
	} {
		var u *Unavailable
		if err := Probe(t.Context(), nil, Upstream{Dialect: Chat, BaseURL: address}, ""); !errors.As(err, &u) || u.Reason != reason {
			t.Errorf("%s: got %v, want %s", address, err, reason)
		}
	}
}
