package diffscope

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

var (
	histories = flag.String("histories", "", "compare the histories of these repositories with git too: folders, separated by commas")
	commits   = flag.Int("commits", 1000, "how many of the newest commits -histories takes of each repository")
)

// TestHistory compares the rows of every changed file in the newest commits of this repository with those of git, and of
// the repositories that -histories names. tools/histories.sh runs it.
func TestHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 300 commits")
	}
	t.Parallel()
	compareHistory(t, "../..", 300).checkMostEqual(t)
	var sum tally
	for _, dir := range strings.FieldsFunc(*histories, func(r rune) bool { return r == ',' }) {
		t.Run(dir, func(t *testing.T) {
			one := compareHistory(t, dir, *commits)
			sum.join(one)
			one.check(t)
		})
	}
	if *histories != "" {
		t.Run("all together", sum.checkMostEqual)
	}
}

// compareHistory compares the newest commits of a repository, 100 at a time.
func compareHistory(t *testing.T, repository string, commits int) *tally {
	t.Helper()
	out, err := objectsCommand(t, repository, "rev-list", "--no-merges", "-n", fmt.Sprint(commits), "HEAD").Output()
	if err != nil {
		t.Skipf("no history of %s: %v", repository, err)
	}
	blobs := blobReader(t, repository)
	var sum tally
	for part := range slices.Chunk(strings.Fields(string(out)), 100) {
		list := complete(t, repository, part)
		sum.commits += len(list)
		sum.leftOut += len(part) - len(list)
		for i, rows := range gitRows(t, repository, list) {
			before, after := historicTrees(rows, blobs)
			sum.add(t, list[i][:12], rows, before, after)
		}
	}
	return &sum
}

// complete leaves out the commits whose files this clone does not have, such as a partial one.
func complete(t *testing.T, repository string, list []string) []string {
	t.Helper()
	var have []string
	rows := gitRawRows(t, repository, list)
	var ids bytes.Buffer
	for _, r := range slices.Concat(rows...) {
		fmt.Fprintln(&ids, r.oldID)
		fmt.Fprintln(&ids, r.newID)
	}
	look := objectsCommand(t, repository, "cat-file", "--batch-check")
	look.Stdin = &ids
	out, err := look.Output()
	must(t, err)
	missing := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if id, isMissing := strings.CutSuffix(line, " missing\n"); isMissing {
			missing[id] = true
		}
	}
	lacks := func(mode, id string) bool { return missing[id] && mode != "000000" && mode != "160000" }
	for i, id := range list {
		if !slices.ContainsFunc(rows[i], func(r gitRow) bool { return lacks(r.oldMode, r.oldID) || lacks(r.newMode, r.newID) }) {
			have = append(have, id)
		}
	}
	return have
}

// historicTrees makes trees of the files that a commit changed.
func historicTrees(rows []gitRow, blobs func(id string) string) (before, after Tree) {
	for _, r := range rows {
		for _, side := range []struct {
			tree     *Tree
			mode, id string
		}{{&before, r.oldMode, r.oldID}, {&after, r.newMode, r.newID}} {
			mode, err := filemode.New(side.mode)
			if err != nil || mode == filemode.Empty || mode == filemode.Submodule {
				continue
			}
			text := blobs(side.id)
			side.tree.entries = append(side.tree.entries, entry{path: r.path, mode: mode, size: int64(len(text)), blob: &blob{text: text}})
		}
	}
	for _, tree := range []*Tree{&before, &after} {
		slices.SortFunc(tree.entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	}
	return before, after
}

// TestRandomHistory edits a folder 2,000 times at random, takes a snapshot after each time, and compares trees and rows with
// those of git, which is given the same files by other means.
func TestRandomHistory(t *testing.T) {
	t.Parallel()
	const rounds = 2000
	g := gardener{random: rand.New(rand.NewPCG(5, 2000)), files: folder{}}
	root, store := t.TempDir(), t.TempDir()
	git(t, store, "init", "-q", "--bare", ".")
	var stream bytes.Buffer
	trees := []Tree{{}}
	for range rounds {
		was := maps.Clone(g.files)
		g.work()
		g.files.update(t, root, was)
		trees = append(trees, again(t, trees[len(trees)-1], root))
		g.files.fastImport(&stream)
	}
	load := gitCommand(t, store, "fast-import", "--quiet", "--date-format=raw")
	load.Stdin = &stream
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("git fast-import: %v\n%s", err, out)
	}
	list := strings.Fields(git(t, store, "rev-list", "--reverse", "random"))
	ids := strings.Fields(git(t, store, "log", "--reverse", "--format=%T", "random"))
	sum := tally{commits: rounds}
	for i, rows := range gitRows(t, store, list) {
		if id := trees[i+1].ID(); id != ids[i] {
			t.Errorf("round %d: tree %s, git says %s", i, id, ids[i])
		}
		sum.add(t, fmt.Sprint("round ", i), rows, trees[i], trees[i+1])
	}
	sum.checkMostEqual(t)
}

