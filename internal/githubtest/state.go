package githubtest

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	repository    = "octo/demo"
	defaultBranch = "main"
)

// start is when the repository's first thing was made. The server's clock goes on by one second with each thing that is made,
// so times order things and two runs of a test see the same times.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A User is an account. Ids are made from logins, so equal logins have equal ids.
type User struct {
	Login string
	Type  string // User or Bot; empty: Bot when the login ends in [bot], else User
}

// A Branch is one side of a pull request.
type Branch struct {
	Repo string // owner/name; empty: octo/demo
	Ref  string // name of the branch, without refs/heads/
	SHA  string
}

// A File is a file that a pull request changes.
type File struct {
	Name   string // slash path
	Status string // added, removed, modified or renamed; empty: modified
	Patch  string // hunks without file headers; empty for a binary or a very large file
}

// A Pull is a pull request. It is from a fork when its head and base repositories differ.
type Pull struct {
	Number     int // 0: the next free one
	Title      string
	State      string // open or closed; empty: open
	Draft      bool
	Author     User // empty: octocat
	Head, Base Branch
	Files      []File
}

// A Comment is one on an issue or a pull request.
type Comment struct {
	ID               int64 // 0: the next one
	Issue            int
	Author           User // empty: octocat
	Body             string
	Created, Updated time.Time // zero: one second after the last thing made
	HTMLURL          string
}

// A Reaction is one to a comment.
type Reaction struct {
	ID, Comment int64
	Content     string // eyes, rocket, confused, …
	Author      User
}

// A Commit is one of the repository's graph.
type Commit struct {
	SHA     string   // 40 hex digits
	Parents []string // the first one is the branch it was made on
	Message string
	Date    time.Time // zero: one second after the last thing made
}

// A Status is a commit status.
type Status struct {
	ID                                     int64
	SHA                                    string
	State, Context, Description, TargetURL string
	Creator                                User
	Created                                time.Time
}

// An Annotation is one of a check run.
type Annotation struct {
	Path               string
	StartLine, EndLine int
	Level              string // notice, warning or failure
	Title, Message     string
	RawDetails         string
}

// A CheckRun is a check run.
type CheckRun struct {
	ID                              int64
	Name, HeadSHA                   string
	Status, Conclusion              string
	ExternalID, DetailsURL, HTMLURL string
	Title, Summary, Text            string
	Annotations                     []Annotation // of all requests, in their order
	Started, Completed              time.Time
}

// A Review is a review of a pull request.
type Review struct {
	ID        int64
	Pull      int
	Author    User
	State     string // PENDING, COMMENTED, APPROVED or CHANGES_REQUESTED
	Body      string
	CommitID  string
	Submitted time.Time
	HTMLURL   string
}

// A ReviewComment is one on a line of a pull request's diff.
type ReviewComment struct {
	ID, Review      int64
	Pull            int
	Author          User
	Path, Side      string
	StartLine, Line int // StartLine is 0 for one line
	Body, CommitID  string
	Created         time.Time
}

// A Run is a run of a workflow.
type Run struct {
	ID                 int64  // 0: the next one
	Path               string // of the workflow file; empty: .github/workflows/assay.yml
	Event              string // empty: push
	HeadBranch         string // empty: main
	HeadSHA            string
	HeadRepo           string // owner/name; empty: octo/demo
	Status, Conclusion string // empty: completed, success; a dash as conclusion: none yet
	Attempt            int    // 0: the first
	Created            time.Time
}

// An Artifact is what a run uploaded.
type Artifact struct {
	ID      int64 // 0: the next one
	Run     int64
	Name    string
	Zip     []byte
	Digest  string // empty: sha256 of Zip; a dash: GitHub knows none
	Expired bool
	Created time.Time
	Expires time.Time // zero: 90 days after Created
}

// An Asset is a file of a release.
type Asset struct {
	ID   int64 // 0: the next one
	Name string
	Data []byte
}

// A Release is a release with its assets.
type Release struct {
	ID                int64 // 0: the next one
	Tag, Name         string
	Draft, Prerelease bool
	Created           time.Time
	Assets            []Asset
}

// A state is all that the repository holds. What stands in its lists is never changed in place, so a shallow copy is a
// snapshot.
type state struct {
	made           int // things made so far; gives ids and times
	pulls          []Pull
	comments       []Comment
	reactions      []Reaction
	statuses       []Status
	checks         []CheckRun
	reviews        []Review
	reviewComments []ReviewComment
	runs           []Run
	artifacts      []Artifact
	releases       []Release
	commits        map[string]Commit
	branches       map[string]string            // name to SHA
	files          map[string]map[string][]byte // SHA to path to content
	roles          map[string]string            // login to role
}

