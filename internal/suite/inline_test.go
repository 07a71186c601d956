package suite

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type shared struct {
	URL  string `yaml:"url" default:"http://x" doc:"address"`
	Need string `yaml:"need" rule:"required" doc:"a name"`
}

type embedding struct {
	First  string `yaml:"first"`
	shared `yaml:",inline"`
	Last   string `yaml:"last"`
}

func TestInlineFieldsBelongToTheMappingThatEmbedsThem(t *testing.T) {
	t.Parallel()
	var got embedding
	if err := block(t, "{id: x, type: sample, need: n, last: l}").Decode(&got); err != nil {
		t.Fatal(err)
	}
	if want := (embedding{shared: shared{URL: "http://x", Need: "n"}, Last: "l"}); got != want {
		t.Errorf("decoded %+v, want %+v", got, want)
	}
	err := block(t, "{id: x, type: sample, ned: n, shared: {}}").Decode(&embedding{})
	for _, want := range []string{"need is missing", `unknown key "ned"`, "did you mean need?", `unknown key "shared"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestInlineFieldsAreDescribed(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range Describe(embedding{}) {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"first", "url", "need", "last"}, names); diff != "" {
		t.Error(diff)
	}
	text, err := Schema(Kinds{Harnesses: []Kind{{"sample", "a sample", embedding{}}}})
	if err != nil {
		t.Fatal(err)
	}
	s := compiled(t, text)
	for suite, good := range map[string]bool{
		`{"name": "x", "matrix": {"harnesses": [{"id": "a", "type": "sample", "need": "n", "url": "http://y"}]}}`: true,
		`{"name": "x", "matrix": {"harnesses": [{"id": "a", "type": "sample"}]}}`:                                 false,
		`{"name": "x", "matrix": {"harnesses": [{"id": "a", "type": "sample", "need": "n", "shared": {}}]}}`:      false,
	} {
		var v any
		if err := json.Unmarshal([]byte(suite), &v); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != good {
			t.Errorf("%s: %v", suite, err)
		}
	}
}