// A gardener changes a folder as a person might: mostly a few lines of a few files, sometimes everything.
type gardener struct {
	random *rand.Rand
	files  folder
	lines  int // written so far
}

func (g *gardener) work() {
	for range 1 + g.random.IntN(5) {
		name := pick(g.random, []string{
			"a", "a.b", "a/in", "b c", "d/e/f", "d/e/g.go", "d/h.go", "d.i", "quo\"te", "tab\t", "new\nline", "ü", "-dash", ":(glob)*", "back\\slash", "z_test.go", "y.js", "x.py",
		})
		content, exists := g.files[name]
		kind := g.random.IntN(40)
		switch {
		case !exists:
			g.put(name, g.text(g.random.IntN(100)))
		case kind == 0:
			delete(g.files, name)
		case kind == 1:
			delete(g.files, name)
			g.put(name+".moved", content)
		case kind == 2:
			g.put(name, pick(g.random, []string{"", "\x00binary\n", "no newline", "-> a", "-> /nowhere", "-> two\nlines"}))
		case kind == 3:
			g.put(name, g.text(g.random.IntN(100)))
		case kind == 4:
			g.put(name, strings.ReplaceAll(content, "\n", "\r\n"))
		case kind == 5:
			g.put(name, strings.TrimSuffix(content, "\n"))
		case kind == 6:
			g.put(name, "#!"+content) // executable
		default:
			g.put(name, g.edit(content))
		}
	}
}

// put lays a file, and removes those that cannot be beside it.
func (g *gardener) put(name, content string) {
	maps.DeleteFunc(g.files, func(other, _ string) bool {
		return strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")
	})
	g.files[name] = content
}

// text makes lines of which some are rare, and some are in every program.
func (g *gardener) text(n int) string {
	var b strings.Builder
	for range n {
		switch g.random.IntN(3) {
		case 0:
			b.WriteString(pick(g.random, []string{"}\n", "\n", "\treturn err\n", "\t}\n", "if err != nil {\n"}))
		default:
			g.lines++
			fmt.Fprintf(&b, "line %d\n", g.lines)
		}
	}
	return b.String()
}

