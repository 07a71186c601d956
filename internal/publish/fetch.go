package publish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	perPage       = 100
	runPages      = 20 // a run may hold 500 artifacts a job
	downloadTries = 3  // of one file whose bytes were cut off
)

// An Artifact is an archive that a run of a workflow left on GitHub.
type Artifact struct {
	ID      int64     `json:"id"`
	Name    string    `json:"name"`
	Size    int64     `json:"size_in_bytes"`
	Digest  string    `json:"digest"` // sha256:<hex> of the archive; empty when GitHub does not tell
	Expired bool      `json:"expired"`
	Created time.Time `json:"created_at"`
	Run     struct {
		ID             int64  `json:"id"`
		Repository     int64  `json:"repository_id"`
		HeadRepository int64  `json:"head_repository_id"` // another one when the run was a fork's
		HeadBranch     string `json:"head_branch"`
		HeadSHA        string `json:"head_sha"`
	} `json:"workflow_run"`
}

// Artifacts lists what a run left, all pages.
func (h *Hub) Artifacts(ctx context.Context, run int64) ([]Artifact, error) {
	all, more, err := h.listArtifacts(ctx, fmt.Sprintf("actions/runs/%d/artifacts", run), nil, runPages)
	if err == nil && more {
		err = fmt.Errorf("artifacts of run %d: more than %d", run, len(all))
	}
	return all, err
}

// FetchArtifact downloads an artifact and unpacks it into the empty folder dir, as what strangers wrote. The bytes must be
// those that GitHub keeps the digest of.
func (h *Hub) FetchArtifact(ctx context.Context, a Artifact, dir string, l Limits) error {
	if a.Expired {
		return fmt.Errorf("artifact %d: GitHub has deleted it, its time was over", a.ID)
	}
	zip, err := h.downloadArtifact(ctx, a)
	if err != nil {
		return err
	}
	defer zip.remove()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := Unzip(zip.file, zip.size, root, l); err != nil {
		return fmt.Errorf("artifact %d: %w", a.ID, err)
	}
	return nil
}

// errDigest is bytes that are not those that GitHub announced.
var errDigest = errors.New("its bytes are not those of the digest that GitHub keeps")

func (h *Hub) downloadArtifact(ctx context.Context, a Artifact) (*archive, error) {
	if a.Size > maxArchive {
		return nil, fmt.Errorf("artifact %d: %d bytes, more than %d", a.ID, a.Size, maxArchive)
	}
	zip, err := h.download(ctx, fmt.Sprintf("actions/artifacts/%d/zip", a.ID), "")
	if err != nil {
		return nil, fmt.Errorf("artifact %d: %w", a.ID, err)
	}
	if err := zip.holdsDigest(a.Digest); err != nil {
		zip.remove()
		return nil, fmt.Errorf("artifact %d: %w", a.ID, err)
	}
	return zip, nil
}

// holdsDigest compares with a digest of GitHub, where there is one. One of a kind that we do not know is refused.
func (a *archive) holdsDigest(digest string) error {
	if digest != "" && !strings.EqualFold(digest, "sha256:"+a.sha256) {
		return errDigest
	}
	return nil
}

// listArtifacts reads up to so many pages, newest first. more tells that there are further ones.
func (h *Hub) listArtifacts(ctx context.Context, path string, query url.Values, pages int) (all []Artifact, more bool, err error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("per_page", fmt.Sprint(perPage))
	for page := 1; page <= pages; page++ {
		query.Set("page", fmt.Sprint(page))
		var answer struct {
			Artifacts []Artifact `json:"artifacts"`
		}
		if more, err = h.get(ctx, path+"?"+query.Encode(), &answer); err != nil {
			return nil, false, err
		}
		if all = append(all, answer.Artifacts...); !more {
			break
		}
	}
	return all, more, nil
}

// get reads one answer about the repository. more tells that the list goes on.
func (h *Hub) get(ctx context.Context, path string, answer any) (more bool, err error) {
	request, err := h.client.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/%s", h.owner, h.repo, path), nil)
	if err != nil {
		return false, err
	}
	response, err := h.client.Do(ctx, request, answer)
	if err != nil {
		return false, err
	}
	return response.NextPage != 0, nil
}

// download saves what lies at a path of the repository in a file of ours, at most maxArchive bytes. GitHub answers with the
// address of another host, where the client sends no token.
func (h *Hub) download(ctx context.Context, path, accept string) (*archive, error) {
	for try := 1; ; try++ {
		saved, err := h.downloadOnce(ctx, path, accept)
		var cut *lostError
		if err == nil || try == downloadTries || !errors.As(err, &cut) {
			return saved, err
		}
		if stop := sleep(ctx, firstBackoff<<(try-1)); stop != nil {
			return nil, fmt.Errorf("%w, then %w", err, stop)
		}
	}
}

func (h *Hub) downloadOnce(ctx context.Context, path, accept string) (*archive, error) {
	request, err := h.client.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/%s", h.owner, h.repo, path), nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	response, err := h.client.BareDo(ctx, request)
	if code := statusOf(err); code != 0 {
		return nil, &unsaid{fmt.Sprintf("GitHub answered %d %s", code, http.StatusText(code)), err}
	}
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer response.Body.Close()
	return save(request, response.Body)
}

// An unsaid error keeps what a program may ask of another one, but not its text, which may hold a signed address.
type unsaid struct {
	text string
	err  error
}

func (u *unsaid) Error() string { return u.text }
func (u *unsaid) Unwrap() error { return u.err }

// save writes a body to a file of ours. A body that ends too early is a *lostError.
func save(request *http.Request, body io.Reader) (*archive, error) {
	file, err := os.CreateTemp("", "assay-download-*")
	if err != nil {
		return nil, err
	}
	saved := &archive{file: file}
	hash := sha256.New()
	from := &remembering{from: io.LimitReader(body, maxArchive+1)}
	saved.size, err = io.Copy(io.MultiWriter(file, hash), from)
	switch {
	case from.err != nil:
		err = lost(request, from.err)
	case err == nil && saved.size > maxArchive:
		err = fmt.Errorf("more than %d bytes", maxArchive)
	}
	if err != nil {
		saved.remove()
		return nil, err
	}
	saved.sha256 = hex.EncodeToString(hash.Sum(nil))
	return saved, nil
}

// remembering keeps the error of reading apart from those of writing.
type remembering struct {
	from io.Reader
	err  error
}

func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
