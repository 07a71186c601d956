package publish

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	runUUID        = "ce7f54c7-61c7-4aae-887f-30da475f5f1a"
	jobUUID        = "ca395085-040a-526b-2ce8-bdc85f692774"
	storeSignature = "sig=Q6jmvZ2kDW0LvXq+pLPQ/0zLG5cZ7qn4XJwY+/s8bQU==" // padded as the store wrote it
)

// runtimeToken is a token with the scopes given; nobody but the service can tell that its signature is none.
func runtimeToken(scopes string) string {
	claims, _ := json.Marshal(map[string]string{"scp": scopes})
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
}

// A strictService is the artifact service and its blob store, with every rule kept that the real ones were seen to keep,
// and some more.
type strictService struct {
	t       *testing.T
	service *httptest.Server
	blobs   *httptest.Server
	token   string
	camel   bool   // write fields as signedUploadUrl
	signed  string // answered instead of the right address

	mu     sync.Mutex
	stored map[string]*storedArtifact
	masked []string
	slept  []time.Duration
	faults map[string][]uploadFault // by method of the service, or by comp of the store
	calls  []string
}

type uploadFault struct {
	status     int // 0: cut the connection
	retryAfter string
}

type storedArtifact struct {
	id        int
	expires   string
	blocks    map[string][]byte
	blob      []byte
	assembled bool
	finalized bool
}

func newStrictService(t *testing.T) *strictService {
	s := &strictService{
		t:      t,
		token:  runtimeToken("Actions.Example:1:2 Actions.Results:" + runUUID + ":" + jobUUID),
		stored: map[string]*storedArtifact{},
		faults: map[string][]uploadFault{},
	}
	s.service = httptest.NewServer(http.HandlerFunc(s.serve))
	s.blobs = httptest.NewServer(http.HandlerFunc(s.store))
	t.Cleanup(s.service.Close)
	t.Cleanup(s.blobs.Close)
	return s
}

func (s *strictService) uploader() Uploader {
	return Uploader{
		Token:      s.token,
		Results:    s.service.URL + "/some/path/",
		Server:     "https://github.com",
		Repository: "octo/demo",
		Run:        1234567,
		Attempt:    2,
		Client:     http.DefaultClient,
		Mask:       func(secret string) { s.masked = append(s.masked, secret) },
		Now:        func() time.Time { return time.Date(2026, 11, 21, 6, 31, 0, 0, time.UTC) },
		Sleep: func(ctx context.Context, d time.Duration) error {
			s.slept = append(s.slept, d)
			return ctx.Err()
		},
	}
}

// fails takes the next fault for a call.
func (s *strictService) fails(w http.ResponseWriter, call string) bool {
	s.calls = append(s.calls, call)
	if len(s.faults[call]) == 0 {
		return false
	}
	f := s.faults[call][0]
	s.faults[call] = s.faults[call][1:]
	if f.status == 0 {
		panic(http.ErrAbortHandler)
	}
	if f.retryAfter != "" {
		w.Header().Set("Retry-After", f.retryAfter)
	}
	http.Error(w, "no", f.status)
	return true
}

