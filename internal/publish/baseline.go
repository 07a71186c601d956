package publish

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/bench"
)

const (
	baselineTime  = 2 * time.Minute // for the whole search
	baselinePages = 5               // of artifacts of one name, newest first
	baselineTries = 20              // candidates whose run is looked at
	maxAncestors  = 20              // first parents of the merge base
	baselineFile  = "evals/baseline.json"
	baselineAsset = "benchmark.json" // of a release, and in an artifact
	maxPlanned    = 10_000           // cells of a run that left an artifact
)

// A Query says which stored baseline is wanted and what is known of the run that wants it.
type Query struct {
	Want     string        // auto, paired, merge-base, none, ref:R, release:T, run:ID or file:PATH; see [FindBaseline]
	Artifact string        // name of the artifact that holds a baseline
	MaxAge   time.Duration // 0: any age
	Branch   string        // that a baseline was measured on: the pull request's base, or the branch of the run
	Base     string        // commit or branch of the pull request's base; empty outside of one
	Head     string        // commit under test
	Run      int64         // our own run, which is no baseline of itself

	Repository int64    // id of the repository
	Workflows  []string // paths of the workflows that may make baselines, such as .github/workflows/assay-baseline.yml
	File       string   // where auto looks for a committed baseline; empty: evals/baseline.json

	Now time.Time // that ages are counted to; zero: the hub's clock, and without a hub no age is known

	// ReadFile reads a file of a commit from a clone; the error of an absent file is fs.ErrNotExist. nil: ask the API.
	ReadFile func(rev, path string) ([]byte, error)
}

// CheckWant says what is wrong with the words of Query.Want.
func CheckWant(want string) error {
	kind, name, named := strings.Cut(want, ":")
	switch kind {
	case "auto", "paired", "merge-base", "none":
		if !named {
			return nil
		}
	case "ref", "release":
		if name != "" {
			return nil
		}
	case "run":
		if id, err := strconv.ParseInt(name, 10, 64); err == nil && id > 0 {
			return nil
		}
	case "file":
		if name != "." && fs.ValidPath(name) {
			return nil
		}
	}
	return fmt.Errorf("baseline %q: give auto, paired, merge-base, none, ref:REF, release:TAG, release:latest, run:ID or file:PATH", want)
}

// FindBaseline looks for a benchmark to compare with. auto takes the first there is of:
//
//  1. an artifact of the merge base (outside of a pull request: of the commit itself, by another run),
//  2. an artifact of one of the merge base's first parents, the nearest first,
//  3. a file of the merge base, never of the pull request's head,
//  4. the asset benchmark.json of the latest release.
//
// merge-base is the first of them alone, and the other words name one place. none and paired look for nothing.
//
// A candidate must pass every filter, and one that does not is in Origin.Rejected with the filter's name. Nothing is
// compared here. It is no error when there is no baseline: Origin.Why says what was looked for, or that nobody could
// look, and then the losses say which permission is missing. hub may be nil where there is no token.
func FindBaseline(ctx context.Context, hub *Hub, q Query) (bench.Stored, []Loss) {
	ctx, cancel := context.WithTimeout(ctx, baselineTime)
	defer cancel()
	if q.Now.IsZero() && hub != nil {
		q.Now = hub.now()
	}
	s := &search{hub: hub, query: q}
	found := s.find(ctx)
	if found == nil {
		found = s.nothing()
	}
	found.Origin.Rejected = s.rejected
	return *found, s.lost
}

// A search is one walk down the ladder and what it has to tell.
type search struct {
	hub   *Hub
	query Query

	looked   []string // where
	blind    []string // where nobody could look, and why
	lost     []Loss
	rejected []bench.Rejected
	stale    bool // some candidate was too old and nothing else
}

func (s *search) find(ctx context.Context) *bench.Stored {
	if err := CheckWant(s.query.Want); err != nil {
		s.blind = append(s.blind, err.Error())
		return nil
	}
	kind, name, _ := strings.Cut(s.query.Want, ":")
	switch kind {
	case "auto":
		return s.auto(ctx)
	case "merge-base":
		if base := s.mergeBase(ctx); base != "" {
			return s.artifacts(ctx, "merge-base", []string{base})
		}
	case "file":
		if base := s.mergeBase(ctx); base != "" {
			return s.file(ctx, base, name)
		}
	case "ref":
		if line := s.firstParents(ctx, name); len(line) > 0 {
			return s.artifacts(ctx, "ref", line)
		}
	case "run":
		id, _ := strconv.ParseInt(name, 10, 64) // checked above
		return s.ofRun(ctx, id)
	case "release":
		return s.release(ctx, name)
	}
	return nil
}