func newState() *state {
	return &state{
		commits:  map[string]Commit{},
		branches: map[string]string{},
		files:    map[string]map[string][]byte{},
		roles:    map[string]string{},
	}
}

func (st *state) snapshot() *state {
	return &state{
		made:           st.made,
		pulls:          slices.Clone(st.pulls),
		comments:       slices.Clone(st.comments),
		reactions:      slices.Clone(st.reactions),
		statuses:       slices.Clone(st.statuses),
		checks:         slices.Clone(st.checks),
		reviews:        slices.Clone(st.reviews),
		reviewComments: slices.Clone(st.reviewComments),
		runs:           slices.Clone(st.runs),
		artifacts:      slices.Clone(st.artifacts),
		releases:       slices.Clone(st.releases),
		commits:        maps.Clone(st.commits),
		branches:       maps.Clone(st.branches),
		files:          maps.Clone(st.files),
		roles:          maps.Clone(st.roles),
	}
}

// mint counts a new thing and gives its id, unless it brings one, and its time, unless it brings one.
func (st *state) mint(id *int64, at *time.Time) {
	st.made++
	if *id == 0 {
		*id = int64(1000 + st.made)
	}
	if at.IsZero() {
		*at = start.Add(time.Duration(st.made) * time.Second)
	}
}

// lay locks the server for the test to lay something into it, and gives what unlocks it. All lists know what a test lays in:
// only what calls write can be stale.
func (s *Server) lay() (unlock func()) {
	s.mu.Lock()
	s.before = nil
	return s.mu.Unlock
}

// AddPull makes a pull request and, where the graph lacks them, its base commit and a head commit upon it. Empty SHAs are
// made up; an empty base branch is main, and main is made to point at the base commit when it points nowhere.
func (s *Server) AddPull(p Pull) Pull {
	defer s.lay()()
	st := s.state
	if p.Number == 0 {
		for _, other := range st.pulls {
			p.Number = max(p.Number, other.Number)
		}
		p.Number++
	}
	p.State = cmp.Or(p.State, "open")
	p.Title = cmp.Or(p.Title, fmt.Sprintf("Pull request %d", p.Number))
	p.Author = known(p.Author)
	p.Base.Repo = cmp.Or(p.Base.Repo, repository)
	p.Base.Ref = cmp.Or(p.Base.Ref, defaultBranch)
	p.Base.SHA = cmp.Or(p.Base.SHA, st.branches[p.Base.Ref], sha("base", p.Number))
	p.Head.Repo = cmp.Or(p.Head.Repo, repository)
	p.Head.Ref = cmp.Or(p.Head.Ref, fmt.Sprintf("topic-%d", p.Number))
	p.Head.SHA = cmp.Or(p.Head.SHA, sha("head", p.Number))
	st.addCommit(Commit{SHA: p.Base.SHA})
	st.addCommit(Commit{SHA: p.Head.SHA, Parents: []string{p.Base.SHA}})
	if st.branches[p.Base.Ref] == "" {
		st.branches[p.Base.Ref] = p.Base.SHA
	}
	if p.Head.Repo == repository {
		st.branches[p.Head.Ref] = p.Head.SHA
	}
	st.pulls = append(st.pulls, p)
	return p
}

// UpdatePull changes a pull request, as a push or a closing does. A head commit that the graph lacks is put upon the old one.
func (s *Server) UpdatePull(number int, change func(*Pull)) {
	s.tb.Helper()
	defer s.lay()()
	i := slices.IndexFunc(s.state.pulls, func(p Pull) bool { return p.Number == number })
	if i < 0 {
		s.tb.Fatalf("githubtest: there is no pull request %d", number)
	}
	p := s.state.pulls[i]
	before := p.Head.SHA
	change(&p)
	s.state.addCommit(Commit{SHA: p.Head.SHA, Parents: []string{before}})
	if p.Head.Repo == repository {
		s.state.branches[p.Head.Ref] = p.Head.SHA
	}
	s.state.pulls[i] = p
}

// AddComment makes a comment. An issue that is no pull request comes into being with its first comment.
func (s *Server) AddComment(c Comment) Comment {
	defer s.lay()()
	return s.state.addComment(c)
}

