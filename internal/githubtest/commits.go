package githubtest

import (
	"cmp"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"path"
	"slices"
	"strings"
)

// resolve finds a commit by its full SHA, by a branch or tag, or by the branch of a fork, as OWNER:BRANCH.
func (st *state) resolve(ref string) (Commit, bool) {
	if ref == "" {
		ref = defaultBranch
	}
	if c, found := st.commits[ref]; found {
		return c, true
	}
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "refs/"), "heads/")
	if sha, found := st.branches[strings.TrimPrefix(ref, "tags/")]; found {
		c, there := st.commits[sha]
		return c, there
	}
	if owner, branch, found := strings.Cut(ref, ":"); found {
		if p := find(st.pulls, func(p *Pull) bool {
			return strings.HasPrefix(p.Head.Repo, owner+"/") && p.Head.Ref == branch
		}); p != nil {
			c, there := st.commits[p.Head.SHA]
			return c, there
		}
	}
	return Commit{}, false
}

// history is a commit and all before it, newest first; a commit stands before its parents.
func (st *state) history(sha string) []Commit {
	if _, there := st.commits[sha]; !there {
		return nil
	}
	children := map[string]int{} // how many stand before a commit and are not listed yet
	seen := map[string]bool{sha: true}
	for reach := []string{sha}; len(reach) > 0; reach = reach[1:] {
		for _, parent := range st.parents(reach[0]) {
			children[parent]++
			if !seen[parent] {
				seen[parent] = true
				reach = append(reach, parent)
			}
		}
	}
	var all []Commit
	for ready := []Commit{st.commits[sha]}; len(ready) > 0; {
		newest := 0
		for i, c := range ready {
			if c.Date.After(ready[newest].Date) {
				newest = i
			}
		}
		c := ready[newest]
		ready = slices.Delete(ready, newest, newest+1)
		all = append(all, c)
		for _, parent := range st.parents(c.SHA) {
			if children[parent]--; children[parent] == 0 {
				ready = append(ready, st.commits[parent])
			}
		}
	}
	return all
}

// parents are those of a commit that the graph holds. The graph of a test may end anywhere.
func (st *state) parents(sha string) []string {
	return filter(st.commits[sha].Parents, func(parent string) bool {
		_, there := st.commits[parent]
		return there
	})
}

// between are the commits that head has and base has not, oldest first.
func (st *state) between(base, head string) []Commit {
	of := shas(st.history(base))
	commits := filter(st.history(head), func(c Commit) bool { return !of[c.SHA] })
	slices.Reverse(commits)
	return commits
}

// mergeBase is the newest commit that both have.
func (st *state) mergeBase(a, b string) (Commit, bool) {
	of := shas(st.history(a))
	common := filter(st.history(b), func(c Commit) bool { return of[c.SHA] })
	if len(common) == 0 {
		return Commit{}, false
	}
	return common[0], true // history lists a commit before its parents, so no other common one is after it
}

func shas(commits []Commit) map[string]bool {
	names := map[string]bool{}
	for _, c := range commits {
		names[c.SHA] = true
	}
	return names
}

func (c *call) showCommit(k Commit) object {
	by := object{"name": "octocat", "email": "octocat@example.com", "date": k.Date.UTC().Format("2006-01-02T15:04:05Z07:00")}
	return object{
		"sha":          k.SHA,
		"url":          api("/commits/%s", k.SHA),
		"html_url":     web("/commit/%s", k.SHA),
		"comments_url": api("/commits/%s/comments", k.SHA),
		"commit":       object{"message": k.Message, "author": by, "committer": by},
		"author":       showUser(known(User{})),
		"committer":    showUser(known(User{})),
		"parents": each(k.Parents, func(sha string) object {
			return object{"sha": sha, "url": api("/commits/%s", sha)}
		}),
	}
}

func listCommits(c *call) answer {
	k, found := c.state.resolve(c.query.Get("sha"))
	if !found {
		return notFound()
	}
	return paged(c, c.state.history(k.SHA), c.showCommit)
}

func noCommit(ref string) answer {
	return refuse(http.StatusUnprocessableEntity, "No commit found for SHA: "+ref)
}

func getCommit(c *call) answer {
	k, found := c.state.resolve(c.params["ref"])
	if !found {
		return noCommit(c.params["ref"])
	}
	return ok(c.showCommit(k))
}

