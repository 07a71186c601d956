package publish

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	artifactService = "/twirp/github.actions.results.api.v1.ArtifactService/"
	artifactVersion = 4 // act and older servers refuse fields of later versions

	blockSize   = 8 << 20
	maxReply    = 1 << 20         // bytes of an answer that are read
	uploadTime  = 5 * time.Minute // of one artifact
	uploadTries = 5               // of one request
	firstWait   = 3 * time.Second // grows by half each time
	longestWait = time.Minute     // that a server may ask for
	tryTimeout  = 2 * time.Minute // of one request
)

// An Uploader makes artifacts of the job that it runs in, from inside the job's container, by the service that the
// runner's own steps use. GitHub does not document that service, so nothing may depend on an upload: the files in the
// results folder stay the truth, and a failed upload is a [Loss].
type Uploader struct {
	Token      string       // ACTIONS_RUNTIME_TOKEN
	Results    string       // ACTIONS_RESULTS_URL
	Server     string       // GITHUB_SERVER_URL
	Repository string       // owner/name
	Run        int64        // id of the workflow run
	Attempt    int          // of the run, from 1
	Client     *http.Client // its redirect policy is not used: no redirect is followed

	Mask  func(secret string) // hides a secret in the step's log; called before the secret is used
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error // waits, or returns the context's error
}

var (
	errNoRuntime = errors.New("artifact service: this step has no ACTIONS_RUNTIME_TOKEN or no ACTIONS_RESULTS_URL; only container and node actions get them")
	errNoService = errors.New("artifact service: GitHub Enterprise Server has none that this upload could use")
)

// A refusal is an answer of the artifact service or its blob store that is not the one that was asked for.
type refusal struct {
	what  string
	code  int
	text  string        // start of the answer; foreign
	after time.Duration // that the server asks to wait; 0 when it does not say
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s: answered %d %s: %q", r.what, r.code, http.StatusText(r.code), r.text)
}

func (r *refusal) passing() bool { return r.code == http.StatusTooManyRequests || r.code >= 500 }

// UploadLoss says an error of [Uploader.Upload] in the words of the degraded output.
func UploadLoss(err error) Loss {
	loss := lossOf(Place{Name: "artifact"}, err)
	var refused *refusal
	switch {
	case errors.Is(err, errNoService):
		loss.Why = "ghes"
	case errors.Is(err, errNoRuntime):
		loss.Why = "no runtime token"
	case errors.As(err, &refused):
		loss.Why = strconv.Itoa(refused.code)
	}
	return loss
}

// Upload makes an artifact of the regular files under dir and returns its address for a person. It leaves out every file
// and folder whose name starts with a dot, and those named in skip, slash paths from dir. The bytes of the archive depend
// on the files alone. days is how long GitHub keeps it, 0 for what the repository's settings say. When the run has an
// artifact of that name already, the attempt's number is put behind the name. It takes five minutes at most.
func (u Uploader) Upload(ctx context.Context, name, dir string, skip []string, days int) (string, error) {
	if name == "" || strings.ContainsAny(name, namePunct+"/") || strings.ContainsFunc(name, isControl) {
		return "", fmt.Errorf("artifact name %q: it must not be empty, nor hold control characters or any of %s", name, namePunct+"/")
	}
	job, err := u.job()
	if err != nil {
		return "", err
	}
	archive, err := packResults(dir, skip)
	if err != nil {
		return "", fmt.Errorf("pack %s: %w", dir, err)
	}
	defer archive.remove()

	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	signed, err := u.create(ctx, job, name, days)
	var refused *refusal
	if errors.As(err, &refused) && refused.code == http.StatusConflict {
		name = fmt.Sprintf("%s-%d", name, u.Attempt)
		signed, err = u.create(ctx, job, name, days)
	}
	if err != nil {
		return "", err
	}
	if err := u.send(ctx, signed, archive); err != nil {
		return "", err
	}
	id, err := u.finalize(ctx, job, name, archive)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%s/actions/runs/%d/artifacts/%s", strings.TrimRight(u.Server, "/"), u.Repository, u.Run, id), nil
}

// A runtimeJob is how the artifact service knows this job. The ids are opaque.
type runtimeJob struct {
	origin   string
	run, job string
}

