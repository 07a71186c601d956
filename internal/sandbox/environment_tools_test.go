package sandbox

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/google/go-cmp/cmp"
)

// haveTools skips a test whose programs this machine lacks.
func haveTools(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not on PATH", name)
		}
	}
}

// wheel is a package of Python with one module and one program, as it lies on an index. Its code prints text.
func wheel(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range [][2]string{
		{"tiny/__init__.py", "def main():\n    print('" + text + "')\n"},
		{"tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"},
		{"tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"tiny-1.0.dist-info/entry_points.txt", "[console_scripts]\ntiny = tiny:main\n"},
		{"tiny-1.0.dist-info/RECORD", "tiny/__init__.py,,\ntiny-1.0.dist-info/METADATA,,\ntiny-1.0.dist-info/WHEEL,,\ntiny-1.0.dist-info/entry_points.txt,,\ntiny-1.0.dist-info/RECORD,,\n"},
	} {
		to, err := w.Create(f[0])
		must(t, err)
		_, err = to.Write([]byte(f[1]))
		must(t, err)
	}
	must(t, w.Close())
	return b.String()
}

// tarball is a package of node with one module, one program and an install script that leaves a mark.
func tarball(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for _, f := range [][2]string{
		{"package/package.json", `{"name": "tiny", "version": "1.0.0", "type": "module", "main": "index.js", "bin": {"tiny": "bin.js"}, "scripts": {"install": "touch installed"}}`},
		{"package/index.js", "export const text = '" + text + "'\n"},
		{"package/bin.js", "#!/usr/bin/env node\nimport {text} from 'tiny'\nconsole.log(text)\n"},
	} {
		must(t, w.WriteHeader(&tar.Header{Name: f[0], Mode: 0o755, Size: int64(len(f[1]))}))
		_, err := w.Write([]byte(f[1]))
		must(t, err)
	}
	must(t, errors.Join(w.Close(), zipped.Close()))
	return b.String()
}

// npmSource is the tree of a case that needs the package and has a workspace.
func npmSource(t testing.TB) map[string]string {
	packed := tarball(t, "from the package")
	sum := sha512.Sum512([]byte(packed))
	lock := fmt.Sprintf(`{"name": "case", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
  "": {"name": "case", "version": "1.0.0", "workspaces": ["packages/*"], "dependencies": {"tiny": "file:tiny-1.0.0.tgz"}},
  "node_modules/tiny": {"version": "1.0.0", "resolved": "file:tiny-1.0.0.tgz", "integrity": "sha512-%s", "hasInstallScript": true, "bin": {"tiny": "bin.js"}},
  "node_modules/own": {"resolved": "packages/own", "link": true},
  "packages/own": {"version": "1.0.0"}}}`, base64.StdEncoding.EncodeToString(sum[:]))
	return map[string]string{
		"f/package.json":              `{"name": "case", "version": "1.0.0", "workspaces": ["packages/*"], "dependencies": {"tiny": "file:tiny-1.0.0.tgz"}}`,
		"f/package-lock.json":         lock,
		"f/tiny-1.0.0.tgz":            packed,
		"f/packages/own/package.json": `{"name": "own", "version": "1.0.0", "main": "index.js"}`,
		"f/packages/own/index.js":     "module.exports = 'as in the tree'\n",
		"f/src/uses.mjs":              "import {text} from 'tiny'\nimport own from 'own'\nconsole.log(text, own)\n",
		"f/src/uses.cjs":              "console.log(require('own'))\n",
	}
}

// say runs a command in a place and returns what it prints.
func say(t testing.TB, p *Place, line string) string {
	t.Helper()
	var out bytes.Buffer
	exit, err := p.Exec.Run(t.Context(), executor.Command{Argv: []string{"sh", "-c", line}, Env: p.Env, Stdout: &out, Stderr: &out})
	must(t, err)
	if exit.Code != 0 {
		t.Fatalf("%s: exit code %d\n%s", line, exit.Code, out.String())
	}
	return out.String()
}

func TestVenvIsMadeOnceAndMoved(t *testing.T) {
	t.Parallel()
	haveTools(t, "python3")
	packed := wheel(t, "from the wheel")
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(packed)))
	const name = "tiny-1.0-py3-none-any.whl"
	s := newSandbox(t, map[string]string{
		"f/wheels/" + name: packed, "f/app.py": "import tiny; tiny.main()\n",
		"f/requirements.txt": "./wheels/" + name + " --hash=sha256:" + sum + "\n",
	})
	e := environment(t, `{type: venv, requirements: [requirements.txt], inputs: [wheels]}`)
	src := resolve(t, s, folderCase("f"))
	first := open(t, s, src, Needs{Environment: e})
	before := look(t, first.Work)
	for range 2 { // a later run, and one after it
		s.cache = newCache(s.Cache, s.memory)
		p := open(t, s, src, Needs{Environment: e})
		if got := say(t, p, "tiny; python app.py; command -v tiny"); got != "from the wheel\nfrom the wheel\n"+p.Folders.Env+"/bin/tiny\n" {
			t.Errorf("got %q", got)
		}
		if got := say(t, p, "grep -rl "+first.Root+" $VIRTUAL_ENV || true"); got != "" {
			t.Errorf("the copy names the place that another has:\n%s", got)
		}
		compiled := say(t, p, "python -c 'import tiny; print(tiny.__cached__, end=\"\")'")
		data, err := os.ReadFile(compiled)
		must(t, err)
		if !strings.HasPrefix(compiled, p.Folders.Env) || binary.LittleEndian.Uint32(data[4:]) != 3 {
			t.Errorf("%s is not compiled so that a copy can use it: flags %x", compiled, data[4:8])
		}
		if diff := cmp.Diff(before, look(t, p.Work)); diff != "" {
			t.Errorf("the tree changed: %s", diff)
		}
	}
	entries, err := filepath.Glob(filepath.Join(s.Cache, "env-*", "tree", "bin", "tiny"))
	must(t, err)
	if len(entries) != 1 {
		t.Fatalf("there are %d entries in the cache, want 1", len(entries))
	}
	program, err := os.ReadFile(entries[0])
	must(t, err)
	if !bytes.Contains(program, []byte(standardPlace+"/env/bin/python")) || bytes.Contains(program, []byte(s.Scratch)) {
		t.Errorf("what is cached names the place that it was made in:\n%s", program)
	}
}

