package sandbox

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMergeBase(t *testing.T) {
	dir := newRepo(t)
	root := commit(t, dir, 1, map[string]string{"f": "root"})
	fork := commit(t, dir, 2, map[string]string{"f": "fork"})
	runGit(t, dir, "checkout", "-q", "-b", "topic")
	topic := commit(t, dir, 3, map[string]string{"t": "topic"})
	runGit(t, dir, "checkout", "-q", "main")
	trunk := commit(t, dir, 4, map[string]string{"m": "main"})
	runGit(t, dir, "checkout", "-q", "--detach", "main")
	merged := committed(t, dir, 5, "merge", "-q", "--no-ff", "-m", "test merge", "topic")
	runGit(t, dir, "checkout", "-q", "--orphan", "alien")
	commit(t, dir, 6, map[string]string{"f": "alien"})
	for _, c := range []struct{ name, a, b, want string }{
		{"two branches", "main", "topic", fork},
		{"one and itself", "main", "main", trunk},
		{"an ancestor", "topic", root, root},
		{"a descendant", root, "topic", root},
		{"GitHub's test merge against its base", merged, "main", trunk},
		{"GitHub's test merge against its head", merged, "topic", topic},
	} {
		if got, err := MergeBase(dir, c.a, c.b); got != c.want || err != nil {
			t.Errorf("%s: %s (%v), want %s", c.name, got, err, c.want)
		}
	}
	if _, err := MergeBase(dir, "main", "alien"); err == nil || !strings.Contains(err.Error(), "no commit in common") {
		t.Errorf("histories without a common commit: %v", err)
	}
	if _, err := MergeBase(dir, "main", "nope"); !errors.Is(err, ErrNoRevision) {
		t.Errorf("an unknown name: %v", err)
	}
}

// Two branches that merged each other have two best common ancestors; the newer one is taken, whoever asks.
func TestMergeBaseOfACrissCross(t *testing.T) {
	dir := newRepo(t)
	commit(t, dir, 1, map[string]string{"f": "root"})
	runGit(t, dir, "branch", "other")
	older := commit(t, dir, 2, map[string]string{"a": "1"})
	runGit(t, dir, "checkout", "-q", "other")
	newer := commit(t, dir, 3, map[string]string{"b": "1"})
	committed(t, dir, 4, "merge", "-q", "--no-ff", "-m", "m", older)
	runGit(t, dir, "checkout", "-q", "main")
	committed(t, dir, 5, "merge", "-q", "--no-ff", "-m", "m", newer)
	for _, pair := range [][2]string{{"main", "other"}, {"other", "main"}} {
		if got, err := MergeBase(dir, pair[0], pair[1]); got != newer || err != nil {
			t.Errorf("%v: %s (%v), want the newer %s", pair, got, err, newer)
		}
	}
}

func TestMergeBaseInShallowClones(t *testing.T) {
	dir := newRepo(t)
	commit(t, dir, 1, map[string]string{"f": "1"})
	fork := commit(t, dir, 2, map[string]string{"f": "2"})
	runGit(t, dir, "checkout", "-q", "-b", "topic")
	commit(t, dir, 3, map[string]string{"f": "3"})
	runGit(t, dir, "checkout", "-q", "main")
	commit(t, dir, 4, map[string]string{"g": "4"})
	clone := func(name string, args ...string) string {
		to := filepath.Join(filepath.Dir(dir), name)
		runGit(t, dir, append(append([]string{"clone", "-q"}, args...), "file://"+dir, to)...)
		return to
	}

	// One commit of one branch, as actions/checkout makes it: the base is not there.
	one := clone("one", "--depth=1", "--branch=topic")
	for _, rev := range []string{fork, "origin/main"} {
		_, err := MergeBase(one, "HEAD", rev)
		if err == nil {
			t.Fatalf("%s was found in a clone without it", rev)
		}
		if rev == fork && !strings.Contains(err.Error(), "commit "+fork+" is not in this clone") {
			t.Errorf("%v does not say which commit is missing", err)
		}
		if rev == fork && !strings.Contains(err.Error(), "fetch-depth: 0") {
			t.Errorf("%v does not say what to do", err)
		}
	}

	// One commit of each branch: both ends are there, the history between them is not.
	ends := clone("ends", "--depth=1", "--no-single-branch", "--branch=topic")
	if got, err := MergeBase(ends, "HEAD", "origin/main"); err == nil || !strings.Contains(err.Error(), "fetch-depth: 0") {
		t.Errorf("a clone that ends above the merge base: %q, %v", got, err)
	}

	// Deep enough: where the clone ends does not matter.
	deep := clone("deep", "--depth=2", "--no-single-branch", "--branch=topic")
	if got, err := MergeBase(deep, "HEAD", "origin/main"); got != fork || err != nil {
		t.Errorf("a clone that holds the merge base: %s, %v", got, err)
	}
}

// TestMergeBaseAgreesWithGit makes histories at random, also with clocks that run backwards, and asks git.
func TestMergeBaseAgreesWithGit(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := newRepo(t)
			dice := rand.New(rand.NewPCG(seed, 1))
			tree := runGit(t, dir, "write-tree")
			var all []string
			for i := range 14 {
				args := []string{"commit-tree", "-m", fmt.Sprint("m", i), tree}
				for _, parent := range dice.Perm(len(all))[:min(len(all), 1+dice.IntN(2))] {
					if parent >= len(all)-5 {
						args = append(args, "-p", all[parent])
					}
				}
				all = append(all, commitTree(t, dir, 10+dice.IntN(20), args))
			}
			for range 25 {
				a, b := all[dice.IntN(len(all))], all[dice.IntN(len(all))]
				want := strings.Fields(tryGit(t, dir, "merge-base", "--all", a, b))
				got, err := MergeBase(dir, a, b)
				other, _ := MergeBase(dir, b, a)
				switch {
				case (err == nil) != (len(want) > 0), err == nil && !slices.Contains(want, got):
					t.Errorf("%.8s and %.8s: %s (%v), git says %v", a, b, got, err, want)
				case got != other:
					t.Errorf("%.8s and %.8s: %s, the other way round %s", a, b, got, other)
				}
			}
		})
	}
}
