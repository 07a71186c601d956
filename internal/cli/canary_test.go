package cli

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"crypto/rand"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/redacttest"
	"github.com/assay-ci/assay/internal/result"
)

// A canary is a secret that exists only for one test, so that it can be looked for everywhere. Its characters are such that
// JSON, URLs and shells write it in other ways.
type canary struct{ name, value string }

func newCanary(name string) canary {
	return canary{name, "sk-canary/" + rand.Text()[:20] + `+"q'=`}
}

// forms are the texts in which a canary must be found nowhere: every encoding of it, also with line breaks in it.
func (c canary) forms() map[string][]byte {
	out := map[string][]byte{}
	for _, e := range redacttest.Encodings() {
		text := e.Encode(c.value)
		half := len(text) / 2
		out[e.Name] = []byte(text)
		out[e.Name+brokenForm] = []byte(text[:half/2] + "\n" + text[half/2:half] + "\r\n" + text[half:])
	}
	return out
}

// brokenForm ends the name of a form that has line breaks in it.
const brokenForm = " broken"

// needles are what is searched for, by what it is.
func needles(list []canary) map[string][]byte {
	out := map[string][]byte{}
	for _, c := range list {
		for form, text := range c.forms() {
			out[c.name+" "+form] = text
		}
	}
	return out
}

// found names the needles that a text holds.
func found(needles map[string][]byte, text []byte) (names []string) {
	for name, n := range needles {
		if bytes.Contains(text, n) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// foundBelow searches the names and bytes of all files below some folders.
func foundBelow(needles map[string][]byte, dirs ...string) (hits []string, files int) {
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil // an agent may have made it so, or have just removed it
			}
			hits = append(hits, hitsIn(needles, "the name "+name, []byte(name))...)
			if d.Type().IsRegular() {
				b, _ := os.ReadFile(name)
				files++
				hits = append(hits, hitsIn(needles, name, b)...)
			}
			return nil
		})
	}
	return hits, files
}

func hitsIn(needles map[string][]byte, where string, text []byte) (hits []string) {
	for _, name := range found(needles, text) {
		hits = append(hits, name+" in "+where)
	}
	return hits
}

// masked hides needles from the search for them: an agent has to be told what to look for.
func masked(b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0x55
	}
	return out
}

// A loot is what one agent found. It is written where no redactor is.
type loot struct {
	Hits      []string
	Files     int
	Processes int
	Shown     []string // variables whose names the environment of an ancestor shows, without a value
}

// snoop is the agent that does its worst: it searches the processes of this host and its own place, writes down what it
// found, and then behaves as if it had got the secrets all the same, and tells them wherever it can.
func snoop(args []string) int {
	file, err := os.ReadFile(args[0])
	must(err)
	var told map[string][]byte
	must(json.Unmarshal(masked(file), &told))
	var l loot
	l.searchProcesses(told)
	self, _ := foundBelow(told, os.Getenv("HOME"), os.Getenv("TMPDIR"), ".")
	l.Hits = append(l.Hits, self...)
	place, files := foundBelow(told, filepath.Dir(os.Getenv("HOME")))
	l.Hits, l.Files = append(l.Hits, place...), files
	out, err := json.Marshal(l)
	must(err)
	f, err := os.CreateTemp(args[1], "loot-")
	must(err)
	_, err = f.Write(out)
	must(err)
	must(f.Close())

	leak := bytes.Join(slices.Collect(func(yield func([]byte) bool) {
		for _, text := range told {
			if !yield(text) {
				return
			}
		}
	}), []byte("\n"))
	fmt.Printf("%s\n", leak)
	fmt.Fprintf(os.Stderr, "%s\n", leak)
	must(os.WriteFile("leak.txt", leak, 0o644))
	must(os.WriteFile(os.Getenv("HOME")+"/leak.txt", leak, 0o644))
	must(os.WriteFile(os.Getenv("TMPDIR")+"/leak.txt", leak, 0o644))
	fix()
	return 0
}

