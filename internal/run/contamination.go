package run

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/trace"
)

// The kinds of findings about hidden assets.
const (
	foundInSource = "hidden_in_source" // the source of the case shows them
	foundGiven    = "hidden_given"     // the agent was given them
	foundCanary   = "canary_seen"      // the agent has looked into a grading place
	foundEchoed   = "hidden_echoed"    // what the agent did holds text of them
)

// mostSightings bounds the sightings of one look that a record carries.
const mostSightings = 20

// A watch keeps an eye on the hidden assets during one cell's life. Nil: the case has none.
type watch struct {
	*result.Contamination
	search  *sandbox.Search
	started time.Time
	canary  string // of this cell; those of the whole run begin alike
	common  string
}

// secret gets ready to look for the hidden assets of the case, once: the passages that its source shows are taken out, and
// where the source holds a hidden file, shown says so.
func (t *task) secret() (search *sandbox.Search, shown sandbox.Look, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.search != nil {
		return t.search, t.shown, nil
	}
	s, err := t.assets.Search()
	if err != nil {
		return nil, sandbox.Look{}, err
	}
	if t.shown, err = s.Publish(t.source.Files()); err != nil {
		return nil, sandbox.Look{}, &fault{trace.ClassSandbox, fmt.Errorf("look for hidden assets in the source: %w", err)}
	}
	t.search = s
	return s, t.shown, nil
}

// guardHidden looks for hidden assets in what the agent is about to be given. Where it finds them, the cell ends here: what an
// agent does with the tests before its eyes says nothing of it.
func (l *life) guardHidden(context.Context) error {
	if l.task.assets == nil {
		return nil
	}
	search, shown, err := l.task.secret()
	if err != nil {
		return err
	}
	w := &watch{
		Contamination: &result.Contamination{Prevents: l.kit.sandbox.Hides}, search: search, started: l.began,
		common: l.kit.canary, canary: l.kit.canary + rand.Text(),
	}
	l.watch, l.res.Contamination = w, w.Contamination
	w.Files, w.Restored = search.Files()
	look := search.Look(w.common)
	if err := l.lookBefore(look); err != nil {
		return &fault{trace.ClassSandbox, fmt.Errorf("look for hidden assets before the agent starts: %w", err)}
	}
	w.Before = looked(look, shown)
	l.noteSightings(foundInSource, shown.Found)
	l.noteSightings(foundGiven, toldOf(look.Found))
	for _, s := range slices.Concat(shown.Found, toldOf(look.Found)) {
		w.Why = append(w.Why, fmt.Sprintf("%s holds %.0f %% of the hidden file %s before the agent starts", s.In, 100*s.Share, s.Hidden))
	}
	for _, in := range look.Canaries {
		w.Why = append(w.Why, in+" holds the canary of a grading place before the agent starts")
	}
	if w.Why == nil {
		return nil
	}
	return &fault{trace.ClassGrader, fmt.Errorf("%s; take it out of what agents are given, or out of hidden", strings.Join(w.Why[:min(len(w.Why), 3)], "; "))}
}

