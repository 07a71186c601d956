package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/trace"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gopkg.in/yaml.v3"
)

// A realAgent is what is known of a harness of evals/agents.yaml, whose id is also its name for tools/agents.sh.
type realAgent struct {
	basePath   string // what the address of its models ends with
	cacheWrite int64  // tokens of one scripted call; 0: its provider does not tell
	output     int64
	reasoning  int64 // 0: its provider does not tell
	asides     int64 // calls that it makes beside those of the script, for a title
	costs      bool  // its model has the prices of dollars
	shellReads bool  // it has no tool for reading but its shell
}

var realAgents = map[string]realAgent{
	"claude":     {cacheWrite: 30, output: 50, costs: true},
	"claude-acp": {cacheWrite: 30, output: 50, costs: true},
	"codex":      {basePath: "/v1", output: 50, reasoning: 7, shellReads: true},
	"codex-acp":  {basePath: "/v1", output: 50, reasoning: 7},
	"gemini":     {output: 57, reasoning: 7},
	"opencode":   {basePath: "/v1", output: 50, reasoning: 7, asides: 1},
}

// usage is what a cell of n scripted calls uses in all. Input grows by one a call, so that one which is counted twice or not
// at all shows.
func (a realAgent) usage(n int64) *trace.Usage {
	all := n + a.asides
	told := func(each int64) *int64 {
		if each == 0 {
			return nil
		}
		sum := each * all
		return &sum
	}
	input := 1000*all + n*(n-1)/2
	u := &trace.Usage{
		Input: &input, CacheRead: told(200), CacheWrite: told(a.cacheWrite), Output: told(a.output), Reasoning: told(a.reasoning),
		Scope: "session", Source: "gateway",
	}
	if a.costs {
		u.CostUSD = dollars(u)
	}
	return u
}

// dollars is the price of tokens at 3, 15, 0.30 and 3.75 USD a million.
func dollars(u *trace.Usage) *float64 {
	usd := (3*float64(*u.Input) + 15*float64(*u.Output) + 0.30*float64(*u.CacheRead) + 3.75*float64(*u.CacheWrite)) / 1e6
	return &usd
}

// TestRealAgents has real agents repair the demo cases while scripts play their models. Every cell passes the hidden tests
// with the very change of the reference patch, and uses the tokens of the script's calls. Then the same cases get their
// models from a server that shares no code with Assay, and the results are the same. ASSAY_CASES selects cases, as --case does.
func TestRealAgents(t *testing.T) {
	y, agents := newAgentYard(t)
	var some []string
	if cases := os.Getenv("ASSAY_CASES"); cases != "" {
		some = []string{"--case", cases}
	}
	y.realRun("reference", "evals/admission.yaml", append(some, "--harness", "reference")...)
	reference := map[string]*diffscope.Scope{}
	for _, r := range y.records("reference") {
		reference[r.Case] = r.DiffScope
	}

	some = append(some, "--harness", strings.Join(agents, ","))
	y.realRun("own", "evals/agents.yaml", some...)
	own := y.records("own")
	if want := len(reference) * len(agents) * 2; len(own) != want || want == 0 {
		t.Fatalf("%d cells of %d cases and the agents %v", len(own), len(reference), agents)
	}
	versions := pinnedVersions(t)
	for dir, r := range own {
		t.Run(coordinate(r), func(t *testing.T) {
			checkRealCell(t, r, reference[r.Case], y.modelTurns(r.Case), versions[r.Harness])
			checkLanes(t, y.path("own", dir, "trace.jsonl"), y.modelTurns(r.Case), realAgents[r.Harness])
		})
	}

	base := y.startModels(slices.Sorted(maps.Keys(reference)))
	y.write("evals/served.yaml", servedSuite(y.read("evals/agents.yaml"), base))
	y.realRun("served", "evals/served.yaml", append(some, "--condition", "without_skill")...)
	served := map[string]result.Result{}
	for _, r := range y.records("served") {
		served[coordinate(r)] = r
	}
	for _, r := range own {
		if r.Condition != "without_skill" {
			continue
		}
		t.Run("served "+coordinate(r), func(t *testing.T) {
			if diff := gocmp.Diff(measured(r), measured(served[coordinate(r)]), sameCost); diff != "" {
				t.Errorf("with the other server of models (+) the cell differs:\n%s", diff)
			}
		})
	}
}

