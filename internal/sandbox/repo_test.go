package sandbox

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/assay-ci/assay/internal/suite"
	"github.com/google/go-cmp/cmp"
)

// A gitServer is git's own http-backend on loopback.
type gitServer struct {
	dir      string // repositories are below it
	url      string
	requests atomic.Int64
	private  bool
}

func newGitServer(t *testing.T) *gitServer {
	t.Helper()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed; its server is what these tests talk to")
	}
	out, err := exec.Command(program, "--exec-path").Output()
	must(t, err)
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git-http-backend is not installed")
	}
	g := &gitServer{dir: t.TempDir()}
	handler := &cgi.Handler{Path: backend, Env: []string{
		"GIT_PROJECT_ROOT=" + g.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}, Stderr: new(bytes.Buffer)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.requests.Add(1)
		if g.private {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			http.Error(w, "this repository is private", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// git runs git in a repository of the server.
func (g *gitServer) git(t *testing.T, repo string, args ...string) string {
	t.Helper()
	return runGit(t, filepath.Join(g.dir, repo), args...)
}

func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files into a repository, made when it is missing, and returns the id of the commit.
func (g *gitServer) commit(t *testing.T, repo string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(g.dir, repo)
	if _, err := os.Stat(dir); err != nil {
		must(t, os.MkdirAll(dir, 0o755))
		g.git(t, repo, "init", "--quiet", "-b", "main")
	}
	write(t, dir, files)
	g.git(t, repo, "add", "-A")
	g.git(t, repo, "commit", "--quiet", "--allow-empty", "-m", "c")
	return g.git(t, repo, "rev-parse", "HEAD")
}

func (g *gitServer) repo(name, commit, subdir string) suite.Case {
	return suite.Case{ID: "c", Source: suite.Source{Repo: &suite.Repo{
		URL: g.url + "/" + name, Commit: commit, Subdir: subdir, At: suite.Pos{File: "case.yaml", Line: 7, Col: 3},
	}}}
}

var upstream = map[string]string{"README": "hi\n", "sub/a.go": "package a\n", "sub/run*": "#!/bin/sh\n", "sub/deep/l@": "../a.go", "other/x": "x"}

func TestA20NoHistoryInThePlace(t *testing.T) {
	t.Parallel()
	g := newGitServer(t)
	g.commit(t, "r", map[string]string{"secret-answer": "42", "sub/a.go": "old"})
	must(t, os.Remove(filepath.Join(g.dir, "r/secret-answer")))
	id := g.commit(t, "r", upstream)
	g.git(t, "r", "tag", "v1")
	future := g.commit(t, "r", map[string]string{"sub/a.go": "the fix"})
	g.git(t, "r", "config", "uploadpack.allowAnySHA1InWant", "true")

	s := newSandbox(t, nil, "127.0.0.1")
	src := resolve(t, s, g.repo("r", id, "sub"))
	p := open(t, s, src, Needs{})
	got := look(t, p.Work)
	for name := range got {
		if strings.HasPrefix(name, ".git/") {
			delete(got, name)
		}
	}
	want := map[string]string{"a.go": "package a\n", "run*": "#!/bin/sh\n", "deep/l@": "../a.go"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	runGit(t, p.Work, "fsck", "--strict", "--full")
	if out := runGit(t, p.Work, "status", "--porcelain"); out != "" {
		t.Errorf("git sees changes: %s", out)
	}
	all := strings.Fields(runGit(t, p.Work, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"))
	mine := strings.Fields(runGit(t, p.Work, "rev-list", "--objects", "--no-object-names", "HEAD"))
	slices.Sort(all)
	slices.Sort(mine)
	if diff := cmp.Diff(mine, all); diff != "" || len(all) != 6 { // commit, 2 trees, 3 blobs
		t.Errorf("objects: %v\n%s", all, diff)
	}
	for _, foreign := range []string{id, future} {
		if slices.Contains(all, foreign) {
			t.Errorf("the place holds the upstream commit %s", foreign)
		}
	}
	if n := runGit(t, p.Work, "rev-list", "--count", "--all"); n != "1" {
		t.Errorf("%s commits", n)
	}
	if refs := runGit(t, p.Work, "for-each-ref", "--format=%(refname)"); refs != "refs/heads/main" {
		t.Errorf("refs: %s", refs)
	}
	if tree := runGit(t, p.Work, "rev-parse", "HEAD^{tree}"); tree != g.git(t, "r", "rev-parse", id+":sub") {
		t.Errorf("the tree is %s", tree)
	}
	write(t, p.Work, map[string]string{"new": "x"})
	runGit(t, p.Work, "add", "-A")
	runGit(t, p.Work, "commit", "-qm", "agents commit")
}

func TestRepoServers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config []string
		tip    bool
	}{
		{"hands out any commit", []string{"uploadpack.allowAnySHA1InWant", "true"}, false},
		{"hands out tips only", nil, false},
		{"the commit is a tip", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGitServer(t)
			id := g.commit(t, "r", upstream)
			if !tt.tip {
				g.commit(t, "r", map[string]string{"README": "later"})
			}
			if tt.config != nil {
				g.git(t, "r", "config", tt.config[0], tt.config[1])
			}
			s := newSandbox(t, nil, "127.0.0.1")
			p := open(t, s, resolve(t, s, g.repo("r", id, "")), Needs{})
			if data, err := os.ReadFile(filepath.Join(p.Work, "README")); err != nil || string(data) != "hi\n" {
				t.Errorf("README is %q, %v", data, err)
			}
		})
	}
}

func TestRepoIsFetchedOnce(t *testing.T) {
	t.Parallel()
	g := newGitServer(t)
	id := g.commit(t, "r", upstream)
	s := newSandbox(t, nil, "127.0.0.1")
	resolve(t, s, g.repo("r", id, "sub"))
	n := g.requests.Load()
	resolve(t, s, g.repo("r", id, "sub"))
	resolve(t, s, g.repo("r", id, "other"))
	s.cache = newCache(s.Cache, s.memory) // a later run
	src := resolve(t, s, g.repo("r", id, "sub"))
	if g.requests.Load() != n || len(src.Findings) != 0 {
		t.Errorf("%d further requests, findings %v", g.requests.Load()-n, src.Findings)
	}
}

func TestA30UnreachableRepos(t *testing.T) {
	t.Parallel()
	g := newGitServer(t)
	id := g.commit(t, "r", upstream)
	tests := []struct {
		name, repo, commit string
		private            bool
		reason, text       string
	}{
		{"private", "r", id, true, "no_auth", "private"},
		{"missing", "none", id, false, "not_found", ""},
		{"wrong commit", "r", strings.Repeat("1", 40), false, "bad_commit", strings.Repeat("1", 40)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g.private = tt.private
			s := newSandbox(t, nil, "127.0.0.1")
			_, err := s.Resolve(t.Context(), g.repo(tt.repo, tt.commit, ""))
			var out *Unavailable
			if !errors.As(err, &out) || out.Reason != tt.reason || !strings.Contains(out.Text, tt.text) {
				t.Errorf("got %v, want reason %s and %q", err, tt.reason, tt.text)
			}
		})
	}
	g.private = false
	g.git(t, "r", "config", "uploadpack.allowAnySHA1InWant", "true")
	s := newSandbox(t, nil, "127.0.0.1")
	_, err := s.Resolve(t.Context(), g.repo("r", strings.Repeat("2", 40), ""))
	var out *Unavailable
	if !errors.As(err, &out) || out.Reason != "bad_commit" || !strings.Contains(out.Text, "not our ref") {
		t.Errorf("got %v, want bad_commit with the server's words", err)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, l.Close())
	_, err = s.Resolve(t.Context(), suite.Case{Source: suite.Source{Repo: &suite.Repo{URL: "http://" + l.Addr().String() + "/r", Commit: id}}})
	if !errors.As(err, &out) || out.Reason != "no_network" {
		t.Errorf("got %v, want no_network", err)
	}
}

func TestRefusedRepos(t *testing.T) {
	t.Parallel()
	g := newGitServer(t)
	g.commit(t, "lfs", map[string]string{"big.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"})
	g.commit(t, "link", map[string]string{"l@": "../../etc/passwd"})
	inner := g.commit(t, "inner", map[string]string{"a": "a"})
	g.commit(t, "sub", map[string]string{"a": "a"})
	g.git(t, "sub", "update-index", "--add", "--cacheinfo", "160000,"+inner+",vendor/inner")
	g.git(t, "sub", "commit", "-qm", "submodule")
	// git itself refuses to make such trees, so they are made from bytes.
	g.commit(t, "dotgit", map[string]string{"a": "a"})
	blob := g.git(t, "dotgit", "rev-parse", "HEAD:a")
	makeTree := func(name string) {
		id, err := hex.DecodeString(blob)
		must(t, err)
		raw := append([]byte("100644 "+name+"\x00"), id...)
		must(t, os.WriteFile(filepath.Join(g.dir, "raw"), raw, 0o644))
		tree := g.git(t, "dotgit", "hash-object", "-t", "tree", "-w", "--literally", filepath.Join(g.dir, "raw"))
		g.git(t, "dotgit", "update-ref", "refs/heads/main", g.git(t, "dotgit", "commit-tree", "-m", "x", tree))
	}
	tests := []struct {
		name, repo, subdir, want string
		prepare                  func()
	}{
		{"lfs pointer", "lfs", "", "Git LFS", nil},
		{"link", "link", "", "leaves the tree", nil},
		{"submodule", "sub", "", "submodule", nil},
		{"missing folder", "lfs", "none", "has no folder none", nil},
		{"file as folder", "lfs", "big.bin", "has no folder", nil},
		{"entry .git", "dotgit", "", `.GIT`, func() { makeTree(".GIT") }},
		{"entry ..", "dotgit", "", `..`, func() { makeTree("..") }},
		{"entry with a slash", "dotgit", "", `a/b`, func() { makeTree("a/b") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.prepare != nil {
				tt.prepare()
			}
			s := newSandbox(t, nil, "127.0.0.1")
			_, err := s.Resolve(t.Context(), g.repo(tt.repo, g.git(t, tt.repo, "rev-parse", "HEAD"), tt.subdir))
			var problem suite.Problem
			if !errors.As(err, &problem) || !strings.Contains(problem.Msg, tt.want) || problem.Line != 7 {
				t.Errorf("got %v, want a problem that says %q", err, tt.want)
			}
			if out, _ := filepath.Glob(filepath.Join(s.Cache, "repo-*")); out != nil {
				t.Errorf("a refused source is in the cache: %v", out)
			}
		})
	}
}

// TestA15CachePoisoned: whatever is changed in the cache is noticed, kept aside, and made again from the server.
func TestA15CachePoisoned(t *testing.T) {
	t.Parallel()
	poison := map[string]func(t *testing.T, entry string){
		"a file": func(t *testing.T, e string) {
			must(t, os.WriteFile(filepath.Join(e, "tree/tree/README"), []byte("trojan"), 0o644))
		},
		"a file of the same size and its list": func(t *testing.T, e string) {
			must(t, os.WriteFile(filepath.Join(e, "tree/tree/README"), []byte("ho\n"), 0o644))
			relist(t, e)
		},
		"a file more and its list": func(t *testing.T, e string) {
			must(t, os.WriteFile(filepath.Join(e, "tree/tree/conftest.py"), nil, 0o644))
			relist(t, e)
		},
		"a mode and its list": func(t *testing.T, e string) {
			must(t, os.Chmod(filepath.Join(e, "tree/tree/README"), 0o755))
			relist(t, e)
		},
		"a hook and its list": func(t *testing.T, e string) {
			write(t, e, map[string]string{"tree/git/hooks/post-checkout*": "#!/bin/sh\n"})
			relist(t, e)
		},
		"the pack's index and its list": func(t *testing.T, e string) {
			found, err := filepath.Glob(filepath.Join(e, "tree/git/objects/pack/*.idx"))
			must(t, err)
			must(t, os.WriteFile(found[0], []byte("x"), 0o644))
			relist(t, e)
		},
		"the pack and its list": func(t *testing.T, e string) {
			found, err := filepath.Glob(filepath.Join(e, "tree/git/objects/pack/*.pack"))
			must(t, err)
			must(t, os.Truncate(found[0], 20))
			relist(t, e)
		},
		"its list":  func(t *testing.T, e string) { must(t, os.Remove(filepath.Join(e, "list"))) },
		"its trees": func(t *testing.T, e string) { must(t, os.RemoveAll(filepath.Join(e, "tree"))) },
		"a proof of another commit": func(t *testing.T, e string) {
			must(t, os.WriteFile(filepath.Join(e, "tree/proof/0"), []byte("tree 0\n"), 0o644))
			relist(t, e)
		},
		"a FIFO": func(t *testing.T, e string) {
			must(t, os.Remove(filepath.Join(e, "tree/tree/README")))
			if out, err := exec.Command("mkfifo", filepath.Join(e, "tree/tree/README")).CombinedOutput(); err != nil {
				t.Skipf("mkfifo: %v %s", err, out)
			}
		},
	}
	for name, change := range poison {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGitServer(t)
			id := g.commit(t, "r", upstream)
			s := newSandbox(t, nil, "127.0.0.1")
			want := look(t, open(t, s, resolve(t, s, g.repo("r", id, "")), Needs{}).Work)
			entries, err := filepath.Glob(filepath.Join(s.Cache, "repo-*"))
			must(t, err)
			change(t, entries[0])

			s.cache = newCache(s.Cache, s.memory) // a later run
			src := resolve(t, s, g.repo("r", id, ""))
			if len(src.Findings) != 1 || src.Findings[0].Kind != FoundBadCache {
				t.Errorf("findings: %v", src.Findings)
			}
			if diff := cmp.Diff(want, look(t, open(t, s, src, Needs{}).Work)); diff != "" {
				t.Error(diff)
			}
			if _, err := os.Lstat(entries[0] + ".bad-1"); err != nil {
				t.Errorf("the bad entry was not kept: %v", err)
			}
		})
	}
}

