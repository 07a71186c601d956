package suite

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"strconv"
)

// A sum takes named parts into one digest. Every part is written with its length, so parts cannot run into each other.
type sum struct{ h hash.Hash }

func newSum() sum { return sum{sha256.New()} }

func (s sum) text(parts ...string) {
	for _, p := range parts {
		s.h.Write(strconv.AppendInt(nil, int64(len(p)), 10))
		s.h.Write([]byte{':'})
		s.h.Write([]byte(p))
	}
}

// value takes settings as JSON: sorted keys, no comments, no formatting.
func (s sum) value(name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the values are ours and hold nothing that JSON cannot
	}
	s.text(name, string(data))
}

// tree takes every file and link of a tree. Times and owners do not matter, nor where the tree lies.
func (s sum) tree(name string, t tree) {
	s.text(name, strconv.Itoa(len(t.entries)))
	for _, e := range t.entries {
		s.text(e.path, string(e.kind), e.sum)
	}
}

// String is the digest of all parts so far.
func (s sum) String() string { return "sha256:" + hex.EncodeToString(s.h.Sum(nil)) }

func sourceDigest(s Source, folder tree) string {
	all := newSum()
	if s.Repo != nil {
		all.value("repo", s.Repo.settings())
	} else {
		all.tree("folder", folder)
	}
	return all.String()
}

// agentDigest takes a prompt by its text, wherever it was written. others are the files of the case's folder that it
// does not name.
func agentDigest(c *Case, others tree) string {
	all := newSum()
	all.text("source", c.SourceDigest, c.Source.Isolation)
	all.value("settings", map[string]any{
		"prompt": c.Prompt, "setup": commands(c.Setup), "environment": json.RawMessage(c.Environment.Canonical()),
		"limits": c.Limits, "env": c.Env, "tools": c.Tools,
	})
	all.tree("others", others)
	return all.String()
}

func gradeDigest(c *Case, hidden, reference tree) string {
	all := newSum()
	all.value("settings", map[string]any{
		"assertions": assertions(c.Assertions), "threshold": c.Threshold, "fixtures": c.Fixtures.settings(),
		"files": c.Files, "ignore": c.Ignore,
	})
	all.tree("hidden", hidden)
	all.tree("reference", reference)
	return all.String()
}

// digest is over all that the suite says and names. Broken cases are not in it.
func (s *Suite) digest() string {
	all := newSum()
	var harnesses, conditions, cases []any
	for _, h := range s.Harnesses {
		harnesses = append(harnesses, []any{h.ID, h.Models, json.RawMessage(h.Block.Canonical())})
	}
	for _, c := range s.Conditions {
		if c.Spare {
			continue
		}
		conditions = append(conditions, []any{c.ID, c.Baseline, c.Digest})
	}
	for _, c := range s.Cases {
		cases = append(cases, []any{c.ID, c.AgentDigest, c.GradeDigest, c.Trials, c.Availability})
	}
	gate := s.Gate
	gate.At = Pos{}
	all.value("suite", []any{
		s.Name, harnesses, conditions, cases, s.Trials, s.Retries, s.Budget, json.RawMessage(s.Interaction.Canonical()),
		s.Availability, gate,
	})
	if plain := (Block{Kind: "host"}); string(s.Executor.Canonical()) != string(plain.Canonical()) {
		all.value("executor", json.RawMessage(s.Executor.Canonical()))
	}
	return all.String()
}

// settings are what of a repository goes into a digest.
func (r *Repo) settings() any {
	if r == nil {
		return nil
	}
	return []string{r.URL, r.Commit, r.Subdir}
}

// settings are what of a condition goes into a digest, beside its files.
func (c conditionRow) settings() any {
	return map[string]any{"from": c.From, "mcp": json.RawMessage(c.MCP.Canonical()), "env": c.Env, "prompt_prefix": c.PromptPrefix}
}

func commands(list []Command) []any {
	var out []any
	for _, c := range list {
		out = append(out, []any{c.Run, c.Argv, c.Timeout, c.Env})
	}
	return out
}

func assertions(list []Assertion) []any {
	var out []any
	for _, a := range list {
		out = append(out, []any{a.ID, a.Weight, a.Gate, a.Guard, json.RawMessage(a.Block.Canonical())})
	}
	return out
}
