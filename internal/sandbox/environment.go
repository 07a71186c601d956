package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
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
	{Name: "venv", Doc: "a virtual environment of Python, made once from requirements or uv.lock, by uv where there is one, else by pip", Params: VenvParams{}, Build: buildVenv},
	{Name: "node", Doc: "packages of node, made once by npm ci; they lie beside the tree, where node finds them too, and not in it", Params: NodeParams{}, Build: buildNode},
	{Name: "image", Doc: "a container image that the places of the case are made of, with an executor that uses images", Params: ImageParams{}, Build: buildImage},
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

// ImageParams are the settings of the environment image.
type ImageParams struct {
	Image string `yaml:"image" doc:"name or digest of a container image that is there already; its id is part of what a result is kept under" rule:"required"`
}

// An Environment is what the commands of a case need besides its tree, such as installed packages: commands that fill a
// folder outside the tree, and variables that point to it; or the image that its places are made of. A nil Environment is
// none.
type Environment struct {
	run      []string
	env      map[string]string
	inputs   []string // of the source; with them it is made once
	optional []string // inputs that a source may lack
	timeout  time.Duration

	look    string // shell line that prints what of a place decides the result, such as the version of python; empty: nothing
	path    string // folder of programs that goes before PATH
	tool    string // what the commands are called in messages; empty: each stands for itself
	modules string // folder of the tree that node_modules belong to; empty: it has none
	image   string
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

func buildImage(s Settings) (*Environment, error) {
	var p ImageParams
	if err := s.Decode(&p); err != nil {
		return nil, err
	}
	return &Environment{image: p.Image}, nil
}

// Image is the name of the image that places are made of; empty: that of the executor.
func (e *Environment) Image() string {
	if e == nil {
		return ""
	}
	return e.image
}

func (e *Environment) empty() bool { return e == nil || len(e.run) == 0 }

// cached tells whether it is made once, in a place of its own, and not in every place.
func (e *Environment) cached() bool { return !e.empty() && len(e.inputs) > 0 }

// vars are the variables of the environment, with its folder filled in. search is the PATH of the place without it.
func (e *Environment) vars(folder, search string) []string {
	if e == nil {
		return nil
	}
	list := pairs(e.env)
	if e.path != "" {
		list = append(list, "PATH="+e.path+":"+search)
	}
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], "{env}", folder)
	}
	return list
}

// surroundings are what an environment finds in a place before it is made.
type surroundings struct {
	search string // PATH
	facts  string // versions of what makes it
}

// lookAround asks a place for what decides the result of an environment, once for each image.
func (s *Sandbox) lookAround(ctx context.Context, n *Needs) error {
	e := n.Environment
	if e.empty() || e.look == "" {
		return nil
	}
	key := e.image + "\x00" + e.look
	defer s.cache.lock(key)()
	s.mu.Lock()
	seen, known := s.seen[key]
	s.mu.Unlock()
	if known {
		n.around = seen
		return nil
	}
	p, err := s.newPlace(ctx, s.Scratch, Needs{Environment: &Environment{image: e.image}, Network: executor.NetNone, Label: n.Label + " environment"})
	if err != nil {
		return err
	}
	var out bytes.Buffer
	line := `printf '%s\n' "$PATH"; ` + e.look
	err = p.run(ctx, "environment", executor.Command{Argv: []string{"sh", "-c", line}, Timeout: time.Minute}, &out)
	if err = errors.Join(err, p.Close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	n.around.search, n.around.facts, _ = strings.Cut(out.String(), "\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[key] = n.around
	return nil
}

// furnish fills the environment's folder of a place whose tree is laid out.
func (s *Sandbox) furnish(ctx context.Context, p *Place, src *Source, n Needs) error {
	e := n.Environment
	switch {
	case e.empty():
		return nil
	case !e.cached():
		return e.make(ctx, p, n)
	}
	inputs, err := src.work.pick(e.inputs, e.optional)
	if err != nil {
		return wrap("environment", "environment", err)
	}
	key := "env-" + e.key(inputs, n.around.facts, s.Images[e.image])
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
		if err == nil && e.modules != "" {
			err = os.Symlink("env/node_modules", filepath.Join(p.Root, "node_modules"))
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
		what := "environment " + e.tool
		if e.tool == "" {
			what = fmt.Sprintf("environment %q", line)
		}
		if err := p.run(ctx, what, executor.Command{Argv: argv, Env: p.Env, Timeout: left}, n.Log); err != nil {
			return err
		}
	}
	return nil
}

// key names the cache entry of an environment: whatever may change what its commands make is in it.
func (e *Environment) key(inputs *tree, facts, image string) string {
	h := sha256.New()
	fmt.Fprintf(h, "2 %s %s\n%q\n%q\n%q %q\n", runtime.GOOS, runtime.GOARCH, e.run, pairs(e.env), facts, image)
	h.Write(inputs.listing())
	return hex.EncodeToString(h.Sum(nil))[:32]
}

// pick is the part of a tree that paths name: files, and folders with all they hold. What is optional may be absent.
func (t *tree) pick(paths, optional []string) (*tree, error) {
	picked := &tree{dir: t.dir, kept: t.kept}
	wanted := map[string]bool{}
	for i, name := range slices.Concat(paths, optional) {
		e := t.find(name)
		if name != "." && e == nil {
			if i >= len(paths) {
				continue
			}
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

// buildEnvironment makes an environment in a place of its own, which holds its inputs and nothing else, and leaves it in dir
// as if it had been made in the place that is called standardPlace. Packages come from the network, so that is open here and
// here alone; no key and no model is near.
func (s *Sandbox) buildEnvironment(ctx context.Context, inputs *tree, n Needs, dir string) (err error) {
	n.Env, n.source = nil, nil // the case's own variables are not in the key
	n.Network, n.Label = executor.NetOpen, n.Label+" environment"
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
	if err := p.pull(ctx); err != nil {
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
	if n.Environment.modules != "" {
		t.relink(n.Environment.modules)
	}
	if err := t.lay(ctx, to, ".", s.umasked); err != nil {
		return err
	}
	return t.move(to, t.naming(p.insideRoot()), p.insideRoot(), standardPlace)
}

// copyEnvironment copies an environment from the cache into a place, or shows it there, and makes the paths in it those of
// the place.
func (s *Sandbox) copyEnvironment(ctx context.Context, p *Place, t *tree) error {
	if s.shows(p.base, t) {
		if err := t.unchanged(); err != nil {
			return err
		}
		if p.mount(p.base, p.Folders.Env, t) == nil {
			return s.moveIn(p, t)
		}
	}
	if err := errors.Join(RemoveAll(p.Folders.Env), os.Mkdir(p.Folders.Env, 0o755)); err != nil {
		return err
	}
	root, err := os.OpenRoot(p.Folders.Env)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := t.lay(ctx, root, ".", s.umasked); err != nil {
		return err
	}
	return s.moveIn(p, t)
}

// moveIn makes the paths in an environment those of its place.
func (s *Sandbox) moveIn(p *Place, t *tree) error {
	if p.insideRoot() == standardPlace {
		return nil
	}
	root, err := os.OpenRoot(p.Folders.Env)
	if err != nil {
		return err
	}
	defer root.Close()
	return t.move(root, s.cache.naming(t), standardPlace, p.insideRoot())
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