// relist makes the list of a cache entry agree with what is there, as an attacker would.
func relist(t *testing.T, entry string) {
	t.Helper()
	tree, err := readEntry(entry, foreignRules, nil)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(entry, "list"), tree.listing(), 0o600))
}

// TestA15PoisonedWhileRunning: bytes that are not in memory are checked each time they are copied.
func TestA15PoisonedWhileRunning(t *testing.T) {
	t.Parallel()
	g := newGitServer(t)
	id := g.commit(t, "r", upstream)
	s := newSandbox(t, nil, "127.0.0.1")
	s.memory.left = 0
	src := resolve(t, s, g.repo("r", id, "sub"))
	want := look(t, open(t, s, src, Needs{}).Work)
	must(t, os.WriteFile(filepath.Join(src.work.dir, "a.go"), []byte("package b\n"), 0o644))
	p := open(t, s, src, Needs{})
	if diff := cmp.Diff(want, look(t, p.Work)); diff != "" {
		t.Error(diff)
	}
	if len(p.Findings) != 1 || p.Findings[0].Kind != FoundBadCache {
		t.Errorf("findings: %v", p.Findings)
	}
	if again := open(t, s, src, Needs{}); len(again.Findings) != 0 {
		t.Errorf("findings of the next place: %v", again.Findings)
	}
}

