package publish

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/bench"
)

// artifacts tries the artifacts of the right name that belong to the commits of line, the nearest and then the newest
// first.
func (s *search) artifacts(ctx context.Context, source string, line []string) *bench.Stored {
	what := fmt.Sprintf("artifacts %q of %s", s.query.Artifact, short(line[0]))
	if len(line) > 1 {
		what += fmt.Sprintf(" and %d commits before it", len(line)-1)
	}
	if !s.canAsk() {
		return nil
	}
	all, more, err := s.hub.listArtifacts(ctx, "actions/artifacts", url.Values{"name": {s.query.Artifact}}, baselinePages)
	if err != nil {
		s.couldNot(what, err, "actions: read")
		return nil
	}
	if more {
		what += fmt.Sprintf(" (among the newest %d of that name)", len(all))
	}
	s.looked = append(s.looked, what)

	behind := map[string]int{}
	for i, sha := range line {
		behind[sha] = i
	}
	all = slices.DeleteFunc(all, func(a Artifact) bool {
		_, ours := behind[a.Run.HeadSHA]
		return !ours || a.Name != s.query.Artifact
	})
	slices.SortFunc(all, func(a, b Artifact) int {
		return cmp.Or(cmp.Compare(behind[a.Run.HeadSHA], behind[b.Run.HeadSHA]), b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID))
	})
	return s.firstOf(ctx, source, all, behind)
}

// ofRun tries the artifacts of a run that a person named.
func (s *search) ofRun(ctx context.Context, id int64) *bench.Stored {
	if !s.canAsk() {
		return nil
	}
	all, err := s.hub.Artifacts(ctx, id)
	if err != nil {
		s.couldNot(fmt.Sprintf("the artifacts of run %d", id), err, "actions: read")
		return nil
	}
	s.looked = append(s.looked, fmt.Sprintf("artifacts %q of run %d", s.query.Artifact, id))
	all = slices.DeleteFunc(all, func(a Artifact) bool { return a.Name != s.query.Artifact })
	slices.SortFunc(all, func(a, b Artifact) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) })
	return s.firstOf(ctx, "run", all, nil)
}

// firstOf is the first artifact that passes every filter.
func (s *search) firstOf(ctx context.Context, source string, all []Artifact, behind map[string]int) *bench.Stored {
	tried := 0
	for i, a := range all {
		if tried == baselineTries {
			s.reject(fmt.Sprintf("%d further artifacts", len(all)-i), fmt.Sprintf("no more than %d are opened", baselineTries))
			break
		}
		what := fmt.Sprintf("artifact %d of run %d at %s", a.ID, a.Run.ID, short(a.Run.HeadSHA))
		if why := s.refuseArtifact(a, source); why != "" {
			s.reject(what, why)
			continue
		}
		tried++
		b, address := s.open(ctx, a, source, what)
		if b == nil {
			continue
		}
		n := behind[a.Run.HeadSHA]
		if source == "merge-base" && n > 0 {
			source = "ancestor"
		}
		return &bench.Stored{Benchmark: b, Origin: bench.Origin{
			Source: source, SHA: b.Metadata.Commit, URL: address, Created: older(&a.Created, b.Metadata.Timestamp), Behind: n,
		}}
	}
	return nil
}

// refuseArtifact holds an artifact against the filters that need no further call. An empty text lets it pass.
func (s *search) refuseArtifact(a Artifact, source string) string {
	q := s.query
	switch {
	case a.Expired:
		return "expired: GitHub has deleted it"
	case a.Run.ID == q.Run:
		return "own run: it would be compared with itself"
	case a.Run.HeadRepository != q.Repository || a.Run.Repository != q.Repository:
		return "fork: its run was of the code of another repository"
	case a.Size > maxArchive:
		return fmt.Sprintf("size: more than %d bytes", maxArchive)
	case source == "run": // a person looked at it and named it
		return ""
	case (q.Branch == "" || a.Run.HeadBranch != q.Branch) && "ref:"+a.Run.HeadBranch != q.Want:
		return fmt.Sprintf("branch: it was measured on %q, not on %q", a.Run.HeadBranch, q.Branch)
	}
	return ""
}

// A pastRun is a run of a workflow, in the fields that filters look at.
type pastRun struct {
	Event      string `json:"event"`
	Path       string `json:"path"` // of the workflow's file, perhaps with @ and a ref behind it
	Conclusion string `json:"conclusion"`
	HeadSHA    string `json:"head_sha"`
	HeadBranch string `json:"head_branch"`
	URL        string `json:"html_url"`
	Head       struct {
		ID int64 `json:"id"`
	} `json:"head_repository"`
}