func (s *strictService) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	method, ok := strings.CutPrefix(r.URL.Path, "/twirp/github.actions.results.api.v1.ArtifactService/")
	if !ok || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("service: %s %s %s", r.Method, r.URL, r.Header.Get("Content-Type"))
	}
	if s.fails(w, method) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	var ask struct {
		Run     string  `json:"workflow_run_backend_id"`
		Job     string  `json:"workflow_job_run_backend_id"`
		Name    string  `json:"name"`
		Version int     `json:"version"`
		Expires string  `json:"expires_at"`
		Size    *string `json:"size"`
		Hash    string  `json:"hash"`
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&ask); err != nil {
		s.t.Errorf("%s: %v", method, err)
	}
	if ask.Run != runUUID || ask.Job != jobUUID {
		http.Error(w, `{"code":"permission_denied"}`, http.StatusForbidden)
		return
	}
	at := s.stored[ask.Name]
	switch method {
	case "CreateArtifact":
		if at != nil {
			http.Error(w, `{"code":"already_exists"}`, http.StatusConflict)
			return
		}
		if ask.Version != 4 || ask.Size != nil || ask.Hash != "" {
			s.t.Errorf("CreateArtifact: %+v", ask)
		}
		s.stored[ask.Name] = &storedArtifact{id: 77 + len(s.stored), expires: ask.Expires, blocks: map[string][]byte{}}
		field, signed := "signed_upload_url", s.blobs.URL+"/container/"+ask.Name+"?"+storeSignature+"&se=2026-11-21T07%3A31%3A00Z"
		if s.camel {
			field = "signedUploadUrl"
		}
		if s.signed != "" {
			signed = s.signed
		}
		json.NewEncoder(w).Encode(map[string]any{"ok": true, field: signed})
	case "FinalizeArtifact":
		sum := sha256.Sum256(at.blob)
		if !at.assembled || ask.Size == nil || *ask.Size != fmt.Sprint(len(at.blob)) || ask.Hash != "sha256:"+hex.EncodeToString(sum[:]) {
			s.t.Errorf("FinalizeArtifact: %+v of %d bytes with hash %x", ask, len(at.blob), sum)
		}
		at.finalized = true
		if s.camel {
			fmt.Fprintf(w, `{"ok":true,"artifactId":%d}`, at.id)
		} else {
			fmt.Fprintf(w, `{"ok":true,"artifact_id":"%d"}`, at.id)
		}
	default:
		s.t.Errorf("service: unknown method %s", method)
	}
}

func (s *strictService) store(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query := r.URL.Query()
	comp := query.Get("comp")
	if s.fails(w, comp) {
		return
	}
	if r.Header.Get("Authorization") != "" {
		s.t.Error("store: the job's token was sent to the blob store")
	}
	if !strings.HasPrefix(r.URL.RawQuery, storeSignature+"&se=2026-11-21T07%3A31%3A00Z&comp=") {
		http.Error(w, "signature did not match", http.StatusUnauthorized)
		return
	}
	at := s.stored[strings.TrimPrefix(r.URL.Path, "/container/")]
	body, err := io.ReadAll(r.Body)
	if r.Method != http.MethodPut || at == nil || err != nil || r.ContentLength != int64(len(body)) || len(body) == 0 {
		s.t.Errorf("store: %s %s with %d of %d bytes: %v", r.Method, r.URL.Path, len(body), r.ContentLength, err)
		return
	}
	switch comp {
	case "block":
		id := query.Get("blockid")
		if _, err := base64.StdEncoding.DecodeString(id); err != nil || len(body) > 8<<20 {
			s.t.Errorf("store: block %q of %d bytes: %v", id, len(body), err)
		}
		for other := range at.blocks {
			if len(other) != len(id) {
				s.t.Errorf("store: block ids %q and %q differ in length", other, id)
			}
		}
		at.blocks[id] = body
	case "blocklist":
		var list struct {
			Latest []string
		}
		if err := xml.Unmarshal(body, &list); err != nil || r.Header.Get("X-Ms-Blob-Content-Type") != "application/zip" {
			s.t.Errorf("store: block list %s: %v", body, err)
		}
		at.blob = nil
		for _, id := range list.Latest {
			if at.blocks[id] == nil {
				s.t.Errorf("store: block %q is in the list and was never sent", id)
			}
			at.blob = append(at.blob, at.blocks[id]...)
		}
		at.assembled = true
	default:
		s.t.Errorf("store: a PUT with comp %q; one without blocks keeps nothing on some servers", comp)
	}
	w.WriteHeader(http.StatusCreated)
}

// resultsFolder makes a folder with all that a results folder may hold, and size bytes that cannot be packed.
func resultsFolder(t *testing.T, size int) (dir string, want map[string]string) {
	t.Helper()
	dir = t.TempDir()
	random := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(random)
	want = map[string]string{
		"manifest.json":                 "{}",
		"benchmark.json":                "{\"schema_version\":1}",
		"cells/tz/a/t1-1/trace.jsonl":   string(random),
		"cells/tz/qwen3%3A8b/agent.log": "colon",
		"cells/tz/a%25b/agent.log":      "percent",
		"empty.txt":                     "",
	}
	for name, data := range want {
		name = strings.NewReplacer("%3A", ":", "%25", "%").Replace(name)
		putFile(t, filepath.Join(dir, name), data)
	}
	putFile(t, filepath.Join(dir, ".lock"), "process 1")
	putFile(t, filepath.Join(dir, ".pending", "x"), "half")
	putFile(t, filepath.Join(dir, "cells", ".hidden", "x"), "half")
	putFile(t, filepath.Join(dir, "shards", "0", "manifest.json"), "{}")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir, want
}