func TestDamagedBareRepositoryIsFetchedAgain(t *testing.T) {
	t.Parallel()
	g := newGitServer(t)
	id := g.commit(t, "r", upstream)
	s := newSandbox(t, nil, "127.0.0.1")
	resolve(t, s, g.repo("r", id, "other"))
	packs, err := filepath.Glob(filepath.Join(s.Cache, "bare-*/objects/pack/*"))
	must(t, err)
	for _, name := range packs {
		must(t, os.Remove(name))
	}
	open(t, s, resolve(t, s, g.repo("r", id, "sub")), Needs{})
}

// TestA28URLs: nothing but plain https is ever asked for; the canary program of ext:: does not run.
func TestA28URLs(t *testing.T) {
	t.Parallel()
	canary := filepath.Join(t.TempDir(), "canary")
	id := strings.Repeat("a", 40)
	tests := []struct{ url, commit, subdir, want string }{
		{"ext::sh -c touch% " + canary, id, "", "not the address"},
		{"--upload-pack=touch " + canary, id, "", "not the address"},
		{"file:///etc", id, "", "not the address"},
		{"git@github.com:a/b", id, "", "not the address"},
		{"ssh://git@github.com/a/b", id, "", "credentials"},
		{"ssh://github.com/a/b", id, "", "https only"},
		{"git://github.com/a/b", id, "", "https only"},
		{"http://github.com/a/b", id, "", "https only"},
		{"https://user:pass@github.com/a/b", id, "", "credentials"},
		{"https://-oProxyCommand=x/a", id, "", "not the address"},
		{"https://github.com", id, "", "not the address"},
		{"https://github.com/a/b?x=1", id, "", "not the address"},
		{"", id, "", "not the address"},
		{"https://github.com/a/b", "main", "", "40 lower-case hex"},
		{"https://github.com/a/b", strings.Repeat("A", 40), "", "40 lower-case hex"},
		{"https://github.com/a/b", strings.Repeat("a", 64), "", "SHA-256"},
		{"https://github.com/a/b", id, "../x", "leaves the repository"},
		{"https://github.com/a/b", id, "/x", "leaves the repository"},
	}
	s := newSandbox(t, nil)
	for _, tt := range tests {
		t.Run(tt.url+" "+tt.commit+tt.subdir, func(t *testing.T) {
			_, err := s.Resolve(t.Context(), suite.Case{Source: suite.Source{Repo: &suite.Repo{URL: tt.url, Commit: tt.commit, Subdir: tt.subdir}}})
			var problem suite.Problem
			if !errors.As(err, &problem) || !strings.Contains(problem.Msg, tt.want) {
				t.Errorf("got %v, want a problem that says %q", err, tt.want)
			}
		})
	}
	if _, err := os.Lstat(canary); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a program was run")
	}
}