// searchProcesses looks at what the kernel tells of every process, and notes which names our ancestors show.
func (l *loot) searchProcesses(told map[string][]byte) {
	ancestors := map[int]bool{}
	for pid := os.Getppid(); pid > 1; pid = parentOf(pid) {
		ancestors[pid] = true
	}
	dirs, err := os.ReadDir("/proc")
	must(err)
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		l.Processes++
		for _, name := range []string{"environ", "cmdline"} {
			b, _ := os.ReadFile(filepath.Join("/proc", d.Name(), name))
			l.Hits = append(l.Hits, hitsIn(told, name, b)...)
			if name != "environ" || !ancestors[pid] {
				continue
			}
			for v := range bytes.SplitSeq(b, []byte{0}) {
				if name, value, ok := bytes.Cut(v, []byte("=")); ok && len(value) == 0 {
					l.Shown = append(l.Shown, string(name))
				}
			}
		}
	}
}

func parentOf(pid int) int {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// A hostile provider wants the right key, and then repeats it wherever it can: in its answers, its errors and its headers.
type hostile struct {
	*httptest.Server
	key canary

	mu          sync.Mutex
	right, fail int // requests with the key: answered, and refused
	wrong       []string
}

// These stand for the key in what the model of a hostile provider says: for all its forms in a text, and for its hex digits
// in a command, from where they would get into the arguments of a process.
const (
	echoMark = "§"
	hexMark  = "¶"
)

// newHostile starts a provider in front of a model that plays a script.
func newHostile(t *testing.T, key canary, models ...gateway.Model) *hostile {
	t.Helper()
	g, err := gateway.New(gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	c, err := g.Open(gateway.Spec{Name: "provider", Models: models})
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(c.URL(gateway.Anthropic))
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{key: key}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.FlushInterval = -1
	proxy.ModifyResponse = h.echo
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(proxy, w, r) }))
	t.Cleanup(h.Close)
	return h
}

func (h *hostile) serve(model http.Handler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	must(err)
	r.Body = io.NopCloser(bytes.NewReader(body))
	given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + r.Header.Get("X-Api-Key")
	refused := bytes.Contains(body, []byte("Fail, please."))
	h.mu.Lock()
	switch {
	case given != h.key.value:
		h.wrong = append(h.wrong, r.Method+" "+r.URL.Path)
	case refused:
		h.fail++
	default:
		h.right++
	}
	h.mu.Unlock()
	if !refused {
		model.ServeHTTP(w, r)
		return
	}
	h.tell(w.Header())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	text, _ := json.Marshal(h.said())
	fmt.Fprintf(w, `{"error":{"type":"invalid_request_error","message":%s},"type":"error"}`, text)
}

// said is the key in every form.
func (h *hostile) said() string {
	var all []string
	for _, text := range h.key.forms() {
		all = append(all, string(text))
	}
	return "the key is " + h.key.value + " or " + strings.Join(all, " or ") // first, since texts are shown up to a length
}

func (h *hostile) tell(header http.Header) {
	for form, text := range h.key.forms() {
		if !strings.HasSuffix(form, brokenForm) {
			header.Set("X-Request-Id-"+form, string(text))
		}
	}
	header.Set("X-Request-Id", "Bearer "+h.key.value)
	header.Set("Retry-After", h.key.value)
}

// echo puts the key into the answer of the model.
func (h *hostile) echo(r *http.Response) error {
	h.tell(r.Header)
	r.Header.Del("Content-Length")
	r.ContentLength = -1
	said, err := json.Marshal(h.said())
	if err != nil {
		return err
	}
	from, in := r.Body, bufio.NewReader(r.Body)
	out, w := io.Pipe()
	go func() {
		key := strings.NewReplacer(echoMark, string(said[1:len(said)-1]), hexMark, hex.EncodeToString([]byte(h.key.value)))
		for {
			line, err := in.ReadString('\n')
			if _, err := io.WriteString(w, key.Replace(line)); err != nil {
				return
			}
			if err != nil {
				w.CloseWithError(err)
				return
			}
		}
	}()
	r.Body = struct {
		io.Reader
		io.Closer
	}{out, closers{from, out}}
	return nil
}

