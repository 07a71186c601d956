package publish

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-ci/assay/internal/bench"
	"github.com/assay-ci/assay/internal/githubtest"
)

// today is when the tests look for a baseline.
var today = time.Date(2026, 11, 21, 6, 31, 0, 0, time.UTC)

// sha names a commit of the tests' graph:
//
//	main:    1 ─ 2 ─ … ─ 30 ─ 31
//	side:    1 ─ 40 ─ 41 ┘(second parent of 30)
//	pull:              30 ─ 50
//
// The pull request's base is 31, the tip of main; its merge base is 30.
func sha(n int) string { return strings.Repeat(fmt.Sprintf("%02x", n), 20) }

// A lookup is a GitHub with that graph, and somebody who looks for a baseline there.
type lookup struct {
	server *githubtest.Server
	base   http.RoundTripper
	query  Query
}

func newLookup(t *testing.T) *lookup {
	t.Helper()
	s := githubtest.New(t)
	s.AddCommit(githubtest.Commit{SHA: sha(1)}, githubtest.Commit{SHA: sha(40), Parents: []string{sha(1)}},
		githubtest.Commit{SHA: sha(41), Parents: []string{sha(40)}})
	for n := 2; n <= 31; n++ {
		parents := []string{sha(n - 1)}
		if n == 30 {
			parents = append(parents, sha(41))
		}
		s.AddCommit(githubtest.Commit{SHA: sha(n), Parents: parents})
	}
	s.AddCommit(githubtest.Commit{SHA: sha(50), Parents: []string{sha(30)}})
	s.SetBranch("main", sha(31))
	dial := net.Dialer{}
	return &lookup{
		server: s,
		base: &http.Transport{
			DisableKeepAlives: true, // an idle connection would keep the clock of a bubble from moving
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				// The blob store's name is localhost. A resolver's work is shared between bubbles, which do not share.
				return dial.DialContext(ctx, network, strings.Replace(address, "localhost", "127.0.0.1", 1))
			},
		},
		query: Query{
			Want: "auto", Artifact: "assay-baseline", MaxAge: 14 * 24 * time.Hour, Branch: "main",
			Base: sha(31), Head: sha(50), Run: 9999, Repository: s.RepoID("octo/demo"),
			Workflows: []string{".github/workflows/assay.yml", ".github/workflows/assay-baseline.yml"},
			Now:       today,
		},
	}
}

// find looks in a bubble, so that waiting takes no time.
func (l *lookup) find(t *testing.T) (found bench.Stored, lost []Loss, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		hub, err := newHub(l.base, githubtest.Token, l.server.URL, "octo", "demo", time.Now, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		found, lost = FindBaseline(t.Context(), hub, l.query)
		took = time.Since(start)
		time.Sleep(2 * time.Hour) // what waits for the end of a rate limit ends too
	})
	return found, lost, took
}