func TestA29PublicAddresses(t *testing.T) {
	t.Parallel()
	refused := []string{"127.0.0.1", "::1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "0.1.2.3",
		"224.0.0.1", "255.255.255.255", "240.0.0.1", "198.18.0.1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "::", "::ffff:127.0.0.1",
		"::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::", "fec0::1"}
	for _, a := range refused {
		if public(netip.MustParseAddr(a)) {
			t.Errorf("%s counts as public", a)
		}
	}
	for _, a := range []string{"140.82.121.4", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.32.0.1", "2606:50c0::1", "::ffff:8.8.8.8"} {
		if !public(netip.MustParseAddr(a)) {
			t.Errorf("%s does not count as public", a)
		}
	}
}

// TestA29DialLooksAtTheAddress: a name that resolves to a loopback address is refused when it is dialled, and reached when
// the user allows the name.
func TestA29DialLooksAtTheAddress(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(canary.Close)
	_, port, err := net.SplitHostPort(canary.Listener.Addr().String())
	must(t, err)
	resolver := stubResolver(t, [4]byte{127, 0, 0, 1})
	get := func(allow ...string) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://git.example.com:"+port, nil)
		must(t, err)
		client := newClient(allow, resolver)
		defer client.CloseIdleConnections()
		res, err := client.Do(req)
		if err == nil {
			res.Body.Close()
		}
		return err
	}
	var refused *refusedAddress
	if err := get("other.example.com"); !errors.As(err, &refused) || reached.Load() != 0 {
		t.Errorf("got %v, canary reached %d times", err, reached.Load())
	}
	if err := get("GIT.example.com"); err != nil || reached.Load() != 1 {
		t.Errorf("an allowed host was not reached: %v", err)
	}
}