// edit inserts, deletes, replaces, repeats or moves some blocks of lines.
func (g *gardener) edit(text string) string {
	lines := splitLines(text)
	for range 1 + g.random.IntN(4) {
		from := g.random.IntN(len(lines) + 1)
		to := min(len(lines), from+g.random.IntN(8))
		block := slices.Clone(lines[from:to])
		fresh := splitLines(g.text(g.random.IntN(6)))
		switch g.random.IntN(5) {
		case 0:
			lines = slices.Insert(lines, from, fresh...)
		case 1:
			lines = slices.Delete(lines, from, to)
		case 2:
			lines = slices.Replace(lines, from, to, fresh...)
		case 3:
			lines = slices.Insert(lines, g.random.IntN(len(lines)+1), block...)
		case 4:
			lines = slices.Delete(lines, from, to)
			lines = slices.Insert(lines, g.random.IntN(len(lines)+1), block...)
		}
	}
	return strings.Join(lines, "")
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// update makes the folder at root, which holds was, hold f.
func (f folder) update(t *testing.T, root string, was folder) {
	t.Helper()
	for name, content := range was {
		if now, still := f[name]; !still || now != content {
			must(t, os.Remove(root+"/"+name))
			for dir := path.Dir(name); dir != "." && os.Remove(root+"/"+dir) == nil; dir = path.Dir(dir) {
			}
		}
	}
	for name, content := range f {
		if before, kept := was[name]; !kept || before != content {
			f.lay(t, root, name)
		}
	}
}

// fastImport writes the folder as one commit on the branch random.
func (f folder) fastImport(w io.Writer) {
	fmt.Fprint(w, "commit refs/heads/random\ncommitter c <c@localhost> 0 +0000\ndata 0\ndeleteall\n")
	for _, name := range slices.Sorted(maps.Keys(f)) {
		mode, content := "100644", f[name]
		if target, isLink := strings.CutPrefix(content, "-> "); isLink {
			mode, content = "120000", target
		} else if strings.HasPrefix(content, "#!") {
			mode = "100755"
		}
		fmt.Fprintf(w, "M %s inline %s\ndata %d\n%s\n", mode, quote(name), len(content), content)
	}
}

// A gitRow is what git says about one path of a commit.
type gitRow struct {
	status                         byte // A, D, M or T
	oldMode, newMode, oldID, newID string
	path                           string
	binary                         bool
	lines                          Counts // numstat
	hunks                          Counts // the headers at zero context
}

// gitRows returns the changed paths of each commit, with a few processes for all of them.
func gitRows(t *testing.T, repository string, list []string) [][]gitRow {
	t.Helper()
	rows := gitRawRows(t, repository, list, "--numstat")
	number, commit := numbers(list), 0
	at, halves := -1, 0
	for line := range strings.Lines(diffTree(t, repository, list, "-p", "-U0", "--inter-hunk-context=0")) {
		if n, isCommit := number[strings.TrimSuffix(line, "\n")]; isCommit {
			commit, at, halves = n, -1, 0
		} else if strings.HasPrefix(line, "diff --git ") {
			if halves--; halves <= 0 { // a changed type is a delete and a create
				at++
				halves = 1
				if rows[commit][at].status == 'T' {
					halves = 2
				}
			}
		} else if m := hunkHeader.FindStringSubmatch(line); m != nil {
			c := &rows[commit][at].hunks
			c.LinesRemoved += headerCount(m[1])
			c.LinesAdded += headerCount(m[2])
			c.Hunks++
		}
	}
	return rows
}

// gitRawRows is gitRows without hunks, and without lines unless args has --numstat. It reads no file.
func gitRawRows(t *testing.T, repository string, list []string, args ...string) [][]gitRow {
	t.Helper()
	rows := make([][]gitRow, len(list))
	number, commit := numbers(list), 0
	counted := 0 // rows of the commit that have their lines
	tokens := strings.Split(diffTree(t, repository, list, append(args, "--raw", "-z", "--no-abbrev")...), "\x00")
	for i := 0; i < len(tokens); i++ {
		if token := tokens[i]; strings.HasPrefix(token, ":") {
			f := strings.Fields(token[1:])
			i++
			rows[commit] = append(rows[commit], gitRow{status: f[4][0], oldMode: f[0], newMode: f[1], oldID: f[2], newID: f[3], path: tokens[i]})
		} else if n, isCommit := number[token]; isCommit {
			commit, counted = n, 0
		} else if token != "" {
			r := &rows[commit][counted]
			counted++
			if r.binary = strings.HasPrefix(token, "-"); !r.binary {
				fmt.Sscanf(token, "%d\t%d\t", &r.lines.LinesAdded, &r.lines.LinesRemoved)
			}
		}
	}
	return rows
}

func numbers(list []string) map[string]int {
	number := map[string]int{}
	for i, id := range list {
		number[id] = i
	}
	return number
}

var hunkHeader = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@`)

// headerCount reads a count of a hunk header, which is left out when it is 1.
func headerCount(count string) int {
	if count == "" {
		return 1
	}
	n, _ := strconv.Atoi(count)
	return n
}

// diffTree runs git diff-tree over commits.
func diffTree(t *testing.T, repository string, list []string, args ...string) string {
	t.Helper()
	args = append([]string{"diff-tree", "--stdin", "--root", "-r", "--no-renames", "--no-ext-diff", "--no-textconv",
		"--no-color", "--submodule=short", "--diff-algorithm=myers"}, args...)
	cmd := objectsCommand(t, repository, args...)
	cmd.Stdin = strings.NewReader(strings.Join(list, "\n") + "\n")
	var diagnosis bytes.Buffer
	cmd.Stderr = &diagnosis
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git diff-tree: %v\n%s", err, &diagnosis)
	}
	return string(out)
}

// objectsCommand asks a repository for its objects alone. Attributes of what is checked out or in the index would have a say
// in what is binary, so git runs in an empty folder and with no index.
func objectsCommand(t *testing.T, repository string, args ...string) *exec.Cmd {
	t.Helper()
	folder, err := filepath.Abs(repository)
	must(t, err)
	if _, err := os.Lstat(filepath.Join(folder, ".git")); err == nil {
		folder = filepath.Join(folder, ".git")
	}
	cmd := gitCommand(t, t.TempDir(), args...)
	cmd.Env = append(cmd.Env, "GIT_DIR="+folder, "GIT_INDEX_FILE=/nonexistent/index")
	return cmd
}

// The classes of a row. The last two must stay empty.
const (
	equal       = "equal to git's numstat and its hunks at zero context"
	shorter     = "fewer lines: git leaves out frequent lines before it searches"
	sameLength  = "as many lines, other hunks: another one of the shortest scripts"
	twoGits     = "git's numstat and patch contradict each other, equal to one"
	retypedRow  = "file became link, or link file: git's numstat and patch contradict each other, equal to one"
	approximate = "marked approximate: too different to search to the end"
	uncounted   = "marked uncounted: too large"
	submodule   = "submodules, which are no content of the tree: not compared"
	larger      = "MORE LINES THAN GIT"
	unexplained = "NOT EXPLAINED"
)

// A tally counts rows by class.
type tally struct {
	commits, leftOut int // leftOut: this clone does not have their files
	classes          map[string]int
}

func (s *tally) join(other *tally) {
	s.commits += other.commits
	s.leftOut += other.leftOut
	if s.classes == nil {
		s.classes = map[string]int{}
	}
	for class, n := range other.classes {
		s.classes[class] += n
	}
}

// add compares the rows of one change.
func (s *tally) add(t *testing.T, where string, rows []gitRow, before, after Tree) {
	t.Helper()
	if s.classes == nil {
		s.classes = map[string]int{}
	}
	patch, scope := compare(t, before, after, Paths{})
	checkFacts(t, where, before, after, patch, scope)
	ours := map[string]Row{}
	for _, r := range scope.Files {
		ours[exactPath(t, r)] = r
	}
	for _, g := range rows {
		r, found := ours[g.path]
		delete(ours, g.path)
		class := unexplained
		switch {
		case strings.Contains(g.oldMode+" "+g.newMode, "160000"):
			class = submodule
		case found:
			class = classify(r, g)
		}
		s.classes[class]++
		if class == equal || class == submodule {
			continue
		}
		t.Logf("%s: %q: %s\ngit %+v, ours %s", where, g.path, class, g, rowText(r))
		if class == shorter || class == sameLength {
			checkRowScript(t, find(before.entries, g.path), find(after.entries, g.path), r)
		}
	}
	for name, r := range ours {
		s.classes[unexplained]++
		t.Logf("%s: %q is touched, git says it is not: %s", where, name, rowText(r))
	}
}

func rowText(r Row) string {
	if r.LinesAdded == nil {
		return fmt.Sprintf("%+v", r)
	}
	return fmt.Sprintf("%s, binary %v, mode changed %v: +%d -%d in %d hunks", r.Status, r.Binary, r.ModeChanged, *r.LinesAdded, *r.LinesRemoved, *r.Hunks)
}

func exactPath(t *testing.T, r Row) string {
	t.Helper()
	if r.PathBase64 == "" {
		return r.Path
	}
	name, err := base64.StdEncoding.DecodeString(r.PathBase64)
	must(t, err)
	return string(name)
}

func classify(r Row, g gitRow) string {
	status := map[byte]string{'A': added, 'D': deleted, 'M': modified, 'T': typeChanged}[g.status]
	switch {
	case r.Status != status, r.ModeChanged != (g.status == 'M' && g.oldMode != g.newMode):
		return unexplained
	case r.Uncounted != "":
		return uncounted
	case r.Binary != g.binary && g.status != 'T':
		return unexplained
	}
	got := Counts{LinesAdded: *r.LinesAdded, LinesRemoved: *r.LinesRemoved, Hunks: *r.Hunks}
	lines := Counts{LinesAdded: got.LinesAdded, LinesRemoved: got.LinesRemoved}
	switch {
	case got == g.hunks && lines == g.lines:
		return equal
	case g.status == 'T' && (got == g.hunks || lines == g.lines):
		return retypedRow
	case r.Approximate:
		return approximate
	case got.LinesChanged() > g.lines.LinesChanged(), got.LinesChanged() > g.hunks.LinesChanged():
		return larger
	case got.LinesChanged() < g.lines.LinesChanged() && got.LinesChanged() < g.hunks.LinesChanged():
		return shorter
	case g.lines.LinesChanged() != g.hunks.LinesChanged():
		return twoGits
	case lines == g.lines:
		return sameLength
	}
	return unexplained
}

// checkRowScript shows that a row that differs from git's is right: that its script makes the new lines of the old ones.
func checkRowScript(t *testing.T, old, new *entry, r Row) {
	t.Helper()
	a, b := splitLines(old.blob.text), splitLines(new.blob.text)
	edits, _ := diffLines(a, b, exactSteps)
	checkScript(t, a, b, edits)
	if added, removed := total(edits); added != *r.LinesAdded || removed != *r.LinesRemoved {
		t.Errorf("%s: the script has +%d -%d, the row +%d -%d", r.Path, added, removed, *r.LinesAdded, *r.LinesRemoved)
	}
}

// check prints the table and fails when a row counts more lines than git's, or is not explained.
func (s *tally) check(t *testing.T) {
	t.Helper()
	var table strings.Builder
	for _, class := range []string{equal, shorter, sameLength, twoGits, retypedRow, approximate, uncounted, submodule, larger, unexplained} {
		fmt.Fprintf(&table, "%8d  %s\n", s.classes[class], class)
	}
	t.Logf("%d files in %d commits (%d more left out, of which this clone lacks files), %.2f %% equal\n%s",
		s.rows(), s.commits, s.leftOut, 100*float64(s.classes[equal])/float64(max(s.rows(), 1)), &table)
	if s.classes[larger]+s.classes[unexplained] > 0 {
		t.Errorf("%d rows count more lines than git's, %d are not explained", s.classes[larger], s.classes[unexplained])
	}
}

// checkMostEqual is check, and fails when less than 99 % of the rows are equal.
func (s *tally) checkMostEqual(t *testing.T) {
	t.Helper()
	s.check(t)
	if s.rows() == 0 {
		t.Skip("no file was compared")
	}
	if s.classes[equal]*100 < s.rows()*99 {
		t.Errorf("%d of %d rows are equal to git's, want 99 %%", s.classes[equal], s.rows())
	}
}

// rows counts what was compared.
func (s *tally) rows() int {
	rows := -s.classes[submodule]
	for _, n := range s.classes {
		rows += n
	}
	return rows
}

// blobReader returns a function that reads objects of a repository.
func blobReader(t *testing.T, repository string) func(id string) string {
	t.Helper()
	cmd := objectsCommand(t, repository, "cat-file", "--batch")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	r := bufio.NewReader(out)
	return func(id string) string {
		fmt.Fprintln(in, id)
		header, err := r.ReadString('\n')
		must(t, err)
		fields := strings.Fields(header)
		if len(fields) != 3 {
			t.Fatalf("git cat-file: %s", header) // such as an object that this clone does not have
		}
		size, err := strconv.Atoi(fields[2])
		must(t, err)
		content := make([]byte, size+1)
		_, err = io.ReadFull(r, content)
		must(t, err)
		return string(content[:size])
	}
}