func putFile(t *testing.T, name, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readZip(t *testing.T, data []byte) map[string]string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name] = string(content)
	}
	return got
}

func TestUpload(t *testing.T) {
	t.Parallel()
	for _, camel := range []bool{false, true} {
		s := newStrictService(t)
		s.camel = camel
		size, blocks := 1000, []string{"block"}
		if camel {
			size, blocks = 9<<20, []string{"block", "block"}
		}
		dir, want := resultsFolder(t, size)
		address, err := s.uploader().Upload(t.Context(), "assay", dir, []string{"shards"}, 90)
		if err != nil {
			t.Fatal(err)
		}
		if address != "https://github.com/octo/demo/actions/runs/1234567/artifacts/77" {
			t.Errorf("address %s", address)
		}
		at := s.stored["assay"]
		if !at.finalized || at.expires != "2027-02-19T06:31:00Z" {
			t.Errorf("finalized %v, expires %q", at.finalized, at.expires)
		}
		if diff := cmp.Diff(want, readZip(t, at.blob)); diff != "" {
			t.Error(diff)
		}
		wantCalls := slices.Concat([]string{"CreateArtifact"}, blocks, []string{"blocklist", "FinalizeArtifact"})
		if diff := cmp.Diff(wantCalls, s.calls); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"Q6jmvZ2kDW0LvXq+pLPQ/0zLG5cZ7qn4XJwY+/s8bQU==", "Q6jmvZ2kDW0LvXq pLPQ/0zLG5cZ7qn4XJwY /s8bQU=="}, s.masked); diff != "" {
			t.Error(diff)
		}
	}
}