// measured is the content of a benchmark.json of that commit.
func measured(t testing.TB, commit string, change func(*bench.Benchmark)) []byte {
	t.Helper()
	at := today.Add(-48 * time.Hour)
	b := bench.Benchmark{
		SchemaVersion: bench.Schema,
		Metadata:      bench.Metadata{Commit: commit, Timestamp: &at, Suite: "demo"},
		Verdict:       bench.NoEvidence,
		Gate:          bench.Decision{Result: "passed"},
	}
	b.Gate.Settings.Alpha = 0.05
	if change != nil {
		change(&b)
	}
	data, err := b.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func resultsZip(t testing.TB, benchmark []byte) []byte {
	t.Helper()
	return zipOf(t, zipEntry{name: "manifest.json", data: "{}"}, zipEntry{name: "benchmark.json", data: string(benchmark)})
}

// add makes a good baseline of a commit, after change has had its way with it.
func (l *lookup) add(t *testing.T, commit string, change func(*githubtest.Run, *githubtest.Artifact)) githubtest.Artifact {
	t.Helper()
	run := githubtest.Run{HeadSHA: commit, Path: ".github/workflows/assay-baseline.yml@refs/heads/main"}
	a := githubtest.Artifact{Name: "assay-baseline", Created: today.Add(-47 * time.Hour), Zip: resultsZip(t, measured(t, commit, nil))}
	if change != nil {
		change(&run, &a)
	}
	run = l.server.AddRun(run)
	a.Run = run.ID
	return l.server.AddArtifact(a)
}

// wantFound compares where a baseline came from.
func wantFound(t *testing.T, got bench.Stored, source, commit string, behind int) {
	t.Helper()
	if got.Benchmark == nil {
		t.Fatalf("no baseline: %+v", got.Origin)
	}
	if got.Origin.Source != source || got.Origin.SHA != commit || got.Origin.Behind != behind || got.Benchmark.Metadata.Commit != commit {
		t.Errorf("found %+v, want %s %s, %d behind", got.Origin, source, commit, behind)
	}
	if len(got.Origin.Rejected) > 0 {
		t.Errorf("rejected %+v", got.Origin.Rejected)
	}
}

func wantNone(t *testing.T, got bench.Stored, reason string, says ...string) {
	t.Helper()
	if got.Benchmark != nil || got.Origin.Source != "none" || got.Origin.Reason != reason {
		t.Fatalf("found %+v, want none with %s", got.Origin, reason)
	}
	for _, word := range says {
		if !strings.Contains(got.Origin.Why, word) {
			t.Errorf("why %q does not say %q", got.Origin.Why, word)
		}
	}
}

func TestLadder(t *testing.T) {
	t.Parallel()
	file := func(l *lookup, commit, path, of string) {
		l.server.AddFile(commit, path, measured(t, of, nil))
	}
	release := func(l *lookup, tag, of string) {
		l.server.SetBranch(tag, of)
		l.server.AddRelease(githubtest.Release{Tag: tag, Created: today.Add(-24 * time.Hour), Assets: []githubtest.Asset{
			{Name: "report.md", Data: []byte("x")}, {Name: "benchmark.json", Data: measured(t, of, nil)},
		}})
	}
	tests := map[string]struct {
		want   string // of the query; empty: auto
		set    func(*testing.T, *lookup)
		source string
		commit string
		behind int
	}{
		"merge base, not the base's tip": {"", func(t *testing.T, l *lookup) {
			l.add(t, sha(31), nil)
			l.add(t, sha(30), nil)
			l.add(t, sha(29), nil)
			file(l, sha(30), "evals/baseline.json", sha(7))
		}, "merge-base", sha(30), 0},
		"nearest first parent": {"", func(t *testing.T, l *lookup) {
			l.add(t, sha(20), nil)
			l.add(t, sha(28), nil)
			l.add(t, sha(41), nil)
			l.add(t, sha(50), nil)
		}, "ancestor", sha(28), 2},
		"twentieth first parent": {"", func(t *testing.T, l *lookup) { l.add(t, sha(10), nil) }, "ancestor", sha(10), 20},
		"file of the merge base": {"", func(t *testing.T, l *lookup) {
			l.add(t, sha(9), nil)  // one too far
			l.add(t, sha(41), nil) // a second parent
			file(l, sha(30), "evals/baseline.json", sha(7))
			file(l, sha(50), "evals/baseline.json", sha(8))
			release(l, "v1", sha(6))
		}, "file", sha(7), 0},
		"file of another place": {"", func(t *testing.T, l *lookup) {
			l.query.File = "tests/evals/baseline.json"
			file(l, sha(30), "tests/evals/baseline.json", sha(7))
			file(l, sha(30), "evals/baseline.json", sha(8))
		}, "file", sha(7), 0},
		"file over 1 MB": {"", func(t *testing.T, l *lookup) {
			l.server.AddFile(sha(30), "evals/baseline.json", measured(t, sha(7), func(b *bench.Benchmark) {
				b.Notes = []string{strings.Repeat("x", 2<<20)}
			}))
		}, "file", sha(7), 0},
		"file by a clone": {"", func(t *testing.T, l *lookup) {
			l.query.ReadFile = func(rev, path string) ([]byte, error) {
				if rev != sha(30) || path != "evals/baseline.json" {
					return nil, fs.ErrNotExist
				}
				return measured(t, sha(7), nil), nil
			}
		}, "file", sha(7), 0},
		"latest release": {"", func(t *testing.T, l *lookup) {
			file(l, sha(50), "evals/baseline.json", sha(8)) // what the pull request brings is no baseline of it
			release(l, "v1", sha(6))
		}, "release", sha(6), 0},
		"asked: merge base": {"merge-base", func(t *testing.T, l *lookup) { l.add(t, sha(30), nil) }, "merge-base", sha(30), 0},
		"asked: branch":     {"ref:main", func(t *testing.T, l *lookup) { l.add(t, sha(31), nil) }, "ref", sha(31), 0},
		"asked: other branch": {"ref:next", func(t *testing.T, l *lookup) {
			l.server.SetBranch("next", sha(41))
			l.add(t, sha(40), func(r *githubtest.Run, _ *githubtest.Artifact) { r.HeadBranch = "next" })
		}, "ref", sha(40), 1},
		"asked: commit": {"ref:" + sha(12), func(t *testing.T, l *lookup) { l.add(t, sha(12), nil) }, "ref", sha(12), 0},
		"asked: release": {"release:v1", func(t *testing.T, l *lookup) {
			release(l, "v1", sha(6))
			release(l, "v2", sha(7))
		}, "release", sha(6), 0},
		"asked: file": {"file:kept/old.json", func(t *testing.T, l *lookup) {
			l.add(t, sha(30), nil)
			file(l, sha(30), "kept/old.json", sha(7))
		}, "file", sha(7), 0},
		"asked: run of any kind": {"run:4711", func(t *testing.T, l *lookup) {
			l.add(t, sha(50), func(r *githubtest.Run, _ *githubtest.Artifact) {
				r.ID, r.Event, r.HeadBranch, r.Path = 4711, "workflow_dispatch", "topic", ".github/workflows/assay-benchmark.yml"
			})
		}, "run", sha(50), 0},
		"no pull request: the commit by another run": {"", func(t *testing.T, l *lookup) {
			l.query.Base, l.query.Head = "", sha(31)
			l.add(t, sha(31), func(r *githubtest.Run, _ *githubtest.Artifact) { r.Event = "schedule" })
		}, "merge-base", sha(31), 0},
		"of any age": {"", func(t *testing.T, l *lookup) {
			l.query.MaxAge, l.query.Now = 0, today.AddDate(5, 0, 0)
			l.add(t, sha(30), nil)
		}, "merge-base", sha(30), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLookup(t)
			if test.want != "" {
				l.query.Want = test.want
			}
			test.set(t, l)
			got, lost, _ := l.find(t)
			wantFound(t, got, test.source, test.commit, test.behind)
			if len(lost) > 0 {
				t.Errorf("lost %v", lost)
			}
			if c := got.Origin.Created; c == nil || !c.Equal(today.Add(-48*time.Hour)) {
				t.Errorf("created %v, and it was measured 48 hours ago", c)
			}
		})
	}
}