func (s *search) auto(ctx context.Context) *bench.Stored {
	if base := s.mergeBase(ctx); base != "" {
		line := s.firstParents(ctx, base)
		if len(line) == 0 {
			line = []string{base}
		}
		if found := s.artifacts(ctx, "merge-base", line); found != nil {
			return found
		}
		if found := s.file(ctx, base, cmp.Or(s.query.File, baselineFile)); found != nil {
			return found
		}
	}
	return s.release(ctx, "latest")
}

// mergeBase asks GitHub where the pull request left its base. Its event does not know: there the base is the tip that the
// branch had. Nobody else knows without the whole history.
func (s *search) mergeBase(ctx context.Context) string {
	switch {
	case s.query.Head == "":
		s.blind = append(s.blind, "the commit under test is not known")
		return ""
	case s.query.Base == "":
		return s.query.Head
	case !s.canAsk():
		return ""
	}
	var answer struct {
		MergeBase struct {
			SHA string `json:"sha"`
		} `json:"merge_base_commit"`
	}
	path := fmt.Sprintf("compare/%s...%s?per_page=1", url.PathEscape(s.query.Base), url.PathEscape(s.query.Head))
	if _, err := s.hub.get(ctx, path, &answer); err != nil {
		s.couldNot("the merge base", err, "contents: read")
		return ""
	}
	if answer.MergeBase.SHA == "" {
		s.looked = append(s.looked, "a merge base, and the two sides have none")
	}
	return answer.MergeBase.SHA
}

// firstParents are the commit that rev names and its first parents, the nearest first, as far as one page of commits
// tells. Each of them was once the tip of the branch; second parents were tips of other branches.
func (s *search) firstParents(ctx context.Context, rev string) []string {
	if !s.canAsk() {
		return nil
	}
	var commits []struct {
		SHA     string `json:"sha"`
		Parents []struct {
			SHA string `json:"sha"`
		} `json:"parents"`
	}
	if _, err := s.hub.get(ctx, fmt.Sprintf("commits?sha=%s&per_page=%d", url.QueryEscape(rev), perPage), &commits); err != nil {
		s.couldNot("the commits before "+short(rev), err, "contents: read")
		return nil
	}
	parent := map[string]string{}
	for _, c := range commits {
		if parent[c.SHA] = ""; len(c.Parents) > 0 {
			parent[c.SHA] = c.Parents[0].SHA
		}
	}
	var line []string
	if len(commits) > 0 {
		for at := commits[0].SHA; at != "" && len(line) <= maxAncestors; at = parent[at] {
			line = append(line, at)
		}
	}
	return line
}

// nothing is the answer when no candidate passed.
func (s *search) nothing() *bench.Stored {
	reason, why := "no_baseline", ""
	switch {
	case s.query.Want == "none" || s.query.Want == "paired":
		why = "the run asked for no stored baseline"
	case len(s.blind) > 0:
		why = "could not look: " + strings.Join(s.blind, "; ")
	case s.stale:
		reason = "stale_baseline"
		why = fmt.Sprintf("what was found is older than %s: let the workflow that measures the baseline run again", days(s.query.MaxAge))
	default:
		why = "none found; looked for " + strings.Join(s.looked, ", ")
		if n := len(s.rejected); n > 0 {
			why += fmt.Sprintf("; of what was found, %d could not be used", n)
		}
		why += fmt.Sprintf(". Let a workflow measure every push to the base branch and keep its results as the artifact %q", s.query.Artifact)
	}
	return &bench.Stored{Origin: bench.Origin{Source: "none", Reason: reason, Why: why}}
}

func (s *search) reject(what, why string) {
	s.rejected = append(s.rejected, bench.Rejected{What: what, Why: why})
}

const noToken = "there is no token"

func (s *search) canAsk() bool {
	if s.hub == nil && !slices.Contains(s.blind, noToken) {
		s.blind = append(s.blind, noToken)
	}
	return s.hub != nil
}

// couldNot tells that something was not looked at, which is not the same as that nothing was there.
func (s *search) couldNot(what string, err error, needs string) {
	loss := lossOf(Place{Name: "baseline", Needs: needs}, err)
	if !slices.Contains(s.lost, loss) {
		s.lost = append(s.lost, loss)
	}
	s.blind = append(s.blind, what+": "+loss.Why)
	s.reject(what, "could not look: "+loss.Why)
}

func short(rev string) string { return rev[:min(len(rev), 10)] }

func days(d time.Duration) string { return fmt.Sprintf("%.1f days", d.Hours()/24) }

// older is the earlier of two times, either of which may not be known.
func older(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}
