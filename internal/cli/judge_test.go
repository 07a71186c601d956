package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// startModel serves a model over Chat Completions on loopback and sets $MODEL_URL to its address. It allows what it is asked to
// allow, and judges work by whether it says good; as the model yes-man it finds that all of it is. Each answer used 1000
// tokens of input and 100 of output. It wants the key
// "secret-of-the-model".
func startModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: model")
	}
	server := httptest.NewServer(http.HandlerFunc(modelAnswers))
	ts.Defer(server.Close)
	ts.Setenv("MODEL_URL", server.URL+"/v1")
}

func modelAnswers(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer secret-of-the-model" {
		http.Error(w, `{"error": {"message": "no key"}}`, http.StatusUnauthorized)
		return
	}
	var q struct {
		Model    string
		Messages []struct{ Content string }
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &q) != nil || len(q.Messages) != 2 {
		http.Error(w, `{"error": {"message": "not what was expected"}}`, http.StatusBadRequest)
		return
	}
	answer := map[string]any{"choice": "allow", "reason": "It is harmless."}
	if user := q.Messages[1].Content; strings.HasPrefix(q.Messages[0].Content, "You judge") {
		answer = map[string]any{"verdict": "does_not_hold", "quotes": []string{}, "reason": "It is not good."}
		if word := regexp.MustCompile(`good|bad`).FindString(user[strings.Index(user, "BEGIN DATA"):]); word == "good" || q.Model == "yes-man" {
			answer = map[string]any{"verdict": "holds", "quotes": []string{word}, "reason": "It is good."}
		}
	}
	content, _ := json.Marshal(answer)
	text, _ := json.Marshal(string(content))
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id": "1", "object": "chat.completion", "model": %q, "choices": [{"index": 0, "message": {"role": "assistant", "content": %s}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1000, "completion_tokens": 100}}`, q.Model, text)
}