// TestArchive unpacks what Upload packs by our own strict reader, and packs the same files to the same bytes.
func TestArchive(t *testing.T) {
	t.Parallel()
	dir, want := resultsFolder(t, 1000)
	var sums []string
	for range 2 {
		packed, err := packResults(dir, []string{"shards"})
		if err != nil {
			t.Fatal(err)
		}
		defer packed.remove()
		sums = append(sums, packed.sha256)
		to := t.TempDir()
		root, err := os.OpenRoot(to)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		if err := Unzip(packed.file, packed.size, root, LimitsFor(0)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, readFolder(t, to)); diff != "" {
			t.Error(diff)
		}
		// Times of files are no part of the archive.
		if err := os.Chtimes(filepath.Join(dir, "manifest.json"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if sums[0] != sums[1] {
		t.Error("the same files were packed to different bytes")
	}
}

func TestUploadNameTaken(t *testing.T) {
	t.Parallel()
	s := newStrictService(t)
	dir, _ := resultsFolder(t, 1000)
	for i, want := range []string{"77", "78"} {
		address, err := s.uploader().Upload(t.Context(), "assay", dir, nil, 0)
		if err != nil || !strings.HasSuffix(address, "/"+want) {
			t.Errorf("upload %d: %s, %v", i, address, err)
		}
	}
	if at := s.stored["assay-2"]; at == nil || !at.finalized || at.expires != "" {
		t.Errorf("the second artifact is not assay-2 of attempt 2: %+v", at)
	}
	_, err := s.uploader().Upload(t.Context(), "assay", dir, nil, 0)
	if diff := cmp.Diff(Loss{Place: "artifact", Why: "409"}, UploadLoss(err)); diff != "" {
		t.Error(diff)
	}
}

func TestUploadTriesAgain(t *testing.T) {
	t.Parallel()
	const s3 = 3 * time.Second
	down := slices.Repeat([]uploadFault{{status: 503}}, 9)
	tests := map[string]struct {
		faults map[string][]uploadFault
		slept  []time.Duration
		why    string // empty: it succeeds
	}{
		"429 with Retry-After": {map[string][]uploadFault{"CreateArtifact": {{429, "7"}}}, []time.Duration{7 * time.Second}, ""},
		"Retry-After of a day": {map[string][]uploadFault{"CreateArtifact": {{429, "86400"}}}, []time.Duration{time.Minute}, ""},
		"a 500 at each step": {map[string][]uploadFault{
			"CreateArtifact": {{status: 500}}, "block": {{status: 503}}, "blocklist": {{status: 502}}, "FinalizeArtifact": {{status: 500}},
		}, []time.Duration{s3, s3, s3, s3}, ""},
		"cut connections": {map[string][]uploadFault{"block": {{}, {}}, "FinalizeArtifact": {{}}}, []time.Duration{s3, s3 * 3 / 2, s3}, ""},
		"down":            {map[string][]uploadFault{"block": down}, []time.Duration{s3, s3 * 3 / 2, s3 * 9 / 4, s3 * 27 / 8}, "503"},
		"200 for a block": {map[string][]uploadFault{"block": {{status: 200}}}, nil, "200"},
		"redirected":      {map[string][]uploadFault{"CreateArtifact": {{status: 307}}}, nil, "307"},
		"forbidden":       {map[string][]uploadFault{"CreateArtifact": {{status: 403}}}, nil, "403"},
		"list refused":    {map[string][]uploadFault{"blocklist": {{status: 400}}}, nil, "400"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStrictService(t)
			s.faults = test.faults
			dir := t.TempDir()
			putFile(t, filepath.Join(dir, "benchmark.json"), "{}")
			_, err := s.uploader().Upload(t.Context(), "assay", dir, nil, 0)
			if diff := cmp.Diff(test.slept, s.slept); diff != "" {
				t.Error(diff)
			}
			if test.why == "" {
				if err != nil || !s.stored["assay"].finalized {
					t.Error(err)
				}
			} else if got := UploadLoss(err); got.Why != test.why {
				t.Errorf("loss %q, want %q: %v", got.Why, test.why, err)
			}
		})
	}
}

func TestUploadRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*strictService, *Uploader)
		name   string
		why    string // of the loss
		says   string
	}{
		"enterprise server":   {func(_ *strictService, u *Uploader) { u.Server = "https://git.example.com" }, "assay", "ghes", "Enterprise Server"},
		"like github.com":     {func(_ *strictService, u *Uploader) { u.Server = "https://github.com.example.com" }, "assay", "ghes", ""},
		"no token":            {func(_ *strictService, u *Uploader) { u.Token = "" }, "assay", "no runtime token", "ACTIONS_RUNTIME_TOKEN"},
		"no results address":  {func(_ *strictService, u *Uploader) { u.Results = "" }, "assay", "no runtime token", ""},
		"odd results address": {func(_ *strictService, u *Uploader) { u.Results = "ftp://x" }, "assay", "failed", "no http address"},
		"token of one part":   {func(_ *strictService, u *Uploader) { u.Token = "x" }, "assay", "failed", "no JSON web token"},
		"token without scope": {func(_ *strictService, u *Uploader) { u.Token = runtimeToken("Actions.Results:1") }, "assay", "failed", "holds no scope"},
		"scope of another job": {func(s *strictService, u *Uploader) {
			s.token = runtimeToken("Actions.Results:x:y")
			u.Token = s.token
		}, "assay", "403", ""},
		"wrong token":       {func(_ *strictService, u *Uploader) { u.Token += "x" }, "assay", "401", ""},
		"no name":           {func(*strictService, *Uploader) {}, "", "failed", "artifact name"},
		"name with a slash": {func(*strictService, *Uploader) {}, "a/b", "failed", "artifact name"},
		"name with a break": {func(*strictService, *Uploader) {}, "a\nb", "failed", "artifact name"},
		"unsigned address": {func(s *strictService, _ *Uploader) {
			s.signed = s.blobs.URL + "/x"
		}, "assay", "failed", "not a signed https address"},
		"plain http where the service has https": {func(s *strictService, u *Uploader) {
			*s = *newSecureService(s)
			u.Results, u.Client = s.service.URL, s.service.Client()
		}, "assay", "failed", "not a signed https address"},
		"unpadded signature": {func(s *strictService, _ *Uploader) {
			s.signed = s.blobs.URL + "/container/assay?" + strings.TrimRight(storeSignature, "=") + "&se=x"
		}, "assay", "401", ""},
		"store out of reach": {func(s *strictService, _ *Uploader) {
			s.signed = "http://127.0.0.1:1/x?sig=verysecret"
		}, "assay", "no answer", "upload of block 1"},
		"out of time in the wait after a 500": {func(s *strictService, u *Uploader) {
			s.faults["block"] = []uploadFault{{status: 500}}
			u.Sleep = func(context.Context, time.Duration) error { return context.DeadlineExceeded }
		}, "assay", "500", "upload of block 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStrictService(t)
			u := s.uploader()
			test.change(s, &u)
			dir := t.TempDir()
			putFile(t, filepath.Join(dir, "benchmark.json"), "{}")
			address, err := u.Upload(t.Context(), test.name, dir, nil, 0)
			if err == nil {
				t.Fatalf("uploaded to %s", address)
			}
			if got := UploadLoss(err); got.Why != test.why || got.Place != "artifact" {
				t.Errorf("loss %+v, want %s", got, test.why)
			}
			if !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "verysecret") || strings.Contains(err.Error(), "sig=") {
				t.Errorf("error %q", err)
			}
			for _, a := range s.stored {
				if a.finalized {
					t.Error("an artifact was made all the same")
				}
			}
		})
	}
}

