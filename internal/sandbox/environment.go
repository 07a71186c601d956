package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/executor"
)

// stepTimeout ends an environment or a setup command that names no limit of its own.
const stepTimeout = 15 * time.Minute

// Settings are the raw settings of one block of a suite.
type Settings interface {
	Decode(into any) error
	Fault(key, msg, hint string) error
}

// A Kind is one row of the table of environments.
type Kind struct {
	Name   string
	Doc    string // one line
	Params any    // zero value of the struct that its settings decode into
	Build  func(s Settings) (*Environment, error)
}

// Kinds are the environments a case may name.
var Kinds = []Kind{
	{Name: "none", Doc: "nothing but the tree and what the host has", Params: NoneParams{}, Build: buildNone},
	{Name: "command", Doc: "commands that make a folder beside the tree, once and cached when inputs are named", Params: CommandParams{}, Build: buildCommand},
}

// NoneParams are the settings of the environment none.
type NoneParams struct{}

// CommandParams are the settings of the environment command. In Run and Env, {env} is the folder that the commands fill.
type CommandParams struct {
	Run     []string          `yaml:"run" doc:"shell lines, run one after the other by sh -c in the tree; {env} is the environment's folder" rule:"required"`
	Env     map[string]string `yaml:"env" doc:"variables for agent, setup and graders; {env} is the environment's folder" rule:"env"`
	Inputs  []string          `yaml:"inputs" doc:"files and folders of the source that decide the result; with them it is made once and copied into every place" rule:"path"`
	Timeout time.Duration     `yaml:"timeout" doc:"of all commands together" default:"15m" rule:"above=0s"`
}

// An Environment is what the commands of a case need besides its tree, such as a warmed build cache: commands that fill a
// folder outside the tree, and variables that point to it. A nil Environment is none.
type Environment struct {
	run     []string
	env     map[string]string
	inputs  []string
	timeout time.Duration
}

func buildNone(s Settings) (*Environment, error) {
	return nil, s.Decode(&NoneParams{})
}

func buildCommand(s Settings) (*Environment, error) {
	var p CommandParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	return &Environment{run: p.Run, env: p.Env, inputs: p.Inputs, timeout: p.Timeout}, nil
}

func (e *Environment) empty() bool { return e == nil || len(e.run) == 0 }

// vars are the variables of the environment, with its folder filled in.
func (e *Environment) vars(folder string) []string {
	if e == nil {
		return nil
	}
	list := pairs(e.env)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "{env}", folder)
	}
	return list
}

// furnish fills the environment's folder of a place whose tree is laid out.
func (s *Sandbox) furnish(ctx context.Context, p *Place, src *Source, n Needs) error {
	e := n.Environment
	switch {
	case e.empty():
		return nil
	case len(e.inputs) == 0:
		return e.make(ctx, p, n)
	}
	inputs, err := src.work.pick(e.inputs)
	if err != nil {
		return wrap("environment", "environment", err)
	}
	key := "env-" + e.key(inputs)
	build := func(ctx context.Context, dir string) error { return s.buildEnvironment(ctx, inputs, n, dir) }
	for attempt := range 2 {
		t, found, err := s.cache.load(ctx, key, foreignRules, nil, build)
		p.Findings = append(p.Findings, found...)
		if err != nil {
			return wrap("environment", "environment", err)
		}
		err = s.copyEnvironment(ctx, p, t)
		if errors.Is(err, errChanged) && attempt == 0 {
			s.cache.forget(key)
			continue
		}
		return wrap("environment", "environment", err)
	}
	return nil
}

// make runs the commands, under one limit for all of them.
func (e *Environment) make(ctx context.Context, p *Place, n Needs) error {
	ends := time.Now().Add(e.timeout)
	for _, line := range e.run {
		left := time.Until(ends)
		if left <= 0 {
			return wrap("environment", "environment", fmt.Errorf("ran past its limit of %v before %q", e.timeout, line))
		}
		argv := []string{"sh", "-c", strings.ReplaceAll(line, "{env}", p.Inside.Env)}
		if err := p.run(ctx, fmt.Sprintf("environment %q", line), executor.Command{Argv: argv, Env: p.Env, Timeout: left}, n.Log); err != nil {
			return err
		}
	}
	return nil
}

// key names the cache entry of an environment: whatever may change what its commands make is in it.
func (e *Environment) key(inputs *tree) string {
	h := sha256.New()
	fmt.Fprintf(h, "1 %s %s\n%q\n%q\n", runtime.GOOS, runtime.GOARCH, e.run, pairs(e.env))
	h.Write(inputs.listing())
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// pick is the part of a tree that paths name: files, and folders with all they hold.
func (t *tree) pick(paths []string) (*tree, error) {
	picked := &tree{dir: t.dir, kept: t.kept}
	wanted := map[string]bool{}
	for _, name := range paths {
		e := t.find(name)
		if name != "." && e == nil {
			return nil, fmt.Errorf("input %q is not in the source", name)
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			wanted[dir] = true
		}
		for i := range t.entries {
			if at := t.entries[i].path; name == "." || at == name || strings.HasPrefix(at, name+"/") {
				wanted[at] = true
			}
		}
	}
	for _, e := range t.entries {
		if wanted[e.path] {
			picked.entries = append(picked.entries, e)
		}
	}
	return picked, nil
}

// buildEnvironment makes an environment in a place of its own, which holds its inputs and nothing else, and leaves it in dir.
func (s *Sandbox) buildEnvironment(ctx context.Context, inputs *tree, n Needs, dir string) (err error) {
	n.Env = nil // the case's own variables are not in the key
	p, err := s.newPlace(ctx, s.Scratch, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close(context.WithoutCancel(ctx))) }()
	if err := s.layOut(ctx, p, &Source{what: "environment", work: inputs}); err != nil {
		return err
	}
	if err := n.Environment.make(ctx, p, n); err != nil {
		return err
	}
	made, err := os.OpenRoot(p.Folders.Env)
	if err != nil {
		return err
	}
	defer made.Close()
	t, err := readTree(made, foreignRules, nil)
	if err != nil {
		return err
	}
	to, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer to.Close()
	return t.lay(ctx, to, ".", s.umasked)
}

func (s *Sandbox) copyEnvironment(ctx context.Context, p *Place, t *tree) error {
	if err := errors.Join(RemoveAll(p.Folders.Env), os.Mkdir(p.Folders.Env, 0o755)); err != nil {
		return err
	}
	root, err := os.OpenRoot(p.Folders.Env)
	if err != nil {
		return err
	}
	defer root.Close()
	return t.lay(ctx, root, ".", s.umasked)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