func TestOriginOfArtifact(t *testing.T) {
	t.Parallel()
	l := newLookup(t)
	a := l.add(t, sha(30), func(_ *githubtest.Run, a *githubtest.Artifact) { a.Created = today.Add(-time.Hour) })
	l.add(t, sha(30), nil) // an older one of the same commit
	got, _, _ := l.find(t)
	at := today.Add(-48 * time.Hour) // when it was measured; the artifact is younger
	want := bench.Origin{
		Source: "merge-base", SHA: sha(30), Created: &at,
		URL: fmt.Sprintf("https://github.com/octo/demo/actions/runs/%d/artifacts/%d", a.Run, a.ID),
	}
	if diff := cmp.Diff(want, got.Origin); diff != "" {
		t.Error(diff)
	}
}

// TestFilters poisons a baseline in one way at a time. Each must be refused, by the filter that is there for it.
func TestFilters(t *testing.T) {
	t.Parallel()
	of := func(change func(*bench.Benchmark)) func(*lookup, *githubtest.Run, *githubtest.Artifact) {
		return func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) {
			a.Zip = resultsZip(t, measured(t, sha(30), change))
		}
	}
	tests := map[string]struct {
		poison func(*lookup, *githubtest.Run, *githubtest.Artifact)
		filter string
	}{
		// The six of the acceptance list.
		"fork whose branch is named main": {func(_ *lookup, r *githubtest.Run, _ *githubtest.Artifact) { r.HeadRepo = "mallory/demo" }, "fork: "},
		"dispatched run":                  {func(_ *lookup, r *githubtest.Run, _ *githubtest.Artifact) { r.Event = "workflow_dispatch" }, "event: "},
		"expired":                         {func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) { a.Expired = true }, "expired: "},
		"other workflow":                  {func(_ *lookup, r *githubtest.Run, _ *githubtest.Artifact) { r.Path = ".github/workflows/evil.yml" }, "workflow: "},
		"wrong measured commit":           {of(func(b *bench.Benchmark) { b.Metadata.Commit = sha(50) }), "commit: it measured"},
		"swapped archive": {func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) {
			a.Digest = "sha256:" + strings.Repeat("0", 64)
		}, "digest: "},

		"digest of an unknown kind": {func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) { a.Digest = "md5:0" }, "digest: "},
		"pull request's run":        {func(_ *lookup, r *githubtest.Run, _ *githubtest.Artifact) { r.Event = "pull_request" }, "event: "},
		"other branch":              {func(_ *lookup, r *githubtest.Run, _ *githubtest.Artifact) { r.HeadBranch = "topic" }, `branch: it was measured on "topic"`},
		"no branch is known":        {func(l *lookup, r *githubtest.Run, _ *githubtest.Artifact) { l.query.Branch = "" }, "branch: "},
		"no workflow is known":      {func(l *lookup, r *githubtest.Run, _ *githubtest.Artifact) { l.query.Workflows = nil }, "workflow: "},
		"no repository is known":    {func(l *lookup, r *githubtest.Run, _ *githubtest.Artifact) { l.query.Repository = 0 }, "fork: "},
		"own run":                   {func(l *lookup, r *githubtest.Run, _ *githubtest.Artifact) { r.ID = l.query.Run }, "own run: "},
		"failed run":                {func(_ *lookup, r *githubtest.Run, _ *githubtest.Artifact) { r.Conclusion = "failure" }, `conclusion: its run ended as "failure"`},
		"run that goes on": {func(_ *lookup, r *githubtest.Run, _ *githubtest.Artifact) {
			r.Status, r.Conclusion = "in_progress", "-"
		}, `conclusion: its run ended as "not yet"`},
		"no measured commit":   {of(func(b *bench.Benchmark) { b.Metadata.Commit = "" }), "commit: it does not say"},
		"untrusted run":        {of(func(b *bench.Benchmark) { b.Metadata.Untrusted = true }), "untrusted: "},
		"other schema version": {of(func(b *bench.Benchmark) { b.SchemaVersion++ }), "content: read benchmark.json: schema_version"},
		"old artifact":         {func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) { a.Created = today.AddDate(0, 0, -15) }, "age: 15.0 days, more than 14.0 days"},
		"old measurement in a new artifact": {of(func(b *bench.Benchmark) {
			old := today.AddDate(-1, 0, 0)
			b.Metadata.Timestamp = &old
		}), "age: 365.0 days"},
		"measured in the future, uploaded long ago": {func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) {
			a.Zip = resultsZip(t, measured(t, sha(30), func(b *bench.Benchmark) {
				next := today.AddDate(1, 0, 0)
				b.Metadata.Timestamp = &next
			}))
			a.Created = today.AddDate(0, 0, -20)
		}, "age: 20.0 days"},
		"no benchmark in it": {func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) {
			a.Zip = zipOf(t, zipEntry{name: "manifest.json"})
		}, "content: there is no benchmark.json"},
		"two benchmarks in it": {func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) {
			good := string(measured(t, sha(30), nil))
			a.Zip = zipOf(t, zipEntry{name: "benchmark.json", data: good}, zipEntry{name: "Benchmark.json", data: good})
		}, "content: archive entry"},
		"link in it": {func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) {
			a.Zip = zipOf(t, zipEntry{name: "benchmark.json", data: "/etc/passwd", mode: fs.ModeSymlink | 0o777})
		}, "content: archive entry"},
		"truncated archive":  {func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) { a.Zip = a.Zip[:len(a.Zip)-20] }, "content: archive: "},
		"truncated document": {func(_ *lookup, _ *githubtest.Run, a *githubtest.Artifact) { a.Zip = resultsZip(t, []byte(`{"schema`)) }, "content: read benchmark.json"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLookup(t)
			l.add(t, sha(30), func(r *githubtest.Run, a *githubtest.Artifact) { test.poison(l, r, a) })
			got, lost, _ := l.find(t)
			reason := "no_baseline"
			if strings.HasPrefix(test.filter, "age: ") {
				reason = "stale_baseline"
			}
			wantNone(t, got, reason)
			if reason == "no_baseline" && !strings.Contains(got.Origin.Why, "1 could not be used.") {
				t.Errorf("why %q", got.Origin.Why)
			}
			if len(got.Origin.Rejected) != 1 || !strings.HasPrefix(got.Origin.Rejected[0].Why, test.filter) || !strings.HasPrefix(got.Origin.Rejected[0].What, "artifact ") {
				t.Errorf("rejected %+v, want %q", got.Origin.Rejected, test.filter)
			}
			if len(lost) > 0 {
				t.Errorf("lost %v", lost)
			}
		})
	}
}