// job finds the service and reads the job's ids in the token, which the service itself will verify.
func (u Uploader) job() (runtimeJob, error) {
	if u.Token == "" || u.Results == "" {
		return runtimeJob{}, errNoRuntime
	}
	if !hasArtifactService(u.Server) {
		return runtimeJob{}, errNoService
	}
	results, err := url.Parse(u.Results)
	if err != nil || results.Host == "" || results.Scheme != "https" && results.Scheme != "http" {
		return runtimeJob{}, errors.New("artifact service: ACTIONS_RESULTS_URL is no http address")
	}
	run, job, err := backendIDs(u.Token)
	if err != nil {
		return runtimeJob{}, fmt.Errorf("artifact service: ACTIONS_RUNTIME_TOKEN: %w", err)
	}
	return runtimeJob{origin: results.Scheme + "://" + results.Host, run: run, job: job}, nil
}

// hasArtifactService tells github.com and GitHub Enterprise Cloud from GitHub Enterprise Server.
func hasArtifactService(server string) bool {
	u, err := url.Parse(server)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	return host == "github.com" || host == "localhost" || strings.HasSuffix(host, ".ghe.com") || strings.HasSuffix(host, ".localhost")
}

// backendIDs reads the scope Actions.Results:<run>:<job> in a token.
func backendIDs(token string) (run, job string, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", "", errors.New("it is no JSON web token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return "", "", errors.New("its payload is not base64")
	}
	var claims struct {
		Scopes string `json:"scp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return "", "", errors.New("its payload is no JSON object with a text scp")
	}
	for scope := range strings.FieldsSeq(claims.Scopes) {
		ids := strings.Split(scope, ":")
		if len(ids) == 3 && ids[0] == "Actions.Results" && ids[1] != "" && ids[2] != "" {
			return ids[1], ids[2], nil
		}
	}
	return "", "", errors.New("its scp holds no scope Actions.Results:<run>:<job>")
}

// create announces an artifact and returns the signed address that takes its bytes.
func (u Uploader) create(ctx context.Context, job runtimeJob, name string, days int) (string, error) {
	ask := map[string]any{
		"workflow_run_backend_id":     job.run,
		"workflow_job_run_backend_id": job.job,
		"name":                        name,
		"version":                     artifactVersion,
	}
	if days > 0 {
		ask["expires_at"] = u.Now().UTC().AddDate(0, 0, days).Format(time.RFC3339)
	}
	var answer struct {
		OK    bool   `json:"ok"`
		Snake string `json:"signed_upload_url"` // servers differ in how they write the field
		Camel string `json:"signedUploadUrl"`
	}
	if err := u.ask(ctx, job, "CreateArtifact", ask, &answer); err != nil {
		return "", err
	}
	signed := answer.Snake
	if signed == "" {
		signed = answer.Camel
	}
	if !answer.OK || signed == "" {
		return "", errors.New("CreateArtifact: the answer has no address to upload to")
	}
	u.maskSignature(signed)
	to, err := url.Parse(signed)
	if err != nil || to.RawQuery == "" || to.Scheme != "https" && !strings.HasPrefix(job.origin, to.Scheme+"://") {
		return "", errors.New("CreateArtifact: the address to upload to is not a signed https address")
	}
	return signed, nil
}

// maskSignature hides the signature of an address, which is as good as a password.
func (u Uploader) maskSignature(signed string) {
	_, query, _ := strings.Cut(signed, "?")
	for pair := range strings.SplitSeq(query, "&") {
		if sig, ok := strings.CutPrefix(pair, "sig="); ok {
			u.Mask(sig)
			if plain, err := url.QueryUnescape(sig); err == nil && plain != sig {
				u.Mask(plain)
			}
		}
	}
}

// send puts the archive in blocks, one after the other, and then the list that makes them one. A single PUT would be
// shorter, but some servers answer it well and keep nothing.
//
// The address is used as it came, with more behind it: to take it apart and write it anew changes its signature.
func (u Uploader) send(ctx context.Context, signed string, archive *archive) error {
	var list struct {
		XMLName xml.Name `xml:"BlockList"`
		Latest  []string
	}
	for at := int64(0); at < archive.size; at += blockSize {
		id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "block-%08d", len(list.Latest))) // all of one length
		size := min(blockSize, archive.size-at)
		_, err := u.call(ctx, exchange{
			what:   fmt.Sprintf("upload of block %d", len(list.Latest)+1),
			method: http.MethodPut,
			url:    signed + "&comp=block&blockid=" + url.QueryEscape(id),
			want:   http.StatusCreated,
			size:   size,
			body:   func() io.Reader { return io.NewSectionReader(archive.file, at, size) },
		})
		if err != nil {
			return err
		}
		list.Latest = append(list.Latest, id)
	}
	body, err := xml.Marshal(list)
	if err != nil {
		return err
	}
	body = append([]byte(xml.Header), body...)
	_, err = u.call(ctx, exchange{
		what:   "upload of the block list",
		method: http.MethodPut,
		url:    signed + "&comp=blocklist",
		header: map[string]string{"Content-Type": "text/plain; charset=utf-8", "X-Ms-Blob-Content-Type": "application/zip"},
		want:   http.StatusCreated,
		size:   int64(len(body)),
		body:   func() io.Reader { return bytes.NewReader(body) },
	})
	return err
}

// finalize closes the artifact and returns its id.
func (u Uploader) finalize(ctx context.Context, job runtimeJob, name string, archive *archive) (string, error) {
	var answer struct {
		OK    bool        `json:"ok"`
		Snake json.Number `json:"artifact_id"` // takes a number and a text of digits
		Camel json.Number `json:"artifactId"`
	}
	err := u.ask(ctx, job, "FinalizeArtifact", map[string]any{
		"workflow_run_backend_id":     job.run,
		"workflow_job_run_backend_id": job.job,
		"name":                        name,
		"size":                        strconv.FormatInt(archive.size, 10), // a 64-bit number is text in this JSON
		"hash":                        "sha256:" + archive.sha256,
	}, &answer)
	if err != nil {
		return "", err
	}
	id := answer.Snake
	if id == "" {
		id = answer.Camel
	}
	if n, err := id.Int64(); !answer.OK || err != nil || n <= 0 {
		return "", errors.New("FinalizeArtifact: the answer has no id of the artifact")
	}
	return id.String(), nil
}

// ask calls a method of the artifact service.
func (u Uploader) ask(ctx context.Context, job runtimeJob, method string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	data, err := u.call(ctx, exchange{
		what:   method,
		method: http.MethodPost,
		url:    job.origin + artifactService + method,
		header: map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + u.Token},
		want:   http.StatusOK,
		size:   int64(len(body)),
		body:   func() io.Reader { return bytes.NewReader(body) },
	})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s: the answer is not the JSON that was expected", method)
	}
	return nil
}

// An exchange is one request and the status that it wants.
type exchange struct {
	what, method, url string
	header            map[string]string
	size              int64
	body              func() io.Reader
	want              int
}

// call makes an exchange, again after 429, 5xx and broken connections.
func (u Uploader) call(ctx context.Context, x exchange) ([]byte, error) {
	for try, wait := 1, firstWait; ; try, wait = try+1, wait*3/2 {
		data, err := u.once(ctx, x)
		if err == nil || try == uploadTries || ctx.Err() != nil {
			return data, err
		}
		pause := wait
		var refused *refusal
		if errors.As(err, &refused) {
			if !refused.passing() {
				return nil, err
			}
			pause = max(wait, min(refused.after, longestWait))
		}
		if stop := u.Sleep(ctx, pause); stop != nil {
			return nil, fmt.Errorf("%w, then %w", err, stop)
		}
	}
}

func (u Uploader) once(ctx context.Context, x exchange) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, x.method, x.url, x.body())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.what, withoutAddress(err))
	}
	request.ContentLength = x.size
	for key, value := range x.header {
		request.Header.Set(key, value)
	}
	client := *u.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", x.what, withoutAddress(err))
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxReply))
	if response.StatusCode != x.want {
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		text := string(data[:min(len(data), 200)])
		return nil, &refusal{what: x.what, code: response.StatusCode, text: text, after: time.Duration(seconds) * time.Second}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: answer cut off: %w", x.what, err)
	}
	return data, nil
}

// withoutAddress takes the address out of an error of net/http, since it may hold a signature.
func withoutAddress(err error) error {
	var bare *url.Error
	if errors.As(err, &bare) {
		return bare.Err
	}
	return err
}