// newSecureService is the service by https, which still answers an address of the store by http.
func newSecureService(s *strictService) *strictService {
	secure := &strictService{t: s.t, token: s.token, stored: s.stored, faults: s.faults, blobs: s.blobs}
	secure.service = httptest.NewTLSServer(http.HandlerFunc(secure.serve))
	s.t.Cleanup(secure.service.Close)
	return secure
}

func TestUploadOfNothing(t *testing.T) {
	t.Parallel()
	s := newStrictService(t)
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, ".lock"), "x")
	for _, dir := range []string{dir, filepath.Join(dir, "absent")} {
		if _, err := s.uploader().Upload(t.Context(), "assay", dir, nil, 0); err == nil {
			t.Errorf("%s: nothing was uploaded, without an error", dir)
		}
	}
	if len(s.calls) > 0 {
		t.Errorf("the service was bothered: %v", s.calls)
	}
}

func TestUploadStopsWhenCancelled(t *testing.T) {
	t.Parallel()
	s := newStrictService(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "benchmark.json"), "{}")
	if _, err := s.uploader().Upload(ctx, "assay", dir, nil, 0); !errors.Is(err, context.Canceled) || len(s.slept) > 0 {
		t.Errorf("%v after sleeping %v", err, s.slept)
	}
}

func TestHasArtifactService(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]bool{
		"https://github.com": true, "https://GitHub.com/": true, "https://acme.ghe.com": true, "http://localhost:3000": true,
		"https://github.localhost": true, "https://ghe.com": false, "https://git.acme.org": false, "": false, "://": false,
		"https://evilghe.com": false,
	} {
		if got := hasArtifactService(server); got != want {
			t.Errorf("%s: %v", server, got)
		}
	}
}

func TestLegalNameIsLegalAndOneToOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.StringOf(rapid.RuneFrom([]rune("ab%3A:\"<>|*?\\\n\r\x00/é. ")))
		a, b := raw.Draw(t, "a"), raw.Draw(t, "b")
		if (legalName(a) == legalName(b)) != (a == b) {
			t.Fatalf("%q and %q", a, b)
		}
		if strings.ContainsAny(legalName(a), namePunct) || strings.ContainsFunc(legalName(a), isControl) {
			t.Fatalf("%q", legalName(a))
		}
	})
	if got := legalName("a\xff:b"); got != "a%FF%3Ab" {
		t.Errorf("%q", got)
	}
}

func FuzzBackendIDs(f *testing.F) {
	f.Add(runtimeToken("Actions.Results:1:2"))
	f.Add(runtimeToken("a Actions.Results:" + runUUID + ":" + jobUUID + " b"))
	f.Add(runtimeToken("Actions.Results::"))
	f.Add("a.b.c")
	f.Add("e30.bnVsbA==.x")
	f.Fuzz(func(t *testing.T, token string) {
		run, job, err := backendIDs(token)
		if (err == nil) != (run != "" && job != "") || strings.ContainsAny(run+job, ": ") {
			t.Errorf("%q, %q, %v", run, job, err)
		}
		if err != nil && len(token) > 20 && strings.Contains(err.Error(), token) {
			t.Error("the error holds the token")
		}
	})
}