// TestFiltersOfOddAnswers are those that no honest GitHub gives a reason for.
func TestFiltersOfOddAnswers(t *testing.T) {
	t.Parallel()
	var a Artifact
	a.Run.ID, a.Run.Repository, a.Run.HeadRepository, a.Run.HeadBranch, a.Run.HeadSHA = 7, 1, 1, "main", sha(30)
	run := pastRun{Event: "push", Path: "w.yml", Conclusion: "success", HeadSHA: sha(30), HeadBranch: "main"}
	run.Head.ID = 1
	s := &search{query: Query{Repository: 1, Branch: "main", Workflows: []string{"w.yml"}}}
	if why := s.refuseArtifact(a, "merge-base") + s.refuseRun(run, a, "merge-base"); why != "" {
		t.Fatal(why)
	}

	large := a
	large.Size = maxArchive + 1
	if why := s.refuseArtifact(large, "run"); !strings.HasPrefix(why, "size: ") {
		t.Errorf("a large artifact: %q", why)
	}
	foreign := a
	foreign.Run.Repository = 2
	if why := s.refuseArtifact(foreign, "run"); !strings.HasPrefix(why, "fork: ") {
		t.Errorf("an artifact of another repository: %q", why)
	}
	for name, change := range map[string]func(*pastRun){
		"commit":     func(r *pastRun) { r.HeadSHA = sha(31) },
		"branch":     func(r *pastRun) { r.HeadBranch = "topic" },
		"repository": func(r *pastRun) { r.Head.ID = 2 },
	} {
		other := run
		change(&other)
		if why := s.refuseRun(other, a, "run"); !strings.HasPrefix(why, "run: ") {
			t.Errorf("a run of another %s: %q", name, why)
		}
	}
}

