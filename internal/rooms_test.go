// Package internal holds the rooms of the house. This test is the plan of the house: which room may use which, and which
// outside library belongs to which room. An arrow that is not in the table fails the build; change the table only with an
// ADR that says why.
package internal

import (
	"encoding/json"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/assay-ci/assay"

// rooms says what each room may import of ours.
var rooms = map[string][]string{
	"suite":     {},
	"plan":      {"suite"},
	"trace":     {},
	"executor":  {},
	"sandbox":   {"suite", "executor"},
	"diffscope": {"diffscope/lexers", "diffscope/linguist"},
	"responder": {"trace"},
	"gateway":   {"trace", "redact"},
	"redact":    {},
	"harness":   {"executor", "trace", "responder", "gateway"},
	"grade":     {"executor", "trace", "diffscope", "result", "stats"},
	"run":       {"suite", "plan", "sandbox", "harness", "gateway", "responder", "grade", "diffscope", "result", "trace", "executor"},
	"result":    {"plan", "trace", "diffscope"},
	"bench":     {"result", "plan", "stats"},
	"stats":     {},
	"report":    {"bench", "result", "trace"},
	"publish":   {"report", "bench"},
	"cli":       {"suite", "plan", "trace", "executor", "sandbox", "diffscope", "responder", "redact", "gateway", "harness", "grade", "run", "result", "bench", "report", "publish"},

	"diffscope/lexers":   {},
	"diffscope/linguist": {},

	"githubtest": {}, // for tests only
	"redacttest": {}, // for tests only
}

// owners says which rooms may import an outside module; a module that is not listed may not be used at all.
var owners = map[string][]string{
	"gopkg.in/yaml.v3":                            {"suite"},
	"github.com/go-git/go-git/v5":                 {"sandbox", "diffscope"},
	"github.com/go-git/go-billy/v5":               {"sandbox"},
	"github.com/bmatcuk/doublestar/v4":            {"suite", "sandbox", "diffscope", "grade"},
	"golang.org/x/sys":                            {"executor", "diffscope", "result"},
	"golang.org/x/sync":                           {"run", "sandbox"},
	"golang.org/x/term":                           {"cli"},
	"google.golang.org/protobuf":                  {"report"},
	"github.com/google/renameio/v2":               {"result"},
	"github.com/gofrs/flock":                      {"result"},
	"gonum.org/v1/gonum":                          {"stats"},
	"github.com/aclements/go-moremath":            {"stats"},
	"github.com/spf13/cobra":                      {"cli"},
	"github.com/spf13/pflag":                      {"cli"},
	"github.com/jedib0t/go-pretty/v6":             {"cli"},
	"github.com/sourcegraph/go-diff":              {"diffscope"},
	"github.com/alecthomas/chroma/v2":             {"diffscope/lexers"},
	"github.com/pelletier/go-toml/v2":             {"diffscope"},
	"github.com/go-json-experiment/json":          {"trace", "result", "bench"},
	"github.com/go-json-experiment/json/jsontext": {"result", "bench"},
	"github.com/go-json-experiment/json/v1":       {"trace", "result", "bench"},

	"github.com/google/go-github/v62":         {"publish"},
	"github.com/gofri/go-github-ratelimit/v2": {"publish"},
	"github.com/sethvargo/go-githubactions":   {"cli"},

	"github.com/getkin/kin-openapi": {"githubtest"}, // for tests only
}

func TestArrows(t *testing.T) {
	for _, p := range packages(t) {
		room := strings.TrimPrefix(p.ImportPath, module+"/internal/")
		allowed, known := rooms[room]
		if !known {
			t.Errorf("room %s is not in the plan of the house", room)
			continue
		}
		for _, imp := range p.Imports {
			if other, ok := strings.CutPrefix(imp, module+"/internal/"); ok {
				if !slices.Contains(allowed, other) {
					t.Errorf("%s must not use %s", room, other)
				}
				continue
			}
			if !strings.Contains(strings.Split(imp, "/")[0], ".") {
				continue // standard library
			}
			owner := ownersOf(imp)
			if owner == nil {
				t.Errorf("%s uses %s, which is not in the plan of the house", room, imp)
			} else if !slices.Contains(owner, room) {
				t.Errorf("%s uses %s, which belongs to %s", room, imp, strings.Join(owner, ", "))
			}
		}
	}
}

// TestPlanIsUsed keeps the plan honest: an arrow or a library that no code uses is taken out of it.
func TestPlanIsUsed(t *testing.T) {
	used := map[string]bool{}
	for _, p := range packages(t) {
		room := strings.TrimPrefix(p.ImportPath, module+"/internal/")
		for _, imp := range p.Imports {
			if other, ok := strings.CutPrefix(imp, module+"/internal/"); ok {
				used[room+" → "+other] = true
			}
			for mod := range owners {
				if imp == mod || strings.HasPrefix(imp, mod+"/") {
					used[room+" → "+mod] = true
				}
			}
		}
	}
	for room, others := range rooms {
		for _, other := range others {
			if !used[room+" → "+other] {
				t.Errorf("the plan lets %s use %s, and it does not", room, other)
			}
		}
	}
	for mod, list := range owners {
		for _, room := range list {
			if !used[room+" → "+mod] {
				t.Errorf("the plan lets %s use %s, and it does not", room, mod)
			}
		}
	}
}

// TestPackageComments holds every room to say what it gives, in the file named like its folder.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		room := path.Base(p.ImportPath)
		if !strings.HasPrefix(p.Doc, "Package "+room+" ") {
			t.Errorf("%s has no package comment that starts with its name", room)
		}
	}
}

type goPackage struct {
	ImportPath string
	Doc        string
	Imports    []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		if p.ImportPath != module+"/internal" {
			all = append(all, p)
		}
	}
	if len(all) < len(rooms) {
		t.Fatalf("go list found %d rooms, the plan has %d", len(all), len(rooms))
	}
	return all
}

func ownersOf(imp string) []string {
	for mod, list := range owners {
		if imp == mod || strings.HasPrefix(imp, mod+"/") {
			return list
		}
	}
	return nil
}