type closers []io.Closer

func (c closers) Close() error {
	for _, one := range c {
		one.Close()
	}
	return nil
}

// A canaryRun is one run of assay with canaries in its environment.
type canaryRun struct {
	*yard
	canaries []canary
	control  canary // in the environment and the arguments of a process that is no part of the run
	needles  map[string][]byte
	provider *hostile
	script   *gateway.Script
}

func newCanaryRun(t *testing.T) *canaryRun {
	y := newYard(t, "")
	r := &canaryRun{yard: y, control: newCanary("CONTROL")}
	for _, name := range []string{"MODEL_ACCESS", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "INPUT_GITHUB-TOKEN"} {
		r.canaries = append(r.canaries, newCanary(name))
	}
	r.needles = needles(r.canaries)
	told := needles(append([]canary{r.control}, r.canaries...))
	list, err := json.Marshal(told)
	must(err)
	must(os.WriteFile(y.path("needles"), masked(list), 0o644))
	for _, dir := range []string{"loot", "home"} {
		must(os.Mkdir(y.path(dir), 0o755))
	}
	command, err := json.Marshal(map[string]string{"command": y.path("bin", "fake-agent") + " " + r.snooping() + " " + hexMark})
	must(err)
	r.script = &gateway.Script{Turns: []gateway.Turn{
		{Say: "Looking, " + echoMark + " is yours.", Calls: []gateway.Call{{Kind: "bash", Input: command}}},
		{Say: "Done. " + echoMark},
	}}
	decoy := exec.Command(y.path("bin", "fake-agent"), "hang", r.control.value)
	decoy.Env = []string{"CONTROL=" + r.control.value}
	must(decoy.Start())
	y.Cleanup(func() { decoy.Process.Kill(); decoy.Wait() })
	return r
}

// snooping are the arguments of the worst agent.
func (r *canaryRun) snooping() string { return "snoop " + r.path("needles") + " " + r.path("loot") }

// start starts assay with the canaries, and waits for its end.
func (r *canaryRun) start(env []string, args ...string) (out string) {
	r.Helper()
	cmd := exec.Command(r.path("bin", "assay"), args...)
	cmd.Dir = r.dir
	cmd.Env = append([]string{
		"PATH=" + strings.Join(append(append(agentPrograms(), r.path("bin")), os.Getenv("PATH")), ":"),
		"TMPDIR=" + r.path("tmp"), "ASSAY_CACHE=" + r.path("cache"), "HOME=" + r.path("home"), quickEnd,
	}, env...)
	for _, c := range r.canaries {
		cmd.Env = append(cmd.Env, c.name+"="+c.value)
	}
	cmd.WaitDelay = 10 * time.Second
	b, err := cmd.CombinedOutput()
	r.Logf("assay %s: %v\n%s", strings.Join(args, " "), err, b)
	return string(b)
}

// decodable fails when somebody who decodes what assay has left, or has printed, finds a canary there.
func (r *canaryRun) decodable(printed string) {
	r.Helper()
	told := map[string]string{"what was printed": printed}
	for _, dir := range []string{"out", "tape"} {
		filepath.WalkDir(r.path(dir), func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				b, err := os.ReadFile(name)
				must(err)
				told[name] = string(b)
			}
			return nil
		})
	}
	var values []string
	for _, c := range r.canaries {
		values = append(values, c.value)
	}
	for where, text := range told {
		if found := redacttest.Find(text, values...); len(found) > 0 {
			r.Errorf("leak: a canary can be decoded from %s, by %v", where, found)
		}
	}
}

