package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/grade"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/assay-ci/assay/internal/trace"
)

// UseGateway has the agents of the cells call their models through g. Without one, agents that call models cannot run.
func (k *Kit) UseGateway(g *gateway.Gateway) { k.gateway = g }

// AsksPerson tells whether the policy of the suite has a person decide, on a terminal that UseTerminal gives it. Then only
// one cell may run at a time.
func (k *Kit) AsksPerson() bool {
	needy, ok := k.responder.(responder.Needy)
	return ok && needy.Needs().Terminal
}

// UseTerminal has a person answer on t. Without one, a policy that asks a person fails closed.
func (k *Kit) UseTerminal(t responder.Terminal) { k.terminal = t }

// models returns what the agent of a cell may call; none when it calls none, or calls them around us.
func (k *Kit) models(c plan.Cell) ([]gateway.Model, error) {
	caller, ok := k.harnesses[c.Harness].Harness.(harness.Caller)
	if !ok {
		return nil, nil
	}
	t, err := k.task(c)
	if err != nil {
		return nil, err
	}
	return caller.Models(t)
}

// isScripted tells whether a script plays a model of the harness in some case: then its numbers show the tool and no model.
func (k *Kit) isScripted(h suite.Harness) bool {
	for _, m := range h.Models {
		for _, c := range k.suite.Cases {
			models, err := k.models(plan.Cell{Case: c.ID, Harness: h.ID, Model: m, Condition: k.suite.Conditions[0].ID, Trial: 1})
			if err == nil && slices.ContainsFunc(models, func(m gateway.Model) bool { return m.Script != nil }) {
				return true
			}
		}
	}
	return false
}