// checkRealCell checks what the record of a cell says.
func checkRealCell(t *testing.T, r result.Result, reference *diffscope.Scope, turns []modelTurn, version string) {
	if r.Status != result.Passed || r.Agent.Stop != trace.StopEndTurn {
		t.Errorf("the cell %s, the agent stopped by %s: %s", r.Status, r.Agent.Stop, r.Detail)
	}
	for _, s := range r.Scores {
		want := s.ID != "looked_first" || !realAgents[r.Harness].shellReads
		if s.Passed == nil || *s.Passed != want {
			t.Errorf("%s: %s%s; want passed %v", s.ID, s.Evidence, s.Error, want)
		}
	}
	if diff := gocmp.Diff(reference, r.DiffScope); reference == nil || diff != "" {
		t.Errorf("the change (+) is not that of the reference:\n%s", diff)
	}
	want := realAgents[r.Harness].usage(int64(len(turns)))
	var ignored gocmp.Options
	if want.CostUSD == nil {
		ignored = append(ignored, cmpopts.IgnoreFields(trace.Usage{}, "CostUSD"))
	}
	if diff := gocmp.Diff(want, r.Agent.Usage, sameCost, ignored); diff != "" {
		t.Errorf("usage of %d calls:\n%s", len(turns), diff)
	}
	if r.ConditionVerified == nil || !*r.ConditionVerified {
		t.Errorf("the condition was not seen in the agent's requests")
	}
	if r.Agent.Version != version {
		t.Errorf("version %q, and %q was installed", r.Agent.Version, version)
	}
	if len(r.Agent.Survivors) > 0 || r.Attempt != 1 {
		t.Errorf("attempt %d, survivors %v", r.Attempt, r.Agent.Survivors)
	}
}

// sameCost compares dollars, which are sums of fractions.
var sameCost = gocmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })

// checkLanes checks that the trace of a cell has the calls of the script, and no others than it may.
func checkLanes(t *testing.T, file string, turns []modelTurn, agent realAgent) {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	main, others := 0, int64(0)
	for e, err := range trace.Read(f) {
		switch {
		case err != nil:
			t.Error(err)
		case e.Kind == trace.KindModelCall && e.Call.Lane == "main":
			main++
		case e.Kind == trace.KindModelCall:
			others++
		}
	}
	if main != len(turns) || others != agent.asides {
		t.Errorf("%d calls of the script and %d others; want %d and %d", main, others, len(turns), agent.asides)
	}
}

func coordinate(r result.Result) string {
	return strings.Join([]string{r.Case, r.Harness, r.Condition}, " ")
}

// measured is what a cell shows of its agent's work, without what differs from run to run.
func measured(r result.Result) result.Result {
	r.Agent.Swept = 0     // processes that were about to end anyway
	r.Agent.Started = nil // a time
	return result.Result{
		Status: r.Status, Class: r.Class, Score: r.Score, Scores: r.Scores, DiffScope: r.DiffScope, TraceChurn: r.TraceChurn,
		Agent: r.Agent, ConditionVerified: r.ConditionVerified, Findings: r.Findings,
	}
}

