package githubtest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// signature is what makes an address of the blob store good, in place of Azure's.
const signature = "c2lnbmF0dXJl"

// blob is the content of an artifact or of an asset.
func (st *state) blob(id int64) ([]byte, bool) {
	if a := find(st.artifacts, func(a *Artifact) bool { return a.ID == id }); a != nil {
		return a.Zip, !a.Expired
	}
	if a, _ := st.asset(id); a != nil {
		return a.Data, true
	}
	return nil, false
}

// toBlob sends the client on to the blob store.
func (c *call) toBlob(id int64) answer {
	at := fmt.Sprintf("%s%s%d?sig=%s", c.blobs, blobPath, id, signature)
	return answer{status: http.StatusFound, header: http.Header{"Location": {at}}}
}

func getRun(c *call) answer {
	r := c.state.run(c.id("run_id"))
	if r == nil {
		return notFound()
	}
	shown := object{
		"id":                 r.ID,
		"name":               "assay",
		"display_title":      "assay",
		"run_number":         1,
		"run_attempt":        r.Attempt,
		"event":              r.Event,
		"path":               r.Path,
		"workflow_id":        number(r.Path),
		"status":             r.Status,
		"conclusion":         r.Conclusion,
		"head_branch":        r.HeadBranch,
		"head_sha":           r.HeadSHA,
		"created_at":         r.Created,
		"updated_at":         r.Created,
		"run_started_at":     r.Created,
		"repository":         showRepository(repository),
		"head_repository":    showRepository(r.HeadRepo),
		"head_repository_id": repoID(r.HeadRepo),
		"url":                api("/actions/runs/%d", r.ID),
		"html_url":           web("/actions/runs/%d", r.ID),
		"artifacts_url":      api("/actions/runs/%d/artifacts", r.ID),
	}
	if r.Conclusion == "-" {
		shown["conclusion"] = nil
	}
	return ok(shown)
}

func (c *call) showArtifact(a Artifact) object {
	shown := object{
		"id":                   a.ID,
		"name":                 a.Name,
		"size_in_bytes":        len(a.Zip),
		"expired":              a.Expired,
		"digest":               a.Digest,
		"created_at":           a.Created,
		"updated_at":           a.Created,
		"expires_at":           a.Expires,
		"url":                  api("/actions/artifacts/%d", a.ID),
		"archive_download_url": api("/actions/artifacts/%d/zip", a.ID),
	}
	if a.Digest == "-" {
		shown["digest"] = nil
	}
	if r := c.state.run(a.Run); r != nil {
		shown["workflow_run"] = object{
			"id":                 r.ID,
			"repository_id":      repoID(repository),
			"head_repository_id": repoID(r.HeadRepo),
			"head_branch":        r.HeadBranch,
			"head_sha":           r.HeadSHA,
		}
	}
	return shown
}

// listArtifacts answers those of a run or of the repository, newest first.
func listArtifacts(c *call) answer {
	_, ofRun := c.params["run_id"]
	run, name := c.id("run_id"), c.query.Get("name")
	if ofRun && c.state.run(run) == nil {
		return notFound()
	}
	all := filter(c.state.artifacts, func(a Artifact) bool {
		return (!ofRun || a.Run == run) && (name == "" || a.Name == name)
	})
	slices.SortStableFunc(all, func(a, b Artifact) int { return b.Created.Compare(a.Created) })
	return counted(c, "artifacts", all, c.showArtifact)
}

func (c *call) artifact() *Artifact {
	id := c.id("artifact_id")
	return find(c.state.artifacts, func(a *Artifact) bool { return a.ID == id })
}

func getArtifact(c *call) answer {
	a := c.artifact()
	if a == nil {
		return notFound()
	}
	return ok(c.showArtifact(*a))
}

func downloadArtifact(c *call) answer {
	a := c.artifact()
	switch {
	case a == nil || c.params["archive_format"] != "zip":
		return notFound()
	case a.Expired:
		return refuse(http.StatusGone, "Artifact has expired")
	}
	return c.toBlob(a.ID)
}

func showRelease(r Release) object {
	return object{
		"id":               r.ID,
		"tag_name":         r.Tag,
		"name":             r.Name,
		"draft":            r.Draft,
		"prerelease":       r.Prerelease,
		"target_commitish": defaultBranch,
		"created_at":       r.Created,
		"published_at":     r.Created,
		"url":              api("/releases/%d", r.ID),
		"html_url":         web("/releases/tag/%s", r.Tag),
		"assets":           each(r.Assets, func(a Asset) object { return showAsset(r, a) }),
	}
}

func showAsset(r Release, a Asset) object {
	return object{
		"id":                   a.ID,
		"name":                 a.Name,
		"size":                 len(a.Data),
		"state":                "uploaded",
		"content_type":         "application/octet-stream",
		"created_at":           r.Created,
		"updated_at":           r.Created,
		"url":                  api("/releases/assets/%d", a.ID),
		"browser_download_url": web("/releases/download/%s/%s", r.Tag, a.Name),
	}
}

// getLatestRelease is the newest one that is neither a draft nor a prerelease.
func getLatestRelease(c *call) answer {
	full := filter(c.state.releases, func(r Release) bool { return !r.Draft && !r.Prerelease })
	if len(full) == 0 {
		return notFound()
	}
	return ok(showRelease(slices.MaxFunc(full, func(a, b Release) int { return a.Created.Compare(b.Created) })))
}

// getReleaseByTag knows no drafts.
func getReleaseByTag(c *call) answer {
	r := find(c.state.releases, func(r *Release) bool { return r.Tag == c.params["tag"] && !r.Draft })
	if r == nil {
		return notFound()
	}
	return ok(showRelease(*r))
}

func (st *state) asset(id int64) (*Asset, *Release) {
	for i := range st.releases {
		if a := find(st.releases[i].Assets, func(a *Asset) bool { return a.ID == id }); a != nil {
			return a, &st.releases[i]
		}
	}
	return nil, nil
}

// getAsset tells of an asset or, when bytes are asked for, sends the client to them.
func getAsset(c *call) answer {
	a, r := c.state.asset(c.id("asset_id"))
	switch {
	case a == nil:
		return notFound()
	case strings.Contains(c.r.Header.Get("Accept"), "application/octet-stream"):
		return c.toBlob(a.ID)
	}
	return ok(showAsset(*r, *a))
}