// KeyNames lists the environment variables that hold the keys of the cells' models, sorted.
func (k *Kit) KeyNames(cells []plan.Cell) ([]string, error) {
	var names []string
	for _, c := range cells {
		models, err := k.models(c)
		if err != nil {
			return nil, err
		}
		for _, m := range slices.Concat(models, k.asideModels(c)) {
			if m.KeyEnv != "" && !m.Side {
				names = append(names, m.KeyEnv)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// lackingKeys finds cells whose models cannot be called for want of a key. getenv is nil when no key is asked for, as in
// a replay.
func (k *Kit) lackingKeys(cells []plan.Cell, getenv func(string) string) ([]Unreachable, error) {
	if getenv == nil {
		return nil, nil
	}
	lacking := map[string][]string{}
	for _, c := range cells {
		models, err := k.models(c)
		if err != nil {
			return nil, suite.Flatten(err)
		}
		for _, m := range slices.Concat(models, k.asideModels(c)) {
			if m.KeyEnv != "" && !m.Side && getenv(m.KeyEnv) == "" && !slices.Contains(lacking[m.KeyEnv], c.Key) {
				lacking[m.KeyEnv] = append(lacking[m.KeyEnv], c.Key)
			}
		}
	}
	var out []Unreachable
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		out = append(out, Unreachable{
			What: "model key " + name, Reason: NoKey, Text: "the environment variable is not set; set it, or name another one as key_env of the harness",
			Required: k.suite.Availability != "optional", Agent: true, Cells: lacking[name],
		})
	}
	return out, nil
}

// upstreamProbes ask each address of a model once whether it is there and takes the key. A scripted model has no address,
// and a key that is not set is told of already.
func (k *Kit) upstreamProbes(cells []plan.Cell, r Reach) ([]probe, error) {
	if r.Keys == nil {
		return nil, nil
	}
	needed := map[gateway.Upstream][]string{}
	for _, c := range cells {
		models, err := k.models(c)
		if err != nil {
			return nil, suite.Flatten(err)
		}
		for _, m := range slices.Concat(models, k.asideModels(c)) {
			keyless := m.KeyEnv != "" && r.Keys(m.KeyEnv) == ""
			keys := needed[m.Upstream]
			if m.Script == nil && !m.Side && !keyless && (len(keys) == 0 || keys[len(keys)-1] != c.Key) {
				needed[m.Upstream] = append(keys, c.Key)
			}
		}
	}
	byAddress := func(a, b gateway.Upstream) int {
		return cmp.Or(cmp.Compare(a.BaseURL, b.BaseURL), cmp.Compare(a.Dialect, b.Dialect), cmp.Compare(a.KeyEnv, b.KeyEnv))
	}
	var probes []probe
	for _, u := range slices.SortedFunc(maps.Keys(needed), byAddress) {
		key := ""
		if u.KeyEnv != "" {
			key = r.Keys(u.KeyEnv)
		}
		probes = append(probes, probe{
			Unreachable{What: "models", Required: k.suite.Availability != "optional", Agent: true, Cells: needed[u]},
			func(ctx context.Context) []error {
				err := gateway.Probe(ctx, r.Transport, u, key)
				switch {
				case err == nil:
					return nil
				case sandbox.Refused(err):
					err = fmt.Errorf("%w; --allow-private-hosts names hosts that may be reached nevertheless", err)
				}
				return []error{err}
			},
		})
	}
	return probes, nil
}

// Prices are those that the suite tells, by model.
func (k *Kit) Prices() map[string]gateway.Price {
	prices := make(map[string]gateway.Price, len(k.suite.Budget.Prices))
	for model, p := range k.suite.Budget.Prices {
		prices[model] = gateway.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
	}
	return prices
}

// CheckPrices refuses a limit of money that could not be held, since a price is not known. budget is that of the run, in US
// dollars; 0 is none.
func (k *Kit) CheckPrices(cells []plan.Cell, budget float64) error {
	prices, asked := k.Prices(), map[string]bool{}
	var faults []error
	for _, c := range cells {
		if budget <= 0 && k.cases[c.Case].Limits.MaxCostUSD <= 0 {
			continue
		}
		own, err := k.models(c)
		if err != nil {
			return err
		}
		models := own
		if budget > 0 {
			models = slices.Concat(own, k.asideModels(c))
		}
		for i, m := range models {
			if _, known := gateway.PriceOf(m.Name, prices); known || asked[m.Name] {
				continue
			}
			asked[m.Name] = true
			msg := fmt.Sprintf("the price of the model %s is not known, so max_cost_usd could not be held", m.Name)
			hint := "say it in suite.yaml, as budget: {prices: {" + m.Name + ": {input: 3, output: 15}}}, in dollars for a million tokens; or take the limit out"
			if i < len(own) {
				faults = append(faults, k.block(c.Harness).Fault("models", msg, hint))
			} else { // of a judge or a policy
				faults = append(faults, suite.Problem{Pos: suite.Pos{File: k.suite.File}, Level: suite.LevelFault, Msg: msg, Hint: hint})
			}
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return suite.Flatten(errors.Join(faults...))
}

// block are the settings of a harness of the suite.
func (k *Kit) block(harness string) suite.Block {
	at := slices.IndexFunc(k.suite.Harnesses, func(h suite.Harness) bool { return h.ID == harness })
	return k.suite.Harnesses[at].Block
}

// CheckGateway refuses agents that call models from a place where the gateway does not answer.
func (k *Kit) CheckGateway(cells []plan.Cell, places executor.Facts) error {
	if !places.NoGateway && places.Network != executor.NetNone {
		return nil
	}
	var faults []error
	asked := map[string]bool{}
	for _, c := range cells {
		kind := k.harnesses[c.Harness].kind
		if kind.Outside || asked[c.Harness] {
			continue
		}
		models, err := k.models(c)
		if err != nil {
			return err
		}
		if len(models) > 0 {
			asked[c.Harness] = true
			faults = append(faults, k.block(c.Harness).Fault("type",
				fmt.Sprintf("the agents of %s call models from their place, and none of the executor %s reaches the gateway", kind.Name, places.Name),
				"use openai, whose loop runs outside of the place, or script; or another executor, or network"))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return suite.Flatten(errors.Join(faults...))
}

// checkModels has each harness say in preflight what its agents may call.
func (k *Kit) checkModels() error {
	var faults []error
	for _, h := range k.suite.Harnesses {
		for _, m := range h.Models {
			for _, cond := range k.suite.Conditions {
				for _, c := range k.suite.Cases {
					_, err := k.models(plan.Cell{Case: c.ID, Harness: h.ID, Model: m, Condition: cond.ID, Trial: 1})
					faults = append(faults, err)
				}
			}
		}
	}
	return errors.Join(faults...)
}

// openDoor opens the cell's door to its models, when its agent calls any.
func (l *life) openDoor(emit func(trace.Event)) error {
	models, err := l.kit.models(l.cell)
	if err != nil {
		return &fault{trace.ClassHarnessConfig, err}
	}
	if len(models) == 0 {
		return nil
	}
	if l.kit.gateway == nil {
		return &fault{trace.ClassHarnessConfig, errors.New("its agent calls models, and there is no gateway")}
	}
	if l.proof, err = l.kit.proofOf(l.cell); err != nil {
		return &fault{trace.ClassCondition, err}
	}
	l.door, err = l.kit.gateway.Open(gateway.Spec{
		Name:     l.doorName(),
		Models:   models,
		MaxTurns: l.task.Limits.MaxTurns, MaxCostUSD: l.task.Limits.MaxCostUSD,
		Markers: l.proof.markers, Emit: emit,
	})
	if err != nil {
		return &fault{trace.ClassHarnessConfig, err}
	}
	l.request.Gateway = l.door
	return nil
}

func (l *life) doorName() string {
	return fmt.Sprintf("%s/%s-%s-%s/t%d", l.cell.Case, l.cell.Harness, l.cell.Model, l.cell.Condition, l.cell.Trial)
}

// respond is the policy of the suite, with what it needs to decide in this cell.
func (l *life) respond() responder.Responder {
	if ruled, ok := l.kit.responder.(responder.Ruled); ok {
		l.ruled = ruled.Fresh()
		return l.ruled
	}
	needy, ok := l.kit.responder.(responder.Needy)
	if !ok {
		return l.kit.responder
	}
	r := responder.Resources{Terminal: l.kit.terminal}
	if m := needy.Needs().Model; m != nil {
		zero := 0.0
		r.Complete = func(ctx context.Context, system, user string) (string, error) {
			door, err := l.beside("responder")
			if err != nil {
				return "", err
			}
			return door.Complete(ctx, "responder", gateway.Prompt{Model: policyModel(m), System: system, User: user, Temperature: &zero})
		}
	}
	return needy.With(r)
}

// policyModel is where the model of a policy is.
func policyModel(m *responder.Model) gateway.Model {
	d := gateway.Dialect(m.Dialect)
	baseURL, keyEnv := gateway.Provider(d)
	return gateway.Model{Name: m.Name, Upstream: gateway.Upstream{
		Dialect: d, BaseURL: cmp.Or(m.BaseURL, baseURL), KeyEnv: cmp.Or(m.KeyEnv, keyEnv),
	}}
}

// judge asks a model about the work of the cell.
func (l *life) judge(ctx context.Context, r grade.JudgeRequest) (string, error) {
	door, err := l.beside("judge")
	if err != nil {
		return "", err
	}
	return l.kit.judgeBy(ctx, door, r)
}

// judgeBy asks a judge through a door.
func (k *Kit) judgeBy(ctx context.Context, door *gateway.Cell, r grade.JudgeRequest) (string, error) {
	return door.Complete(ctx, "judge", gateway.Prompt{Model: k.judgeModel(r.Model), System: r.System, User: r.User})
}

// judgeModel is where the model of a judge is: with the agents under test when one of them has it, else with the provider
// that its name tells. A case cannot name an address, since its author may be a stranger who wants the key.
func (k *Kit) judgeModel(name string) gateway.Model {
	for _, h := range k.suite.Harnesses {
		if !slices.Contains(h.Models, name) || len(k.suite.Cases) == 0 || len(k.suite.Conditions) == 0 {
			continue
		}
		models, err := k.models(plan.Cell{Case: k.suite.Cases[0].ID, Harness: h.ID, Model: name, Condition: k.suite.Conditions[0].ID, Trial: 1})
		if err == nil && len(models) > 0 && models[0].Script == nil {
			return models[0]
		}
	}
	d := gateway.Chat
	switch {
	case strings.HasPrefix(name, "claude"):
		d = gateway.Anthropic
	case strings.HasPrefix(name, "gemini"):
		d = gateway.Gemini
	}
	baseURL, keyEnv := gateway.Provider(d)
	return gateway.Model{Name: name, Upstream: gateway.Upstream{Dialect: d, BaseURL: baseURL, KeyEnv: keyEnv}}
}

// asideModels are those that a cell's policy and judges ask.
func (k *Kit) asideModels(c plan.Cell) []gateway.Model {
	var models []gateway.Model
	if needy, ok := k.responder.(responder.Needy); ok && needy.Needs().Model != nil {
		models = append(models, policyModel(needy.Needs().Model))
	}
	for _, g := range k.cases[c.Case].graders {
		if j, ok := g.Grader.(grade.Judging); ok {
			models = append(models, k.judgeModel(j.JudgeModel()))
		}
	}
	return models
}

// closeDoor ends the calls of the cell and holds it against what was seen.
func (l *life) closeDoor() error {
	if l.door == nil {
		return nil
	}
	seen := l.door.Close()
	l.door, l.request.Gateway = nil, nil
	if err := l.proven(seen); err != nil {
		return err
	}
	if seen.Mismatch != "" {
		return &fault{trace.ClassCassette, errors.New(seen.Mismatch)}
	}
	return nil
}

// An mcpServer is one entry of a condition's mcp: a program that is started in the place, or an address.
type mcpServer struct {
	Argv []string          `yaml:"argv" doc:"the program and its arguments"`
	Env  map[string]string `yaml:"env" doc:"environment of the program" rule:"env"`
	URL  string            `yaml:"url" doc:"address of a running server, instead of argv"`
}

// mcpServers are the tool servers of a condition, by name.
func mcpServers(c suite.Condition) ([]harness.MCPServer, error) {
	servers := map[string]mcpServer{}
	if err := c.MCP.Decode(&servers); err != nil {
		return nil, err
	}
	var out []harness.MCPServer
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		if (len(s.Argv) == 0) == (s.URL == "") {
			return nil, c.MCP.Fault(name, "an MCP server needs argv or url, and not both", "such as "+name+": {argv: [my-server]}")
		}
		out = append(out, harness.MCPServer{Name: name, Argv: s.Argv, Env: pairs(s.Env), URL: s.URL})
	}
	return out, nil
}