// TestFiltersOfOtherRungs are those that a file, a release and a named run must pass.
func TestFiltersOfOtherRungs(t *testing.T) {
	t.Parallel()
	untrusted := func(b *bench.Benchmark) { b.Metadata.Untrusted = true }
	undated := func(b *bench.Benchmark) { b.Metadata.Timestamp = nil }
	release := func(tagged string, data []byte) func(*testing.T, *lookup) {
		return func(_ *testing.T, l *lookup) {
			l.server.SetBranch("v1", tagged)
			l.server.AddRelease(githubtest.Release{Tag: "v1", Created: today, Assets: []githubtest.Asset{{Name: "benchmark.json", Data: data}}})
		}
	}
	file := func(data []byte) func(*testing.T, *lookup) {
		return func(_ *testing.T, l *lookup) { l.server.AddFile(sha(30), "evals/baseline.json", data) }
	}
	run := func(change func(*githubtest.Run, *githubtest.Artifact)) func(*testing.T, *lookup) {
		return func(t *testing.T, l *lookup) {
			l.query.Want = "run:4711"
			l.add(t, sha(30), func(r *githubtest.Run, a *githubtest.Artifact) {
				r.ID = 4711
				change(r, a)
			})
		}
	}
	tests := map[string]struct {
		set    func(*testing.T, *lookup)
		filter string
		reason string
	}{
		"file of an untrusted run":    {file(measured(t, sha(7), untrusted)), "untrusted: ", "no_baseline"},
		"file without a time":         {file(measured(t, sha(7), undated)), "age: not known", "no_baseline"},
		"file of something else":      {file([]byte("[]")), "content: ", "no_baseline"},
		"release of another commit":   {release(sha(6), measured(t, sha(7), nil)), "commit: ", "no_baseline"},
		"release of no commit":        {release(sha(6), measured(t, "", nil)), "commit: ", "no_baseline"},
		"release of an untrusted run": {release(sha(6), measured(t, sha(6), untrusted)), "untrusted: ", "no_baseline"},
		"release of something else":   {release(sha(6), []byte("{}")), "content: ", "no_baseline"},
		"old release": {release(sha(6), measured(t, sha(6), func(b *bench.Benchmark) {
			old := today.AddDate(0, 0, -15)
			b.Metadata.Timestamp = &old
		})), "age: ", "stale_baseline"},
		"named run of a fork":       {run(func(r *githubtest.Run, _ *githubtest.Artifact) { r.HeadRepo = "mallory/demo" }), "fork: ", "no_baseline"},
		"named run that failed":     {run(func(r *githubtest.Run, _ *githubtest.Artifact) { r.Conclusion = "failure" }), "conclusion: ", "no_baseline"},
		"named run, other contents": {run(func(_ *githubtest.Run, a *githubtest.Artifact) { a.Digest = "sha256:" + strings.Repeat("1", 64) }), "digest: ", "no_baseline"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLookup(t)
			test.set(t, l)
			got, _, _ := l.find(t)
			wantNone(t, got, test.reason)
			if len(got.Origin.Rejected) != 1 || !strings.HasPrefix(got.Origin.Rejected[0].Why, test.filter) {
				t.Errorf("rejected %+v, want %q", got.Origin.Rejected, test.filter)
			}
		})
	}
}