// clean fails when a canary is in what was printed or in any file that assay may have written.
func (r *canaryRun) clean(printed string) {
	r.Helper()
	hits, files := foundBelow(r.needles, r.path("out"), r.path("tape"), r.path("cache"), r.path("tmp"), r.path("home"))
	for _, hit := range append(hits, hitsIn(r.needles, "what was printed", []byte(printed))...) {
		r.Errorf("leak: %s", hit)
	}
	if files < 10 {
		r.Errorf("only %d files were searched", files)
	}
	r.decodable(printed)
	if left, err := os.ReadDir(r.path("tmp")); err != nil || len(left) > 0 {
		r.Errorf("the temporary folder holds %v, %v", left, err)
	}
	// The search itself: a file with all forms in the middle of the results is found, every form of it.
	r.write("out/cells/control.bin", "\x00"+string(bytes.Join(slices.Collect(valuesOf(r.needles)), []byte("|")))+"\xff")
	if hits, _ := foundBelow(r.needles, r.path("out")); len(hits) < len(r.needles) {
		r.Errorf("the search finds %d of %d needles", len(hits), len(r.needles))
	}
	must(os.Remove(r.path("out", "cells", "control.bin")))
}

func valuesOf(m map[string][]byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// looted fails when an agent found more than the process that is there to be found.
func (r *canaryRun) looted(agents int) {
	r.Helper()
	names, err := filepath.Glob(r.path("loot", "loot-*"))
	if err != nil || len(names) != agents {
		r.Fatalf("%d agents looked around, want %d: %v", len(names), agents, err)
	}
	for _, name := range names {
		var l loot
		b, err := os.ReadFile(name)
		must(err)
		must(json.Unmarshal(b, &l))
		control := map[string]bool{}
		for _, hit := range l.Hits {
			if control[hit] = true; !strings.HasPrefix(hit, r.control.name) {
				r.Errorf("an agent found %s", hit)
			}
		}
		for _, where := range []string{"environ", "cmdline"} {
			if !control["CONTROL raw in "+where] {
				r.Errorf("an agent did not find the control in %s, so its search says nothing: %v", where, l.Hits)
			}
		}
		// Whoever is not root cannot read the environment of assay at all.
		if os.Geteuid() == 0 {
			for _, c := range r.canaries {
				if !slices.Contains(l.Shown, c.name) {
					r.Errorf("the environment of assay was not looked at: %s is not in %v", c.name, l.Shown)
				}
			}
		}
	}
}

const canarySuite = `
-- suite/suite.yaml --
name: canary
retries: 0
matrix:
  harnesses:
    - {id: own, type: openai, models: [model-c], base_url: "URL/v1", key_env: MODEL_ACCESS}
    - {id: shell, type: command, stdin: prompt, argv: [fake-agent, SNOOP]}
  conditions: [{id: only, baseline: true}]
  trials: 1
limits: {timeout: 1m, max_turns: 9}
-- suite/look/case.yaml --
id: look
prompt: Write FIXED into answer.txt.
source: {path: fixture}
assertions:
  - {id: correct, type: files, present: ["^FIXED"]}
  - {id: shown, type: command, run: "cat leak.txt; cat leak.txt >&2; exit 1"}
-- suite/look/fixture/answer.txt --
BROKEN
-- suite/fail/case.yaml --
id: fail
prompt: Fail, please.
source: {path: fixture}
assertions: [{id: correct, type: files, present: ["^FIXED"]}]
-- suite/fail/fixture/answer.txt --
BROKEN
`

// lay writes the suite, and starts the provider that it names.
func (r *canaryRun) layCanary() {
	r.provider = newHostile(r.T, r.canaries[0], gateway.Model{Name: "model-c", Upstream: gateway.Upstream{Dialect: gateway.Chat, Script: r.script}})
	r.lay(strings.NewReplacer("URL", r.provider.URL, "SNOOP", strings.ReplaceAll(r.snooping(), " ", ", ")).Replace(canarySuite))
}

// served fails when the provider did not get the key that it is paid by: nothing would have been tested.
func (r *canaryRun) served() {
	r.Helper()
	r.provider.mu.Lock()
	defer r.provider.mu.Unlock()
	if r.provider.right < 2 || r.provider.fail < 1 || len(r.provider.wrong) > 0 {
		r.Errorf("the provider got the key %d times, and %d times to fail; without it came %v", r.provider.right, r.provider.fail, r.provider.wrong)
	}
}

// TestA09A24Canary starts assay with keys and tokens that exist nowhere else. Its agents look for them everywhere, its provider
// repeats them, and the agents print them as if they had found them: they must be in no file, no line of output, no
// argument and no environment.
func TestA09A24Canary(t *testing.T) {
	t.Parallel()
	r := newCanaryRun(t)
	r.layCanary()
	out := r.start(nil, "run", "suite", "--out", "out", "--record", "tape", "--jobs", "2")
	r.served()
	r.looted(3)
	r.clean(out)
	for _, name := range []string{"agent.log", "trace.jsonl", "diff.patch", "assertions/shown.log", "result.json"} {
		all, err := filepath.Glob(r.path("out", "cells", "look", "*", "t1*", filepath.FromSlash(name)))
		if err != nil || len(all) != 2 && name != "agent.log" {
			t.Fatalf("%s: %v, %v", name, all, err)
		}
		for _, file := range all {
			if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte("[redacted:MODEL_ACCESS]")) {
				t.Errorf("%s: nothing was taken out of it, so nothing was tested: %v", file, err)
			}
		}
	}
	if !strings.Contains(out, "[redacted:MODEL_ACCESS]") {
		t.Error("nothing was taken out of what was printed, so nothing was tested")
	}
	r.counted()
	out = r.start(nil, "grade", "out", "suite")
	r.clean(out)
	if n := strings.Count(out, "not graded again: a secret was taken out of its patch"); n != 3 {
		t.Errorf("%d cells are said to be graded no more, want all 3 that left a patch", n)
	}
}