func (st *state) addComment(c Comment) Comment {
	st.mint(&c.ID, &c.Created)
	c.Author = known(c.Author)
	if c.Updated.IsZero() {
		c.Updated = c.Created
	}
	kind := "issues"
	if st.pull(c.Issue) != nil {
		kind = "pull"
	}
	c.HTMLURL = fmt.Sprintf("https://github.com/%s/%s/%d#issuecomment-%d", repository, kind, c.Issue, c.ID)
	st.comments = append(st.comments, c)
	return c
}

// AddReview makes a review, as a person does by hand.
func (s *Server) AddReview(r Review) Review {
	defer s.lay()()
	return s.state.addReview(r)
}

func (st *state) addReview(r Review) Review {
	st.mint(&r.ID, &r.Submitted)
	r.Author = known(r.Author)
	r.State = cmp.Or(r.State, "COMMENTED")
	if p := st.pull(r.Pull); p != nil {
		r.CommitID = cmp.Or(r.CommitID, p.Head.SHA)
	}
	r.HTMLURL = fmt.Sprintf("https://github.com/%s/pull/%d#pullrequestreview-%d", repository, r.Pull, r.ID)
	st.reviews = append(st.reviews, r)
	return r
}

// AddReviewComment makes a comment on a line, as a person does by hand.
func (s *Server) AddReviewComment(c ReviewComment) ReviewComment {
	defer s.lay()()
	return s.state.addReviewComment(c)
}

func (st *state) addReviewComment(c ReviewComment) ReviewComment {
	st.mint(&c.ID, &c.Created)
	c.Author = known(c.Author)
	c.Side = cmp.Or(c.Side, "RIGHT")
	if p := st.pull(c.Pull); p != nil {
		c.CommitID = cmp.Or(c.CommitID, p.Head.SHA)
	}
	st.reviewComments = append(st.reviewComments, c)
	return c
}

// AddCommit puts commits into the graph. One that is there already stays as it is.
func (s *Server) AddCommit(commits ...Commit) {
	defer s.lay()()
	for _, c := range commits {
		s.state.addCommit(c)
	}
}

func (st *state) addCommit(c Commit) {
	if _, there := st.commits[c.SHA]; there {
		return
	}
	id := int64(1) // commits have none
	st.mint(&id, &c.Date)
	c.Message = cmp.Or(c.Message, "commit "+c.SHA)
	st.commits[c.SHA] = c
}

// SetBranch points a branch or a tag at a commit. The default branch is main.
func (s *Server) SetBranch(name, sha string) {
	defer s.lay()()
	s.state.branches[name] = sha
}

// AddRun makes a run of a workflow.
func (s *Server) AddRun(r Run) Run {
	defer s.lay()()
	s.state.mint(&r.ID, &r.Created)
	r.Path = cmp.Or(r.Path, ".github/workflows/assay.yml")
	r.Event = cmp.Or(r.Event, "push")
	r.HeadBranch = cmp.Or(r.HeadBranch, defaultBranch)
	r.HeadRepo = cmp.Or(r.HeadRepo, repository)
	r.Status = cmp.Or(r.Status, "completed")
	r.Conclusion = cmp.Or(r.Conclusion, "success")
	r.Attempt = cmp.Or(r.Attempt, 1)
	s.state.runs = append(s.state.runs, r)
	return r
}

// AddArtifact makes an artifact of a run.
func (s *Server) AddArtifact(a Artifact) Artifact {
	defer s.lay()()
	s.state.mint(&a.ID, &a.Created)
	if a.Expires.IsZero() {
		a.Expires = a.Created.AddDate(0, 0, 90)
	}
	if a.Digest == "" {
		sum := sha256.Sum256(a.Zip)
		a.Digest = "sha256:" + hex.EncodeToString(sum[:])
	}
	s.state.artifacts = append(s.state.artifacts, a)
	return a
}

// AddRelease makes a release.
func (s *Server) AddRelease(r Release) Release {
	defer s.lay()()
	s.state.mint(&r.ID, &r.Created)
	r.Name = cmp.Or(r.Name, r.Tag)
	r.Assets = slices.Clone(r.Assets)
	for i := range r.Assets {
		var at time.Time
		s.state.mint(&r.Assets[i].ID, &at)
	}
	s.state.releases = append(s.state.releases, r)
	return r
}

// AddFile lays a file into the tree of a commit, which may be named by a branch. Commits above it hold it too.
func (s *Server) AddFile(ref, path string, data []byte) {
	s.tb.Helper()
	defer s.lay()()
	c, ok := s.state.resolve(ref)
	if !ok {
		s.tb.Fatalf("githubtest: there is no commit %s to lay %s into", ref, path)
	}
	tree := maps.Clone(s.state.files[c.SHA])
	if tree == nil {
		tree = map[string][]byte{}
	}
	tree[path] = data
	s.state.files[c.SHA] = tree
}