// refuseRun holds the run of an artifact against the filters.
func (s *search) refuseRun(r pastRun, a Artifact, source string) string {
	path, _, _ := strings.Cut(r.Path, "@")
	switch {
	case r.HeadSHA != a.Run.HeadSHA || r.HeadBranch != a.Run.HeadBranch || r.Head.ID != a.Run.HeadRepository:
		return "run: it is not the run that the artifact's entry speaks of"
	case r.Conclusion != "success":
		return fmt.Sprintf("conclusion: its run ended as %q", cmp.Or(r.Conclusion, "not yet"))
	case source == "run":
		return ""
	case r.Event != "push" && r.Event != "schedule": // a dispatched run may check out any commit
		return fmt.Sprintf("event: its run was started by %q, not by push or schedule", r.Event)
	case !slices.Contains(s.query.Workflows, path):
		return fmt.Sprintf("workflow: it was made by %q", path)
	}
	return ""
}

// refuseBenchmark holds a benchmark against the filters. measured is the commit that it must be of; empty: any.
func (s *search) refuseBenchmark(b *bench.Benchmark, measured string, created *time.Time) string {
	m := b.Metadata
	switch {
	case measured != "" && m.Commit == "":
		return "commit: it does not say which commit it measured"
	case measured != "" && m.Commit != measured:
		return fmt.Sprintf("commit: it measured %q, not %s", m.Commit, short(measured))
	case m.Untrusted:
		return "untrusted: a stranger had a say in how it was measured"
	case s.query.MaxAge <= 0:
		return ""
	case created == nil || s.query.Now.IsZero():
		return "age: not known"
	}
	if age := s.query.Now.Sub(*created); age > s.query.MaxAge {
		s.stale = true
		return fmt.Sprintf("age: %s, more than %s", days(age), days(s.query.MaxAge))
	}
	return ""
}

// open downloads an artifact and holds its run and its benchmark against the filters. It returns the benchmark and the
// artifact's address, or tells why not and returns nil.
func (s *search) open(ctx context.Context, a Artifact, source, what string) (*bench.Benchmark, string) {
	var run pastRun
	if _, err := s.hub.get(ctx, fmt.Sprintf("actions/runs/%d", a.Run.ID), &run); err != nil {
		s.couldNot("the run of "+what, err, "actions: read")
		return nil, ""
	}
	if why := s.refuseRun(run, a, source); why != "" {
		s.reject(what, why)
		return nil, ""
	}
	packed, err := s.hub.downloadArtifact(ctx, a)
	if errors.Is(err, errDigest) {
		s.reject(what, "digest: "+errDigest.Error())
		return nil, ""
	}
	if err != nil {
		s.couldNot(what, err, "actions: read")
		return nil, ""
	}
	defer packed.remove()
	b, err := readPacked(packed)
	if err != nil {
		s.reject(what, "content: "+err.Error())
		return nil, ""
	}
	if why := s.refuseBenchmark(b, a.Run.HeadSHA, older(&a.Created, b.Metadata.Timestamp)); why != "" {
		s.reject(what, why)
		return nil, ""
	}
	return b, fmt.Sprintf("%s/artifacts/%d", run.URL, a.ID)
}

// readPacked reads the benchmark in an archive.
func readPacked(packed *archive) (*bench.Benchmark, error) {
	files, err := checkZip(packed.file, packed.size, LimitsFor(maxPlanned))
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(files, func(f *zip.File) bool { return f.Name == baselineAsset })
	if at < 0 {
		return nil, fmt.Errorf("there is no %s in it", baselineAsset)
	}
	r, err := files[at].Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readBenchmark(r)
}

func readBenchmark(r io.Reader) (*bench.Benchmark, error) {
	b, err := bench.Read(io.LimitReader(r, maxArchive))
	if err != nil {
		return nil, err
	}
	return &b, nil
}