// TestPoisonedDoNotHideTheGood goes on after each candidate that is refused.
func TestPoisonedDoNotHideTheGood(t *testing.T) {
	t.Parallel()
	l := newLookup(t)
	l.add(t, sha(29), nil)
	l.add(t, sha(30), func(r *githubtest.Run, _ *githubtest.Artifact) { r.HeadRepo = "mallory/demo" })
	l.add(t, sha(30), func(r *githubtest.Run, _ *githubtest.Artifact) { r.Event = "pull_request" })
	got, _, _ := l.find(t)
	if got.Origin.Source != "ancestor" || got.Origin.SHA != sha(29) || len(got.Origin.Rejected) != 2 {
		t.Errorf("%+v", got.Origin)
	}
}

func TestNoBaselineIsWantedOrThere(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		set  func(*lookup)
		says []string
	}{
		"none":            {func(l *lookup) { l.query.Want = "none" }, []string{"asked for no stored baseline"}},
		"paired":          {func(l *lookup) { l.query.Want = "paired" }, []string{"asked for no stored baseline"}},
		"empty":           {func(*lookup) {}, []string{"none found", `"assay-baseline"`, "20 commits before", "evals/baseline.json", "latest release", "push"}},
		"merge base only": {func(l *lookup) { l.query.Want = "merge-base" }, []string{"none found"}},
		"no such tag":     {func(l *lookup) { l.query.Want = "release:v9" }, []string{"none found", `release "v9"`}},
		"nothing in common": {func(l *lookup) {
			l.server.AddCommit(githubtest.Commit{SHA: sha(60)})
			l.query.Head = sha(60)
		}, []string{"could not look", "merge base: 404"}},
		"no head":  {func(l *lookup) { l.query.Head = "" }, []string{"could not look", "not known"}},
		"nonsense": {func(l *lookup) { l.query.Want = "latest" }, []string{"could not look", "merge-base"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLookup(t)
			l.add(t, sha(29), func(_ *githubtest.Run, a *githubtest.Artifact) { a.Name = "something-else" })
			test.set(l)
			got, _, _ := l.find(t)
			wantNone(t, got, "no_baseline", test.says...)
		})
	}
}

func TestFindBaselineWithoutToken(t *testing.T) {
	t.Parallel()
	q := Query{Want: "auto", Head: sha(30), Now: today}
	got, lost := FindBaseline(t.Context(), nil, q)
	wantNone(t, got, "no_baseline", "could not look: there is no token")
	if len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
	q.ReadFile = func(string, string) ([]byte, error) { return measured(t, sha(7), nil), nil }
	got, _ = FindBaseline(t.Context(), nil, q)
	wantFound(t, got, "file", sha(7), 0)
}

// TestAgeNeedsAClock must not take every age for a good one where no time is given.
func TestAgeNeedsAClock(t *testing.T) {
	t.Parallel()
	l := newLookup(t)
	l.query.Now = time.Time{}
	l.add(t, sha(30), nil)
	for name, test := range map[string]struct {
		now    time.Time
		reason string // empty: found
	}{
		"the next day": {today, ""},
		"a year later": {today.AddDate(1, 0, 0), "stale_baseline"},
	} {
		hub, err := newHub(l.base, githubtest.Token, l.server.URL, "octo", "demo", func() time.Time { return test.now }, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := FindBaseline(t.Context(), hub, l.query); got.Origin.Reason != test.reason {
			t.Errorf("%s: %+v", name, got.Origin)
		}
	}
	got, _ := FindBaseline(t.Context(), nil, Query{
		Want: "auto", Head: sha(30), MaxAge: time.Hour,
		ReadFile: func(string, string) ([]byte, error) { return measured(t, sha(7), nil), nil },
	})
	if got.Benchmark != nil || len(got.Origin.Rejected) != 1 || got.Origin.Rejected[0].Why != "age: not known" {
		t.Errorf("without a clock: %+v", got.Origin)
	}
}

// TestArtifactPages looks through five pages and says that there are more.
func TestArtifactPages(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]int{"in the fifth page": 480, "in the sixth page": 520} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLookup(t)
			run := l.server.AddRun(githubtest.Run{HeadSHA: sha(31)})
			good := l.server.AddRun(githubtest.Run{HeadSHA: sha(30)})
			for i := range 550 {
				a := githubtest.Artifact{Name: "assay-baseline", Run: run.ID, Created: today.Add(-time.Duration(i) * time.Minute)}
				if i == at {
					a.Run, a.Zip = good.ID, resultsZip(t, measured(t, sha(30), nil))
				}
				l.server.AddArtifact(a)
			}
			got, _, _ := l.find(t)
			if at < 500 {
				wantFound(t, got, "merge-base", sha(30), 0)
			} else {
				wantNone(t, got, "no_baseline", "among the newest 500")
			}
		})
	}
}