// counted fails when a record does not say what was taken out of the files of its cell.
func (r *canaryRun) counted() {
	r.Helper()
	worked := 0
	for dir, res := range r.records("out") {
		for name := range res.Files {
			b, err := os.ReadFile(r.path("out", filepath.FromSlash(dir), filepath.FromSlash(name)))
			must(err)
			// What a model was to tell was clean before it came here.
			marks, counted := bytes.Count(b, []byte("[redacted:")), res.Redacted[name]
			if counted > marks || res.Harness == "shell" && counted < marks {
				r.Errorf("%s: %s has %d marks, and %d are counted", dir, name, marks, counted)
			}
		}
		if res.Redacted[result.PatchName] == 0 {
			continue
		}
		worked++
		if !slices.ContainsFunc(res.Findings, func(f result.Finding) bool { return f.Kind == result.EvidenceRedacted }) {
			r.Errorf("%s: no finding tells that the patch is not what the agent left: %v", dir, res.Findings)
		}
	}
	if worked < 2 {
		r.Errorf("only %d patches had a secret", worked)
	}
}

// TestA09A24CanaryInTheAction does the same in a step of GitHub Actions, where a process of assay starts another one.
func TestA09A24CanaryInTheAction(t *testing.T) {
	t.Parallel()
	r := newCanaryRun(t)
	r.layCanary()
	out := r.start([]string{
		"GITHUB_REPOSITORY=owner/name", "INPUT_MODE=run", "INPUT_SUITE=suite", "INPUT_OUT=out", "INPUT_SHARD=1/1", "GITHUB_WORKSPACE=" + r.dir, "GITHUB_API_URL=" + r.provider.URL,
	})
	r.served()
	r.looted(3)
	r.clean(withoutMasks(out))
}