// file reads a benchmark that was committed. It was looked at when it was merged, so it may be of any commit.
func (s *search) file(ctx context.Context, base, path string) *bench.Stored {
	if s.query.ReadFile == nil && !s.canAsk() {
		return nil
	}
	what := fmt.Sprintf("%s of %s", path, short(base))
	data, address, err := s.readFile(ctx, base, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.looked = append(s.looked, what)
		return nil
	case err != nil:
		s.couldNot(what, err, "contents: read")
		return nil
	}
	s.looked = append(s.looked, what)
	b, err := readBenchmark(bytes.NewReader(data))
	if err != nil {
		s.reject(what, "content: "+err.Error())
		return nil
	}
	created := b.Metadata.Timestamp
	if why := s.refuseBenchmark(b, "", created); why != "" {
		s.reject(what, why)
		return nil
	}
	return &bench.Stored{Benchmark: b, Origin: bench.Origin{Source: "file", SHA: b.Metadata.Commit, URL: address, Created: created}}
}

// readFile reads a file of a commit and says where a person finds it.
func (s *search) readFile(ctx context.Context, rev, path string) (data []byte, address string, err error) {
	if s.query.ReadFile != nil {
		data, err = s.query.ReadFile(rev, path)
		return data, "", err
	}
	var steps []string
	for step := range strings.SplitSeq(path, "/") {
		steps = append(steps, url.PathEscape(step))
	}
	at := fmt.Sprintf("contents/%s?ref=%s", strings.Join(steps, "/"), url.QueryEscape(rev))
	var answer struct {
		Type     string `json:"type"`
		Encoding string `json:"encoding"` // base64, or none where the file is over 1 MB
		Content  []byte `json:"content"`
		URL      string `json:"html_url"`
	}
	if _, err := s.hub.get(ctx, at, &answer); err != nil {
		if statusOf(err) == http.StatusNotFound {
			err = fs.ErrNotExist
		}
		return nil, "", err
	}
	if answer.Type != "file" {
		return nil, "", fs.ErrNotExist
	}
	if answer.Encoding == "base64" {
		return answer.Content, answer.URL, nil
	}
	raw, err := s.hub.download(ctx, at, "application/vnd.github.raw+json")
	if err != nil {
		return nil, "", err
	}
	defer raw.remove()
	data, err = io.ReadAll(raw.content())
	return data, answer.URL, err
}

// release reads an asset of a release. What it measured must be the commit of the release's tag.
func (s *search) release(ctx context.Context, tag string) *bench.Stored {
	if !s.canAsk() {
		return nil
	}
	path, what := "releases/tags/"+url.PathEscape(tag), fmt.Sprintf("%s of release %q", baselineAsset, tag)
	if tag == "latest" {
		path, what = "releases/latest", baselineAsset+" of the latest release"
	}
	var release struct {
		Tag       string    `json:"tag_name"`
		URL       string    `json:"html_url"`
		Published time.Time `json:"published_at"`
		Assets    []asset   `json:"assets"`
	}
	if _, err := s.hub.get(ctx, path, &release); err != nil && statusOf(err) != http.StatusNotFound {
		s.couldNot(what, err, "contents: read")
		return nil
	}
	s.looked = append(s.looked, what) // that there is no release is a 404 too
	at := slices.IndexFunc(release.Assets, func(a asset) bool { return a.Name == baselineAsset })
	if at < 0 {
		return nil
	}
	line := s.firstParents(ctx, release.Tag)
	if len(line) == 0 {
		return nil
	}
	b := s.openAsset(ctx, release.Assets[at], what)
	if b == nil {
		return nil
	}
	created := older(&release.Published, b.Metadata.Timestamp)
	if why := s.refuseBenchmark(b, line[0], created); why != "" {
		s.reject(what, why)
		return nil
	}
	return &bench.Stored{Benchmark: b, Origin: bench.Origin{Source: "release", SHA: b.Metadata.Commit, URL: release.URL, Created: created}}
}

// An asset is a file of a release.
type asset struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Digest string `json:"digest"` // empty when GitHub does not tell
}

// openAsset downloads an asset and reads its benchmark, or tells why not and returns nil.
func (s *search) openAsset(ctx context.Context, a asset, what string) *bench.Benchmark {
	saved, err := s.hub.download(ctx, fmt.Sprintf("releases/assets/%d", a.ID), "application/octet-stream")
	if err != nil {
		s.couldNot(what, err, "contents: read")
		return nil
	}
	defer saved.remove()
	if err := saved.holdsDigest(a.Digest); err != nil {
		s.reject(what, "digest: "+err.Error())
		return nil
	}
	b, err := readBenchmark(saved.content())
	if err != nil {
		s.reject(what, "content: "+err.Error())
		return nil
	}
	return b
}