func TestNoMoreThanSomeAreOpened(t *testing.T) {
	t.Parallel()
	l := newLookup(t)
	for range baselineTries + 5 {
		l.add(t, sha(30), func(r *githubtest.Run, _ *githubtest.Artifact) { r.Conclusion = "failure" })
	}
	got, _, _ := l.find(t)
	wantNone(t, got, "no_baseline")
	if n := len(got.Origin.Rejected); n != baselineTries+1 || !strings.Contains(got.Origin.Rejected[n-1].What, "5 further") {
		t.Errorf("%d rejected, the last %+v", n, got.Origin.Rejected[n-1])
	}
}

// silent is a network that never answers what is asked at some paths.
type silent struct {
	http.RoundTripper
	at string
}

func (s silent) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.Contains(req.URL.Path, s.at) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return s.RoundTripper.RoundTrip(req)
}

// TestBaselineFaults lets GitHub fail. Nobody could look is not the same as nothing was there, and the time is bounded.
func TestBaselineFaults(t *testing.T) {
	t.Parallel()
	const (
		list    = `/actions/artifacts$`
		zip     = `/zip$`
		run     = `/actions/runs/\d+$`
		compare = `/compare/`
		blobs   = `^/_blobs/`
	)
	tests := map[string]struct {
		fault githubtest.Fault
		says  string // of the why; empty: the baseline is found all the same
		lost  []Loss
	}{
		"list: 403":            {githubtest.Forbidden().On("GET", list), "could not look: artifacts", []Loss{{"baseline", "403", "actions: read"}}},
		"list: 404":            {githubtest.NotFound().On("GET", list), "could not look", []Loss{{"baseline", "404", "actions: read"}}},
		"list: 401":            {githubtest.Unauthorized().On("GET", list), "could not look", []Loss{{"baseline", "401", ""}}},
		"list: 500":            {githubtest.Down(500).On("GET", list), "could not look", []Loss{{"baseline", "500", ""}}},
		"list: 502 once":       {githubtest.Down(502).On("GET", list).For(1), "", nil},
		"list: truncated once": {githubtest.Truncated().On("GET", list).For(1), "", nil},
		"list: reset":          {githubtest.Reset().On("GET", list), "could not look", []Loss{{"baseline", "no answer", ""}}},
		"list: 429 once":       {githubtest.TooMany(5*time.Second).On("GET", list).For(1), "", nil},
		"list: limit spent":    {githubtest.RateLimited(time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC)).On("GET", list), "could not look", []Loss{{"baseline", "rate limit", ""}}},
		"list: slow down once": {githubtest.SecondaryLimit(5*time.Second).On("GET", list).For(1), "", nil},
		"merge base: 403":      {githubtest.Forbidden().On("GET", compare), "could not look: the merge base: 403", []Loss{{"baseline", "403", "contents: read"}}},
		"run: 404":             {githubtest.NotFound().On("GET", run), "could not look: the run of artifact", []Loss{{"baseline", "404", "actions: read"}}},
		"run: 503 twice":       {githubtest.Down(503).On("GET", run).For(2), "", nil},
		"zip: 403":             {githubtest.Forbidden().On("GET", zip), "could not look: artifact", []Loss{{"baseline", "403", "actions: read"}}},
		"blob: 403":            {githubtest.Fault{Status: 403, Header: http.Header{"Content-Type": {"application/xml"}}, Body: "<Error/>"}.On("GET", blobs), "could not look: artifact", []Loss{{"baseline", "403", "actions: read"}}},
		"blob: cut once":       {githubtest.Reset().On("GET", blobs).For(1), "", nil},
		"blob: cut for ever":   {githubtest.Reset().On("GET", blobs), "could not look: artifact", []Loss{{"baseline", "no answer", ""}}},
		"blob: truncated":      {githubtest.Truncated().On("GET", blobs), "none found", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLookup(t)
			l.add(t, sha(30), nil)
			l.server.Fail(test.fault)
			got, lost, took := l.find(t)
			if test.says == "" {
				wantFound(t, got, "merge-base", sha(30), 0)
			} else {
				wantNone(t, got, "no_baseline", test.says)
			}
			if diff := cmp.Diff(test.lost, lost); diff != "" {
				t.Error(diff)
			}
			if took > baselineTime {
				t.Errorf("took %s", took)
			}
			if text := fmt.Sprint(got.Origin); strings.Contains(text, "sig=") || strings.Contains(text, "_blobs") {
				t.Errorf("an address of the blob store is shown: %s", text)
			}
		})
	}
	for _, at := range []string{"/compare/", "/commits", "/actions/artifacts", "/actions/runs", "/zip", "/_blobs", "/contents", "/releases"} {
		t.Run("silence at "+at, func(t *testing.T) {
			t.Parallel()
			l := newLookup(t)
			l.base = silent{l.base, at}
			_, lost, took := l.find(t)
			if took > baselineTime+time.Second {
				t.Errorf("took %s", took)
			}
			if len(lost) == 0 && (at == "/compare/" || at == "/commits" || at == "/actions/artifacts" || at == "/contents" || at == "/releases") {
				t.Error("nothing is said to be lost")
			}
		})
	}
}