// newAgentYard makes a yard with the demo cases, and returns which real agents are installed. ASSAY_REQUIRE=agents makes it
// a failure when something is missing.
func newAgentYard(t *testing.T) (*yard, []string) {
	t.Helper()
	var agents []string
	for _, folder := range agentPrograms() {
		if _, err := os.Stat(folder); err != nil {
			withoutAgents(t, err.Error())
		}
		agents = append(agents, filepath.Base(filepath.Dir(filepath.Dir(folder))))
	}
	switch {
	case runtime.GOOS != "linux":
		t.Skip("network namespaces are of Linux")
	case len(agents) == 0:
		withoutAgents(t, "ASSAY_AGENTS does not name a folder of installed agents")
	case !loopbackOnly():
		withoutAgents(t, "an agent could reach more than loopback here")
	case os.Getenv("ASSAY_MODELSERVER") == "":
		withoutAgents(t, "ASSAY_MODELSERVER does not name a scripted model server")
	}
	t.Setenv("PATH", strings.Join(append(agentPrograms(), os.Getenv("PATH")), string(os.PathListSeparator)))
	y := newYard(t, "")
	must(os.CopyFS(y.path("evals"), os.DirFS("../../evals")))
	return y, agents
}

func withoutAgents(t *testing.T, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("ASSAY_REQUIRE"), ","), "agents") {
		t.Fatal(why)
	}
	t.Skip(why + "; make e2e-agents does it all")
}

// realRun runs a suite to its end. It may take as long as the test may.
func (y *yard) realRun(out, suite string, args ...string) {
	y.Helper()
	s := y.startAt(suite, out, args...)
	<-s.done
	y.Logf("%s", s.out.String())
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		y.Errorf("assay run %s ended with %d", suite, code)
	}
}