// compareCommits answers BASE...HEAD. Commits that have nothing in common are not found, as with GitHub.
func compareCommits(c *call) answer {
	from, to, _ := strings.Cut(c.params["basehead"], "...")
	base, found := c.state.resolve(from)
	head, foundToo := c.state.resolve(to)
	if !found || !foundToo || to == "" {
		return notFound()
	}
	fork, found := c.state.mergeBase(base.SHA, head.SHA)
	if !found {
		return refuse(http.StatusNotFound, "No common ancestor between "+from+" and "+to+".")
	}
	ahead, behind := c.state.between(base.SHA, head.SHA), c.state.between(head.SHA, base.SHA)
	status := "diverged"
	switch {
	case len(ahead)+len(behind) == 0:
		status = "identical"
	case len(behind) == 0:
		status = "ahead"
	case len(ahead) == 0:
		status = "behind"
	}
	part, header := page(c, ahead)
	a := ok(object{
		"html_url":          web("/compare/%s", c.params["basehead"]),
		"base_commit":       c.showCommit(base),
		"merge_base_commit": c.showCommit(fork),
		"status":            status,
		"ahead_by":          len(ahead),
		"behind_by":         len(behind),
		"total_commits":     len(ahead),
		"commits":           each(part, c.showCommit),
	})
	a.header = header
	return a
}

// tree are the files of a commit. A commit holds what was laid into it and what its first parents hold.
func (st *state) tree(sha string) map[string][]byte {
	files := map[string][]byte{}
	for seen := map[string]bool{}; sha != "" && !seen[sha]; {
		seen[sha] = true
		for name, data := range st.files[sha] {
			if _, newer := files[name]; !newer {
				files[name] = data
			}
		}
		parents := st.commits[sha].Parents
		if len(parents) == 0 {
			break
		}
		sha = parents[0]
	}
	return files
}

// maxContent is the largest file that comes within JSON; larger ones come raw only.
const maxContent = 1 << 20

func getContents(c *call) answer {
	k, found := c.state.resolve(c.query.Get("ref"))
	if !found {
		return refuse(http.StatusNotFound, "No commit found for the ref "+c.query.Get("ref"))
	}
	name := strings.Trim(c.params["path"], "/")
	files := c.state.tree(k.SHA)
	data, found := files[name]
	if !found {
		return listFolder(files, name)
	}
	if strings.Contains(c.r.Header.Get("Accept"), "application/vnd.github.raw") {
		return answer{status: http.StatusOK, header: http.Header{"Content-Type": {rawType}}, raw: data}
	}
	shown := showEntry(name, "file", data)
	shown["encoding"], shown["content"] = "base64", lines(base64.StdEncoding.EncodeToString(data))
	if len(data) > maxContent {
		shown["encoding"], shown["content"] = "none", ""
	}
	return ok(shown)
}

// lines breaks base64 as GitHub does, after 60 characters.
func lines(s string) string {
	var b strings.Builder
	for part := range slices.Chunk([]byte(s), 60) {
		b.Write(part)
		b.WriteByte('\n')
	}
	return b.String()
}

func listFolder(files map[string][]byte, folder string) answer {
	entries := map[string]object{}
	for name, data := range files {
		rest, inside := strings.CutPrefix(name, folder+"/")
		if folder == "" {
			rest, inside = name, true
		}
		if !inside {
			continue
		}
		if first, _, deeper := strings.Cut(rest, "/"); deeper {
			entries[first] = showEntry(path.Join(folder, first), "dir", nil)
		} else {
			entries[rest] = showEntry(name, "file", data)
		}
	}
	if len(entries) == 0 {
		return notFound()
	}
	var all []object
	for _, entry := range entries {
		all = append(all, entry)
	}
	slices.SortFunc(all, func(a, b object) int { return cmp.Compare(a["name"].(string), b["name"].(string)) })
	return ok(all)
}

func showEntry(name, kind string, data []byte) object {
	sum := sha1.Sum(data)
	return object{
		"type":     kind,
		"name":     path.Base(name),
		"path":     name,
		"size":     len(data),
		"sha":      hex.EncodeToString(sum[:]),
		"url":      api("/contents/%s", name),
		"html_url": web("/blob/HEAD/%s", name),
	}
}