func TestFetchArtifact(t *testing.T) {
	t.Parallel()
	l := newLookup(t)
	run := l.server.AddRun(githubtest.Run{HeadSHA: sha(50), Event: "pull_request"})
	want := map[string]string{"manifest.json": "{}", "cells/a/result.json": "{\"x\":1}"}
	for i := range 101 { // more than a page
		l.server.AddArtifact(githubtest.Artifact{Run: run.ID, Name: fmt.Sprintf("assay-shard-%d", i), Zip: zipOf(t,
			zipEntry{name: "manifest.json", data: "{}"}, zipEntry{name: "cells/a/result.json", data: "{\"x\":1}"})})
	}
	poisoned := l.server.AddArtifact(githubtest.Artifact{Run: run.ID, Name: "poisoned", Zip: zipOf(t, zipEntry{name: "../x", data: "x"})})
	swapped := l.server.AddArtifact(githubtest.Artifact{Run: run.ID, Name: "swapped", Zip: zipOf(t), Digest: "sha256:" + strings.Repeat("0", 64)})
	expired := l.server.AddArtifact(githubtest.Artifact{Run: run.ID, Name: "expired", Zip: zipOf(t), Expired: true})
	l.server.AddArtifact(githubtest.Artifact{Run: l.server.AddRun(githubtest.Run{HeadSHA: sha(31)}).ID, Name: "of-another-run"})
	bad := map[int64]string{poisoned.ID: "plain relative name", swapped.ID: "digest", expired.ID: "time was over"}

	hub, err := newHub(l.base, githubtest.Token, l.server.URL, "octo", "demo", time.Now, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	all, err := hub.Artifacts(t.Context(), run.ID)
	if err != nil || len(all) != 104 {
		t.Fatalf("%d artifacts, %v", len(all), err)
	}
	for i, a := range all {
		says, isBad := bad[a.ID]
		if !isBad && i%25 > 0 {
			continue
		}
		dir := t.TempDir()
		err := hub.FetchArtifact(t.Context(), a, dir, LimitsFor(1))
		switch {
		case isBad && (err == nil || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v, want %q", a.Name, err, says)
		case !isBad && err != nil:
			t.Errorf("%s: %v", a.Name, err)
		case !isBad:
			if diff := cmp.Diff(want, readFolder(t, dir)); diff != "" {
				t.Error(diff)
			}
		}
	}
	if _, err := hub.Artifacts(t.Context(), 1); statusOf(err) != http.StatusNotFound {
		t.Errorf("artifacts of no run: %v", err)
	}
}

func TestDownloadIsBounded(t *testing.T) {
	t.Parallel()
	request, err := http.NewRequest(http.MethodGet, "http://example.com/x?sig=secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := save(request, endless{}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
	saved, err := save(request, bytes.NewReader([]byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	saved.remove()
	if _, err := os.Stat(saved.file.Name()); err == nil {
		t.Error("the file is still there")
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestCheckWant(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"auto", "none", "paired", "merge-base", "ref:main", "ref:a/b", "release:v1", "release:latest", "run:12", "file:evals/baseline.json"} {
		if err := CheckWant(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "latest", "auto:", "auto:x", "none:", "ref", "ref:", "release:", "run:", "run:x", "run:-1", "run:0", "file:", "file:/etc/passwd", "file:../x", "file:.", "AUTO"} {
		if err := CheckWant(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