// AddCheckRun makes a check run, as an earlier run of a workflow did.
func (s *Server) AddCheckRun(c CheckRun) CheckRun {
	defer s.lay()()
	return s.state.addCheckRun(c)
}

func (st *state) addCheckRun(c CheckRun) CheckRun {
	st.mint(&c.ID, &c.Started)
	if c.Conclusion != "" {
		c.Status = "completed"
	}
	c.Status = cmp.Or(c.Status, "queued")
	if c.Status == "completed" && c.Completed.IsZero() {
		c.Completed = c.Started
	}
	c.HTMLURL = fmt.Sprintf("https://github.com/%s/runs/%d", repository, c.ID)
	c.DetailsURL = cmp.Or(c.DetailsURL, c.HTMLURL)
	st.checks = append(st.checks, c)
	return c
}

// AddStatus makes a commit status, as an earlier run of a workflow did.
func (s *Server) AddStatus(c Status) Status {
	defer s.lay()()
	return s.state.addStatus(c)
}

func (st *state) addStatus(c Status) Status {
	st.mint(&c.ID, &c.Created)
	c.Context = cmp.Or(c.Context, "default")
	c.Creator = known(c.Creator)
	st.statuses = append(st.statuses, c)
	return c
}

// SetPermission gives an account its role: admin, maintain, write, triage, read or none. Others can read.
func (s *Server) SetPermission(login, role string) {
	defer s.lay()()
	s.state.roles[strings.ToLower(login)] = role
}

// RepoID is the id of a repository by its owner/name; octo/demo has 1.
func (s *Server) RepoID(fullName string) int64 { return repoID(fullName) }

func repoID(fullName string) int64 {
	if fullName == repository {
		return 1
	}
	return number(fullName)
}

// Comments are those of an issue or a pull request, oldest first.
func (s *Server) Comments(issue int) []Comment {
	return read(s, func(st *state) []Comment {
		return st.commentsOf(issue)
	})
}

// Reactions are those to all comments, oldest first.
func (s *Server) Reactions() []Reaction {
	return read(s, func(st *state) []Reaction { return slices.Clone(st.reactions) })
}

// Statuses are those of a commit, oldest first.
func (s *Server) Statuses(sha string) []Status {
	return read(s, func(st *state) []Status {
		return filter(st.statuses, func(c Status) bool { return c.SHA == sha })
	})
}

// CheckRuns are those of all commits, oldest first.
func (s *Server) CheckRuns() []CheckRun {
	return read(s, func(st *state) []CheckRun { return slices.Clone(st.checks) })
}

// Reviews are those of a pull request, oldest first.
func (s *Server) Reviews(pull int) []Review {
	return read(s, func(st *state) []Review {
		return filter(st.reviews, func(r Review) bool { return r.Pull == pull })
	})
}

// ReviewComments are those on lines of a pull request, oldest first.
func (s *Server) ReviewComments(pull int) []ReviewComment {
	return read(s, func(st *state) []ReviewComment {
		return filter(st.reviewComments, func(c ReviewComment) bool { return c.Pull == pull })
	})
}

func read[T any](s *Server, of func(*state) T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of(s.state)
}

func filter[T any](all []T, keep func(T) bool) []T {
	var kept []T
	for _, v := range all {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

func find[T any](all []T, is func(*T) bool) *T {
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

func (st *state) pull(number int) *Pull {
	return find(st.pulls, func(p *Pull) bool { return p.Number == number })
}

func (st *state) run(id int64) *Run {
	return find(st.runs, func(r *Run) bool { return r.ID == id })
}

// commentsOf are those of an issue in the order that GitHub lists them.
func (st *state) commentsOf(issue int) []Comment {
	of := filter(st.comments, func(c Comment) bool { return c.Issue == issue })
	slices.SortStableFunc(of, func(a, b Comment) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return of
}

// known is the account with what it leaves open filled in.
func known(u User) User {
	u.Login = cmp.Or(u.Login, "octocat")
	if u.Type == "" {
		u.Type = "User"
		if strings.HasSuffix(u.Login, "[bot]") {
			u.Type = "Bot"
		}
	}
	return u
}

// number makes a stable id of a name.
func number(name string) int64 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int64(h.Sum32()) + 2
}

// sha makes up the id of a commit.
func sha(what string, n int) string {
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d", what, n))
	return hex.EncodeToString(sum[:])
}
