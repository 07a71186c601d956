package suite

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// block reads settings as they stand below an assertion.
func block(t testing.TB, yaml string) Block {
	t.Helper()
	src, root, problems := parse("case.yaml", []byte(yaml))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	d := decoder{src: src}
	var a Assertion
	d.structure(root, reflect.ValueOf(&a).Elem(), "")
	if len(d.problems) > 0 {
		t.Fatal(d.problems)
	}
	return a.Block
}

type step struct {
	Run   string         `yaml:"run,short" doc:"a line"`
	Sleep *time.Duration `yaml:"sleep" rule:"min=1s,max=1m"`
	At    Pos
}

type settings struct {
	Text    string            `yaml:"text" default:"none"`
	Word    string            `yaml:"word" rule:"oneof=red green"`
	Yes     bool              `yaml:"yes_or_no" default:"true"`
	Count   *int              `yaml:"count" rule:"min=0"`
	Big     int64             `yaml:"big"`
	Share   float64           `yaml:"share" rule:"above=0,max=1"`
	Timeout time.Duration     `yaml:"timeout" default:"15m"`
	Regexes []string          `yaml:"regexes" rule:"regex"`
	Globs   []string          `yaml:"globs" rule:"glob"`
	Equal   map[string]string `yaml:"equal" rule:"path,pathkeys"`
	Env     map[string]string `yaml:"env" rule:"env"`
	Steps   []step            `yaml:"steps" rule:"required" doc:"what to do"`
	Free    any               `yaml:"free"`
	Nil     any               `yaml:"nil"`
	Off     *struct {
		N int `yaml:"n" default:"3"`
	} `yaml:"off" rule:"off"`
	Inner struct {
		Deep string `yaml:"deep" default:"down"`
	} `yaml:"inner"`
}