func TestVenvFromALock(t *testing.T) {
	t.Parallel()
	haveTools(t, "python3", "uv")
	const name = "tiny-1.0-py3-none-any.whl"
	s := newSandbox(t, map[string]string{
		"f/" + name: wheel(t, "from the lock"),
		"f/pyproject.toml": "[project]\nname = 'case'\nversion = '1'\nrequires-python = '>=3.9'\ndependencies = ['tiny']\n" +
			"[tool.uv.sources]\ntiny = {path = '" + name + "'}\n",
	})
	cmd := exec.Command("uv", "lock", "--offline", "--quiet")
	cmd.Dir = filepath.Join(s.Suite, "f")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("uv lock: %v\n%s", err, out)
	}
	e := environment(t, `{type: venv, lock: uv.lock, inputs: [`+name+`]}`)
	p := open(t, s, resolve(t, s, folderCase("f")), Needs{Environment: e})
	if got := say(t, p, "tiny"); got != "from the lock\n" {
		t.Errorf("got %q", got)
	}
}

func TestVenvRefusesAnotherHash(t *testing.T) {
	t.Parallel()
	haveTools(t, "python3")
	const name = "tiny-1.0-py3-none-any.whl"
	s := newSandbox(t, map[string]string{
		"f/" + name: wheel(t, "x"), "f/requirements.txt": "./" + name + " --hash=sha256:" + strings.Repeat("0", 64) + "\n",
	})
	e := environment(t, `{type: venv, requirements: [requirements.txt], inputs: [`+name+`]}`)
	_, err := s.Open(t.Context(), resolve(t, s, folderCase("f")), Needs{Environment: e})
	var broken *Error
	if !errors.As(err, &broken) || broken.Class != "environment" || !strings.Contains(strings.ToLower(broken.Log), "hash") {
		t.Errorf("got %v, want class environment and the log", err)
	}
}