// TestA29RedirectsAreDialledWithTheSameCare: an allowed host cannot lead to one that is not.
func TestA29RedirectsAreDialledWithTheSameCare(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(canary.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(canary.URL, "127.0.0.1", "localhost", 1)+r.URL.String(), http.StatusFound)
	}))
	t.Cleanup(server.Close)
	s := newSandbox(t, nil, "127.0.0.1")
	_, err := s.Resolve(t.Context(), suite.Case{Source: suite.Source{Repo: &suite.Repo{URL: server.URL + "/r", Commit: strings.Repeat("a", 40)}}})
	var problem suite.Problem
	if !errors.As(err, &problem) || !strings.Contains(problem.Msg, "not on the public internet") || reached.Load() != 0 {
		t.Errorf("got %v, canary reached %d times", err, reached.Load())
	}
}

// TestA29RebindingIsSeen: a name that leads to a public address when it is looked up, and to loopback when it is dialled a
// moment later, is refused, since nothing but the dialled address counts.
func TestA29RebindingIsSeen(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	address, resolver := rebound(t, &reached)
	client := newClient(nil, resolver)
	defer client.CloseIdleConnections()
	lookedUp(t, resolver)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	must(t, err)
	res, err := client.Do(req)
	if err == nil {
		res.Body.Close()
	}
	if !Refused(err) || reached.Load() != 0 {
		t.Errorf("got %v, canary reached %d times", err, reached.Load())
	}
}

// rebound is an address whose name leads to a public host once, and from then on to a canary on loopback.
func rebound(t *testing.T, reached *atomic.Int64) (address string, resolver *net.Resolver) {
	t.Helper()
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(canary.Close)
	_, port, err := net.SplitHostPort(canary.Listener.Addr().String())
	must(t, err)
	return "http://git.example.com:" + port, stubResolver(t, [4]byte{140, 82, 121, 4}, [4]byte{127, 0, 0, 1})
}

// lookedUp looks the name up, as whoever checks an address beforehand does.
func lookedUp(t *testing.T, resolver *net.Resolver) {
	t.Helper()
	addrs, err := resolver.LookupNetIP(t.Context(), "ip4", "git.example.com")
	must(t, err)
	if len(addrs) != 1 || !public(addrs[0]) {
		t.Fatalf("the first answer is %v", addrs)
	}
}

// stubResolver answers questions for IPv4 addresses with one of addrs after the other, and the last of them from then on,
// over a pipe of datagrams on loopback.
func stubResolver(t *testing.T, addrs ...[4]byte) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { server.Close() })
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12 + bytes.IndexByte(buf[12:n], 0) + 5 // header, name, type and class
			question := buf[12:end]
			answer := append([]byte{buf[0], buf[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
			if question[len(question)-3] == 1 { // A
				answer[7] = 1
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
				answer = append(answer, addrs[0][:]...)
				addrs = addrs[min(1, len(addrs)-1):]
			}
			_, _ = server.WriteTo(answer, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}
