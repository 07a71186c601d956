package diffscope

import (
	"iter"
	"strings"
)

// withFacts gives every change that is not ignored, with its facts.
func (p Patch) withFacts(files []FileFacts) iter.Seq2[*change, FileFacts] {
	return func(yield func(*change, FileFacts) bool) {
		for i := range p.changes {
			c := &p.changes[i]
			if c.where == ignored {
				continue
			}
			if !yield(c, files[0]) {
				return
			}
			files = files[1:]
		}
	}
}

// A budget is how many bytes may still be read.
type budget int64

// texts returns the contents of both sides, when both are known and text, no larger than limit bytes, and within the
// budget. A side that does not exist is empty, and a link has no text.
func (b *budget) texts(c *change, limit int64) (old, new string, known bool, err error) {
	if !c.isText() {
		return "", "", false, nil
	}
	for _, e := range []*entry{c.old, c.new} {
		if e == nil {
			continue
		}
		if !e.isFile() || e.size > limit || e.size > int64(*b) {
			return "", "", false, nil
		}
		*b -= budget(e.size)
	}
	if old, err = c.old.load(); err != nil {
		return "", "", false, err
	}
	new, err = c.new.load()
	return old, new, err == nil, err
}

// isText tells whether both sides were read and neither is binary.
func (c *change) isText() bool { return c.row.Uncounted == "" && !c.row.Binary }

// shorten cuts a text for display after n bytes at most, and marks that.
func shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}