// lookBefore looks at all that the agent starts from and that not the source alone decides.
func (l *life) lookBefore(look *sandbox.Look) error {
	if !l.shared {
		if err := look.Tree("", filesOf(*l.before)); err != nil {
			return err
		}
	}
	root, err := os.OpenRoot(l.place.Home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return look.Folder("home/", root.FS())
}

// searchWork looks for hidden assets and for canaries in what the agent said, wrote and left.
func (l *life) searchWork(context.Context) error {
	w := l.watch
	if w == nil {
		return nil
	}
	look := w.search.Look(w.common)
	if err := l.lookAfter(look); err != nil {
		return &fault{trace.ClassSandbox, fmt.Errorf("look for hidden assets in what the agent did: %w", err)}
	}
	after := looked(look, sandbox.Look{})
	w.After = &after
	l.noteSightings(foundEchoed, toldOf(look.Found))
	for _, in := range look.Canaries {
		w.Why = append(w.Why, "the "+in+" of the agent holds the canary of a grading place")
		l.note([]sandbox.Finding{{Kind: foundCanary, Path: in, Text: "text of a grading place, which no agent may enter"}})
	}
	if l.after == nil {
		w.Why = append(w.Why, "the tree that the agent left could not be measured, so nobody can look into it")
	}
	w.Proven = w.Why == nil
	return nil
}

func (l *life) lookAfter(look *sandbox.Look) error {
	for _, name := range []string{"trace.jsonl", "agent.log", "diff.patch"} {
		f, err := l.entry.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var r io.Reader = f
		if filepath.Ext(name) == ".jsonl" {
			r = &unescaped{from: bufio.NewReaderSize(f, 64<<10)}
		}
		if err := errors.Join(look.Stream(name, r), f.Close()); err != nil {
			return err
		}
	}
	if l.after == nil {
		return nil
	}
	return look.Tree("", handed(l.after.Changed(*l.before)))
}

// isGiven tells whether a cell errored since its agent would have been given hidden assets. It would be so again.
func isGiven(r result.Result) bool {
	c := r.Contamination
	return r.Status == result.Errored && c != nil && c.Why != nil && c.After == nil
}

// looked is a look as a record carries it, together with the one at the source.
func looked(l *sandbox.Look, source sandbox.Look) result.Look {
	out := result.Look{Files: l.Files + source.Files, Bytes: l.Bytes + source.Bytes, Canaries: l.Canaries[:min(len(l.Canaries), mostSightings)]}
	for _, s := range slices.Concat(source.Found, l.Found) {
		if len(out.Found) < mostSightings {
			out.Found = append(out.Found, result.Sighting{Hidden: s.Hidden, In: s.In, Share: s.Share, Told: s.Told})
		}
	}
	return out
}

// toldOf are the sightings that two texts do not have in common by chance.
func toldOf(found []sandbox.Sighting) (out []sandbox.Sighting) {
	for _, s := range found {
		if s.Told {
			out = append(out, s)
		}
	}
	return out
}

func (l *life) noteSightings(kind string, found []sandbox.Sighting) {
	for _, s := range found[:min(len(found), mostSightings)] {
		l.note([]sandbox.Finding{{Kind: kind, Path: s.In, Text: fmt.Sprintf("holds %.0f %% of the hidden file %s", 100*s.Share, s.Hidden)}})
	}
}

// since is how long ago the cell began.
func (w *watch) since() *time.Duration {
	d := time.Since(w.started)
	return &d
}

// laying notes that the hidden assets are about to be laid. The error says that the agent may still be there.
func (w *watch) laying() (canary string, err error) {
	if w == nil {
		return "", nil
	}
	if w.Order.Stopped == nil && !w.Order.Earlier {
		return "", &fault{trace.ClassGrader, errors.New("hidden assets are not laid: the agent has not been stopped")}
	}
	if w.Order.Laid == nil {
		w.Order.Laid = w.since()
	}
	return w.canary, nil
}

// unspoilt makes a passed cell a failed one when its agent has seen a grading place.
func (l *life) unspoilt() {
	if w := l.watch; w != nil && w.After != nil && len(w.After.Canaries) > 0 && l.res.Status == result.Passed {
		l.res.Status, l.res.Detail = result.Failed, w.Why[0]+": it has looked at what graders alone may see"
	}
}

// unescaped takes the escapes out of JSON text, so that what an agent wrote is found as it wrote it.
type unescaped struct {
	from *bufio.Reader
	rest []byte // of a character that did not fit
}

func (u *unescaped) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(u.rest) > 0 {
			k := copy(p[n:], u.rest)
			n, u.rest = n+k, u.rest[k:]
			continue
		}
		c, err := u.from.ReadByte()
		if err != nil {
			return n, endUnless(n, err)
		}
		if c != '\\' {
			p[n] = c
			n++
			continue
		}
		if err := u.escape(); err != nil {
			return n, endUnless(n, err)
		}
	}
	return n, nil
}

// endUnless is the error of a read that gave n bytes: its end comes with the next one.
func endUnless(n int, err error) error {
	if n > 0 && err == io.EOF {
		return nil
	}
	return err
}

// escape reads what follows a backslash.
func (u *unescaped) escape() error {
	c, err := u.from.ReadByte()
	if err != nil {
		return err
	}
	const short, long = "ntrbf", "\n\t\r\b\f"
	if at := strings.IndexByte(short, c); at >= 0 {
		u.rest = []byte{long[at]}
		return nil
	}
	if c != 'u' {
		u.rest = []byte{c}
		return nil
	}
	digits, err := u.from.Peek(4)
	if err != nil {
		return err
	}
	code, err := strconv.ParseUint(string(digits), 16, 32)
	if err != nil {
		u.rest = []byte{c} // not JSON
		return nil
	}
	u.rest = utf8.AppendRune(nil, rune(code))
	_, err = u.from.Discard(4)
	return err
}