func TestNodeLiesBesideTheTree(t *testing.T) {
	t.Parallel()
	haveTools(t, "node", "npm")
	for _, scripts := range []bool{false, true} {
		s := newSandbox(t, npmSource(t))
		src := resolve(t, s, folderCase("f"))
		e := environment(t, fmt.Sprintf(`{type: node, scripts: %v, inputs: [tiny-1.0.0.tgz, packages]}`, scripts))
		for range 2 {
			p := open(t, s, src, Needs{Environment: e})
			must(t, os.WriteFile(filepath.Join(p.Work, "packages/own/index.js"), []byte("module.exports = 'changed by the agent'\n"), 0o644))
			got := say(t, p, "tiny; cd src; node uses.mjs; node uses.cjs")
			want := "from the package\nfrom the package changed by the agent\nchanged by the agent\n"
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if _, err := os.Stat(filepath.Join(p.Work, "node_modules")); err == nil {
				t.Error("the tree holds node_modules")
			}
			_, err := os.Stat(filepath.Join(p.Folders.Env, "node_modules/tiny/installed"))
			if (err == nil) != scripts {
				t.Errorf("scripts: %v, but the mark of the install script: %v", scripts, err)
			}
		}
	}
}

func TestA15PoisonedEnvironment(t *testing.T) {
	t.Parallel()
	haveTools(t, "node", "npm")
	s := newSandbox(t, npmSource(t))
	src := resolve(t, s, folderCase("f"))
	n := Needs{Environment: environment(t, `{type: node, inputs: [tiny-1.0.0.tgz, packages]}`)}
	s.cache = newCache(s.Cache, nil) // as for a tree that is too large to be kept in memory
	open(t, s, src, n)
	entries, err := filepath.Glob(filepath.Join(s.Cache, "env-*"))
	must(t, err)
	trojan := filepath.Join(entries[0], "tree/node_modules/tiny/index.js")
	poison := func() { must(t, os.WriteFile(trojan, []byte("export const text = 'poison'\n"), 0o644)) }

	poison() // while the run that loaded it goes on
	check := func(when string) {
		p := open(t, s, src, n)
		if got := say(t, p, "tiny"); got != "from the package\n" {
			t.Errorf("%s: the place holds %q", when, got)
		}
		if len(p.Findings) != 1 || p.Findings[0].Kind != FoundBadCache {
			t.Errorf("%s: findings %v", when, p.Findings)
			return
		}
		kept, err := os.ReadFile(filepath.Join(p.Findings[0].Path, "tree/node_modules/tiny/index.js"))
		if err != nil || !bytes.Contains(kept, []byte("poison")) {
			t.Errorf("%s: the poisoned entry is not kept: %v", when, err)
		}
	}
	check("in the same run")
	poison()
	s.cache = newCache(s.Cache, nil)
	check("in a later run")
}

func TestImageOfACase(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, map[string]string{"f/a": ""})
	spy := &specs{}
	s.Places = spy
	open(t, s, resolve(t, s, folderCase("f")), Needs{Environment: environment(t, `{type: image, image: "tools:1"}`)})
	open(t, s, resolve(t, s, folderCase("f")), Needs{})
	if diff := cmp.Diff([]string{"tools:1", ""}, spy.images); diff != "" {
		t.Error(diff)
	}
}

// specs remembers which images places were made of.
type specs struct {
	shells
	images []string
}

func (s *specs) Open(ctx context.Context, p executor.Spec) (executor.Executor, error) {
	s.images = append(s.images, p.Image)
	return s.shells.Open(ctx, p)
}