func TestDecode(t *testing.T) {
	b := block(t, `
id: x
type: sample
weight: 2
word: green
count: 0
big: 9000000000
share: 1e-1
regexes: ["^a+$"]
globs: ["**/*.go"]
equal: {a/b.txt: want/b.txt}
env: {HOME_DIR: /x}
steps:
  - make test
  - run: make
    sleep: 30s
free: {a: [1, 2.5, "3", true, null]}
nil: null
off: {}
`)
	var got settings
	if err := b.Decode(&got); err != nil {
		t.Fatal(err)
	}
	zero, half := 0, 30*time.Second
	want := settings{
		Text: "none", Word: "green", Yes: true, Count: &zero, Big: 9000000000, Share: 0.1, Timeout: 15 * time.Minute,
		Regexes: []string{"^a+$"}, Globs: []string{"**/*.go"}, Equal: map[string]string{"a/b.txt": "want/b.txt"},
		Env:   map[string]string{"HOME_DIR": "/x"},
		Steps: []step{{Run: "make test", At: Pos{"case.yaml", 14, 5}}, {Run: "make", Sleep: &half, At: Pos{"case.yaml", 15, 5}}},
		Free:  map[string]any{"a": []any{int64(1), 2.5, "3", true, nil}},
	}
	want.Off = &struct {
		N int `yaml:"n" default:"3"`
	}{3}
	want.Inner.Deep = "down"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeReportsEveryFault(t *testing.T) {
	tests := map[string]struct {
		yaml string
		want []string // first lines of the problems
	}{
		"nothing": {"", []string{`1:1: steps is missing`}},
		"values": {"steps: [make]\nword: blue\ncount: -1\nshare: 0\ntimeout: 1\n", []string{
			`2:7: word: found "blue", want red or green`,
			`3:8: count: -1 is less than 0`,
			`4:8: share: 0 is not above 0`,
			`5:10: timeout: found the number 1, want a duration such as 90s or 10m`,
		}},
		"elements": {"regexes: [a, '(', b, '[']\nglobs: ['']\nequal: {../x: y, a: /b}\nenv: {CI_TOKEN: x}\nsteps: [{sleep: 1h}, 3]\n", []string{
			`1:14: regexes[1]: missing closing ): ` + "`(`",
			`1:22: regexes[3]: missing closing ]: ` + "`[`",
			`2:9: globs[0]: "" is not a glob`,
			`3:9: equal: "../x" leads out of its folder`,
			`3:21: equal.a: "/b" is absolute`,
			`4:7: CI_TOKEN never passes to a cell`,
			`5:17: sleep: 1h is more than 1m`,
			`5:22: steps[1]: found the number 3, want a mapping`,
		}},
		"the suite's keys are not seen, others are unknown": {"steps: [x]\nguard: true\ntpye: y\n", []string{`3:1: unknown key "tpye"`}},
		"numbers": {"steps: [x]\nbig: 1_000\ncount: 99999999999999999999\nshare: .nan\noff: 3\n", []string{
			`2:6: big: found the number 1_000, want a whole number`,
			`3:8: count: found the number 99999999999999999999, want a whole number`,
			`4:8: share: found the number .nan, want a number`,
			`5:6: off: found the number 3, want a mapping or off`,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := block(t, test.yaml+"type: sample\nid: x\n")
			var problems Problems
			if err := b.Decode(new(settings)); !errors.As(err, &problems) {
				t.Fatalf("got %v", err)
			}
			var got []string
			for _, p := range problems {
				first, _, _ := strings.Cut(p.Error(), "\n")
				got = append(got, strings.TrimPrefix(first, "case.yaml:"))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestZeroBlock(t *testing.T) {
	var b Block
	var got struct {
		Timeout time.Duration `yaml:"timeout" default:"1m"`
	}
	if err := b.Decode(&got); err != nil || got.Timeout != time.Minute {
		t.Errorf("decoded %+v, %v", got, err)
	}
	if err := b.Decode(new(step)); err != nil {
		t.Errorf("a struct with a position: %v", err)
	}
	b.Kind = "sample"
	if err := b.Decode(new(settings)); err == nil || err.Error() != "sample: steps is missing\nhint: what to do" {
		t.Errorf("got %v", err)
	}
	if err := b.Fault("x.y[3]", "wrong", ""); err.Error() != "wrong" {
		t.Errorf("got %v", err)
	}
	if got := string(b.Canonical()); got != `{"kind":"sample","settings":{}}` {
		t.Errorf("canonical is %s", got)
	}
}

func TestBlockFaults(t *testing.T) {
	b := block(t, "id: x\ntype: smaple\nsteps:\n  - run: make\n  - run: \"test it\"\nequal: {src/a.go: b, src: c}\n")
	tests := map[string]struct {
		err  error
		want string
	}{
		"a key":               {b.Fault("id", "m", ""), "case.yaml:1:5: m\n  id: x\n      ^"},
		"a path":              {b.Fault("steps[1].run", "m", "h"), "case.yaml:5:10: m\n    - run: \"test it\"\n           ^~~~~~~~~\nhint: h"},
		"a list":              {b.Fault("steps", "m", ""), "case.yaml:4:3: m\n    - run: make\n    ^"},
		"an element":          {b.Fault("steps[0]", "m", ""), "case.yaml:4:5: m\n    - run: make\n      ^~~"},
		"a key with dots":     {b.Fault("equal.src/a.go", "m", ""), "case.yaml:6:19: m\n  equal: {src/a.go: b, src: c}\n                    ^"},
		"an unknown key":      {b.Fault("nothing", "m", ""), "case.yaml:1:1: m\n  id: x\n  ^~"},
		"an unknown element":  {b.Fault("steps[7]", "m", ""), "case.yaml:1:1: m\n  id: x\n  ^~"},
		"a path of nonsense":  {b.Fault("steps[x]..[", "m", ""), "case.yaml:1:1: m\n  id: x\n  ^~"},
		"a kind with a typo":  {b.UnknownKind([]string{"script", "sample"}), "case.yaml:2:7: unknown type \"smaple\"\n  type: smaple\n        ^~~~~~\nhint: did you mean sample?"},
		"a kind of nowhere":   {b.UnknownKind([]string{"echo", "null"}), "case.yaml:2:7: unknown type \"smaple\"\n  type: smaple\n        ^~~~~~\nhint: known: echo, null"},
		"no kind at all":      {Block{Kind: "x"}.UnknownKind(nil), "unknown type \"x\""},
		"a policy by its key": {Block{Kind: "x", kindKey: "policy"}.UnknownKind(nil), "unknown policy \"x\""},
	}
	for name, test := range tests {
		if got := test.err.Error(); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

func TestCanonicalIgnoresHowItIsWritten(t *testing.T) {
	same := []string{
		"{id: x, type: k, a: 1, b: [yes, 'x'], c: {d: 1.50}}",
		"# comment\nc:\n  d: 1.5 # again\nb:\n- 'yes'\n- x\na: 1.0\ntype: k\nid: other\nweight: 3",
		"{id: x, type: 'k', a: +1, b: [\"yes\", \"\\x78\"], c: {d: 15e-1}}",
	}
	for _, text := range same {
		if got, want := string(block(t, text).Canonical()), `{"kind":"k","settings":{"a":1,"b":["yes","x"],"c":{"d":1.5}}}`; got != want {
			t.Errorf("%s\nis %s\nwant %s", text, got, want)
		}
	}
	for _, text := range []string{"{id: x, type: k, a: '1', b: [yes, x], c: {d: 1.5}}", "{id: x, type: k, a: 1, b: [x, yes], c: {d: 1.5}}", "{id: x, type: l, a: 1, b: [yes, x], c: {d: 1.5}}"} {
		if string(block(t, text).Canonical()) == string(block(t, same[0]).Canonical()) {
			t.Errorf("%s has the canonical form of %s", text, same[0])
		}
	}
}

func TestEnvironmentNames(t *testing.T) {
	for name, allowed := range map[string]bool{
		"PATH": true, "TOKENS": true, "GITHUB": true, "MY_INPUT_X": true, "_X1": true,
		"GITHUB_TOKEN": false, "actions_x": false, "RUNNER_TEMP": false, "Input_X": false, "A_TOKEN": false, "_TOKEN": false,
		"SSH_AUTH_SOCK": false, "DOCKER_HOST": false, "1X": false, "A-B": false, "": false, "A=B": false,
	} {
		fsys := fstest.MapFS{"b.yaml": {Data: []byte("env: {\"" + name + "\": x}\n")}}
		b, err := ReadBlock(fsys, "b.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Env map[string]string `yaml:"env" rule:"env"`
		}
		if err := b.Decode(&got); (err == nil) != allowed {
			t.Errorf("%q: %v", name, err)
		}
	}
}