// TestA24CanaryOnGitHub has everything written to a pull request: what GitHub is sent, the summary and the outputs.
func TestA24CanaryOnGitHub(t *testing.T) {
	t.Parallel()
	r := newCanaryRun(t)
	r.layCanary()
	var mu sync.Mutex
	var sent strings.Builder
	calls := map[string]int{}
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		mu.Lock()
		defer mu.Unlock()
		calls[q.Method]++
		fmt.Fprintf(&sent, "%s %s\n%s\n", q.Method, q.URL, body)
		w.Header().Set("Content-Type", "application/json")
		if q.Method == http.MethodGet {
			io.WriteString(w, "[]")
			return
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"id": 1, "html_url": "https://github.com/owner/name"}`)
	}))
	defer hub.Close()
	r.write("event.json", `{"action": "opened", "repository": {"id": 1, "full_name": "owner/name", "default_branch": "main"}, "pull_request": {"number": 7,
		"head": {"sha": "`+headSHA+`", "ref": "f", "repo": {"id": 1, "full_name": "owner/name"}}, "base": {"sha": "`+baseSHA+`", "ref": "main", "repo": {"id": 1, "full_name": "owner/name"}}}}`)
	must(os.Mkdir(r.path("out"), 0o755))
	out := r.start([]string{
		"GITHUB_ACTIONS=true", "GITHUB_REPOSITORY=owner/name", "INPUT_MODE=auto", "INPUT_SUITE=suite", "INPUT_OUT=out", "INPUT_BASELINE=none",
		"GITHUB_WORKSPACE=" + r.dir, "GITHUB_API_URL=" + hub.URL, "GITHUB_EVENT_NAME=pull_request", "GITHUB_EVENT_PATH=" + r.path("event.json"),
		"GITHUB_OUTPUT=" + r.path("out", "github-output"), "GITHUB_STEP_SUMMARY=" + r.path("out", "github-summary"), "GITHUB_RUN_ID=1", "GITHUB_RUN_ATTEMPT=1",
		"GITHUB_SERVER_URL=https://github.com", "GITHUB_SHA=" + headSHA,
	})
	r.looted(3)
	r.write("out/sent-to-github", sent.String())
	r.clean(withoutMasks(out))
	for _, name := range []string{"out/github-output", "out/github-summary"} {
		r.read(name)
	}
	if calls[http.MethodPost] < 2 || !strings.Contains(sent.String(), "<!-- assay") {
		t.Errorf("GitHub was sent no page, so nothing was tested: %v", calls)
	}
}

// withoutMasks leaves the commands out by which the runner takes tokens out of its log.
func withoutMasks(out string) string {
	var printed strings.Builder
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "::add-mask::") {
			printed.WriteString(line)
		}
	}
	return printed.String()
}

// TestA09CanaryOfRealAgents does the same with agents that are installed here: what they keep in their home, and tell their
// children, is searched too.
func TestA09CanaryOfRealAgents(t *testing.T) {
	for _, agent := range []struct {
		kind, program, model, path string
		dialect                    gateway.Dialect
	}{
		{"claude-code", "claude", "claude-sonnet-4-5", "", gateway.Anthropic},
		{"codex", "codex", "gpt-5.5", "/v1", gateway.Responses},
	} {
		t.Run(agent.kind, func(t *testing.T) {
			if !slices.ContainsFunc(agentPrograms(), func(dir string) bool {
				_, err := os.Stat(filepath.Join(dir, agent.program))
				return err == nil
			}) || !loopbackOnly() {
				t.Skip("real agents run where tools/agents.sh has installed them and only loopback can be reached: make e2e-agents")
			}
			r := newCanaryRun(t)
			r.provider = newHostile(t, r.canaries[0], gateway.Model{Name: agent.model, Upstream: gateway.Upstream{Dialect: agent.dialect, Script: r.script}})
			r.lay(strings.NewReplacer("KIND", agent.kind, "MODEL,", agent.model+",", "URL", r.provider.URL+agent.path).Replace(`
-- suite/suite.yaml --
name: canary
retries: 0
matrix:
  harnesses: [{id: real, type: KIND, models: [MODEL, ], base_url: "URL", key_env: MODEL_ACCESS}]
  conditions: [{id: only, baseline: true}]
  trials: 1
limits: {timeout: 2m, max_turns: 9}
-- suite/look/case.yaml --
id: look
prompt: Write FIXED into answer.txt.
source: {path: fixture}
assertions: [{id: correct, type: files, present: ["^FIXED"]}]
-- suite/look/fixture/answer.txt --
BROKEN
`))
			out := r.start(nil, "run", "suite", "--out", "out", "--record", "tape")
			if r.provider.right < 2 || len(r.provider.wrong) > 0 || !strings.Contains(out, "1 passed") {
				t.Errorf("the provider got the key %d times; without it came %v", r.provider.right, r.provider.wrong)
			}
			r.looted(1)
			r.clean(out)
		})
	}
}