// pinnedVersions are the versions that tools/agents.sh installs, by agent.
func pinnedVersions(t *testing.T) map[string]string {
	script, err := os.ReadFile("../../tools/agents.sh")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t([a-z-]+)\) package=\S+@([0-9.]+) `).FindAllStringSubmatch(string(script), -1) {
		versions[m[1]] = m[2]
	}
	return versions
}

// A modelTurn is one of agent/model.yaml, as far as the demo cases use them.
type modelTurn struct {
	Think, Say string
	Calls      []map[string]yaml.Node // one member each: the kind and its input
}

func (y *yard) modelTurns(name string) []modelTurn {
	y.Helper()
	var script struct{ Turns []modelTurn }
	if err := yaml.Unmarshal([]byte(y.read("evals/"+name+"/agent/model.yaml")), &script); err != nil {
		y.Fatal(err)
	}
	return script.Turns
}

// servedSuite is a suite whose models are at a server instead of in the files of the cases.
func servedSuite(suite, base string) string {
	var b strings.Builder
	for line := range strings.Lines(suite) {
		if _, rest, is := strings.Cut(line, "{id: "); is {
			id, _, _ := strings.Cut(rest, ",")
			line = strings.ReplaceAll(line, "model_script: agent/model.yaml",
				fmt.Sprintf("base_url: %q, key_env: SCRIPTED_MODELS_KEY", base+"/s/by-prompt"+realAgents[id].basePath))
		}
		b.WriteString(line)
	}
	return b.String()
}

// startModels starts the independent model server with the scripts of all cases and returns its address.
func (y *yard) startModels(cases []string) string {
	y.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		withoutAgents(y.T, "there is no python3 for the scripted model server")
	}
	y.Setenv("SCRIPTED_MODELS_KEY", "any-key-is-fine-with-the-scripted-models")
	scripts, err := json.Marshal(y.scenarios(cases))
	must(err)
	y.write("scripts.json", string(scripts))
	port := freePorts(y.T)
	const workFolder = `(/[\w.+/-]*/p\d+/work)(?![\w.+-])` // of a place; gemini speaks of another folder of that name in its home
	server := exec.Command(python, os.Getenv("ASSAY_MODELSERVER"), fmt.Sprint(port), y.path("models"), workFolder, "--scripts", y.path("scripts.json"))
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	must(err)
	must(server.Start())
	y.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		y.Fatalf("the model server said %q: %v", line, err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", port)
}

// freePorts returns a port that is free together with the next one, which the model server takes too.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		must(err)
		port := l.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port+1))
		l.Close()
		if err == nil {
			next.Close()
			return port
		}
	}
	t.Fatal("no two ports are free")
	return 0
}

// scenarios are the scripts of the cases in the form of the model server. It finds the one to play by the first line of the
// case's prompt.
func (y *yard) scenarios(cases []string) map[string]any {
	y.Helper()
	list := map[string]any{}
	for _, name := range cases {
		var c struct{ Prompt string }
		must(yaml.Unmarshal([]byte(y.read("evals/"+name+"/case.yaml")), &c))
		prompt, _, _ := strings.Cut(c.Prompt, "\n")
		turns := [][]any{}
		for _, t := range y.modelTurns(name) {
			turns = append(turns, t.parts())
		}
		list[name] = map[string]any{"prompt": prompt, "turns": turns}
	}
	return list
}

// parts are the parts of a turn in the form of the model server.
func (t modelTurn) parts() []any {
	var parts []any
	if t.Think != "" {
		parts = append(parts, []any{"think", t.Think})
	}
	if t.Say != "" {
		parts = append(parts, []any{"text", t.Say})
	}
	for _, call := range t.Calls {
		for kind, node := range call {
			parts = append(parts, []any{"call", kind, serverInput(kind, node)})
		}
	}
	return parts
}

// serverInput is the input of a call in the form of the model server.
func serverInput(kind string, node yaml.Node) map[string]any {
	switch kind {
	case "read", "bash":
		var text string
		must(node.Decode(&text))
		if kind == "read" {
			return map[string]any{"path": text}
		}
		return map[string]any{"cmd": text, "desc": "run"}
	case "edit":
		var in map[string]any
		must(node.Decode(&in))
		return in
	case "plan":
		return map[string]any{"items": planItems(node)}
	}
	panic("the model server has no call " + kind)
}

func planItems(node yaml.Node) [][]string {
	var plan struct{ Items []yaml.Node }
	must(node.Decode(&plan))
	var items [][]string
	for _, n := range plan.Items {
		item := struct{ Text, Status string }{Text: n.Value}
		if n.Kind == yaml.MappingNode {
			must(n.Decode(&item))
		}
		items = append(items, []string{item.Text, cmp.Or(item.Status, "pending")})
	}
	return items
}

// TestAgentScripts holds each script of a demo case's model against the reference patch: after its edits, and before any agent
// had a hand in it, the fixture is what the patch makes of it.
func TestAgentScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../evals/*/agent/model.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	y := &yard{t, t.TempDir()}
	must(os.CopyFS(y.path("evals"), os.DirFS("../../evals")))
	for _, file := range files {
		name := filepath.Base(filepath.Dir(filepath.Dir(file)))
		y.playEdits(name)
		y.applyReference(name)
	}
}

// playEdits does the edits of a case's script in a copy of its fixture.
func (y *yard) playEdits(name string) {
	y.Helper()
	tree := filepath.Join("played", name)
	must(os.CopyFS(y.path(tree), os.DirFS(y.path("evals", name, "fixture"))))
	for _, turn := range y.modelTurns(name) {
		for _, call := range turn.Calls {
			node, is := call["edit"]
			if !is {
				continue
			}
			var e struct{ Path, Old, New string }
			must(node.Decode(&e))
			text := y.read(filepath.Join(tree, e.Path))
			if n := strings.Count(text, e.Old); n != 1 {
				y.Errorf("%s: the text of an edit is %d times in %s:\n%s", name, n, e.Path, e.Old)
			}
			y.write(filepath.Join(tree, e.Path), strings.Replace(text, e.Old, e.New, 1))
		}
	}
}

// applyReference holds the played tree against the fixture with the reference patch.
func (y *yard) applyReference(name string) {
	y.Helper()
	tree := filepath.Join("patched", name)
	must(os.CopyFS(y.path(tree), os.DirFS(y.path("evals", name, "fixture"))))
	git := exec.Command("git", "apply", y.path("evals", name, "reference.patch"))
	git.Dir = y.path(tree)
	if out, err := git.CombinedOutput(); err != nil {
		y.Errorf("%s: %v\n%s", name, err, out)
	}
	if diff := gocmp.Diff(y.content(tree), y.content(filepath.Join("played", name))); diff != "" {
		y.Errorf("%s: the script's edits (+) do not make what the reference patch makes:\n%s", name, diff)
	}
}
