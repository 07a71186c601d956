package cli

import (
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/jedib0t/go-pretty/v6/text"
)

// maxBar is the longest bar, in characters.
const maxBar = 30

// columns are the widths of the table. Numbers are never cut; paths are, in their middle.
type columns struct {
	narrow                              bool
	path, status, added, removed, hunks int
	floor                               int // of path, so that the number of files is not cut
	tail                                int // for the bar and the notes
	largest                             int // lines changed of one row
	addedHead, removedHead, hunksHead   string
}

// columnsFor fits the table to the screen.
func (f *face) columnsFor(s diffscope.Scope) columns {
	c := columns{narrow: f.width < 60, status: len("type changed"), addedHead: "added", removedHead: "removed", hunksHead: "hunks"}
	least := 20
	if c.narrow {
		c.status, c.addedHead, c.removedHead, c.hunksHead, least = 1, "+", "−", "@@", len("approximate")
	}
	c.added, c.removed, c.hunks = width(c.addedHead), width(c.removedHead), width(c.hunksHead)
	c.fit(s.Files, s.Counts)
	c.fit(s.Outside.Files, s.Outside.Counts)
	if s.Ignored != nil {
		c.fit(s.Ignored.Files, s.Ignored.Counts)
	}
	rest := f.width - c.status - c.added - c.removed - c.hunks - 5*len("  ")
	c.path = max(c.floor, min(c.path, rest-least))
	c.tail = max(0, rest-c.path)
	return c
}

// fit widens the columns for rows and their totals.
func (c *columns) fit(rows []diffscope.Row, total diffscope.Counts) {
	c.floor = max(c.floor, width(plural(total.FilesTouched, "file")))
	c.path = max(c.path, c.floor)
	c.added = max(c.added, width(withSign("+", &total.LinesAdded)))
	c.removed = max(c.removed, width(withSign("−", &total.LinesRemoved)))
	c.hunks = max(c.hunks, width(withSign("", &total.Hunks)))
	for _, r := range rows {
		c.path = max(c.path, width(diffscope.Visible(r.Path, "")))
		if r.LinesAdded != nil && r.LinesRemoved != nil {
			c.largest = max(c.largest, *r.LinesAdded+*r.LinesRemoved)
		}
	}
}

func (c columns) header() string {
	return strings.TrimRight(c.join("file", "", c.addedHead, c.removedHead, c.hunksHead, "", noColor), " ")
}

func noColor(_ color, s string) string { return s }

// join writes one line of the table.
func (c columns) join(path, status, added, removed, hunks, tail string, paint func(color, string) string) string {
	cells := []string{
		text.Pad(middle(path, c.path), c.path, ' '),
		paint(statusColor(status), text.Pad(c.statusWord(status), c.status, ' ')),
		paint(numberColor(green, added), padLeft(added, c.added)),
		paint(numberColor(red, removed), padLeft(removed, c.removed)),
		padLeft(hunks, c.hunks),
	}
	if tail != "" {
		cells = append(cells, tail)
	}
	return strings.Join(cells, "  ")
}

// numberColor dims a zero and marks what is not known.
func numberColor(usual color, number string) color {
	switch number {
	case "?":
		return yellow
	case "+0", "−0":
		return dim
	}
	return usual
}

func statusColor(status string) color {
	switch status {
	case "added":
		return green
	case "deleted":
		return red
	}
	return yellow
}

// statusWord is the status, or its first letter where there is little room.
func (c columns) statusWord(status string) string {
	if c.narrow && status != "" {
		return strings.ToUpper(status[:1])
	}
	return strings.ReplaceAll(status, "_", " ")
}

// rows prints rows and their totals.
func (f *face) rows(c columns, rows []diffscope.Row, total diffscope.Counts, approximate bool) {
	for _, r := range rows {
		f.line("%s", c.join(diffscope.Visible(r.Path, ""), r.Status, withSign("+", r.LinesAdded), withSign("−", r.LinesRemoved),
			withSign("", r.Hunks), f.tail(c, r), f.paint))
	}
	f.line("%s", f.paint(dim, strings.Repeat("─", c.path+c.status+c.added+c.removed+c.hunks+4*len("  "))))
	note := ""
	if approximate {
		note = f.paint(yellow, middle("approximate", c.tail))
	}
	f.line("%s", c.join(plural(total.FilesTouched, "file"), "", withSign("+", &total.LinesAdded),
		withSign("−", &total.LinesRemoved), withSign("", &total.Hunks), note, f.paint))
}

// tail is what stands behind the numbers: a bar, and what kind of row it is.
func (f *face) tail(c columns, r diffscope.Row) string {
	notes := middle(strings.Join(rowNotes(r), ", "), c.tail)
	if r.LinesAdded == nil || r.LinesRemoved == nil {
		return f.paint(yellow, notes)
	}
	room := c.tail
	if notes != "" {
		room -= width(notes) + 1
	}
	added, removed := bar(*r.LinesAdded, *r.LinesRemoved, c.largest, min(room, maxBar))
	drawn := f.paint(green, strings.Repeat("+", added)) + f.paint(red, strings.Repeat("-", removed))
	if notes != "" && drawn != "" {
		drawn += " "
	}
	return drawn + f.paint(yellow, notes)
}

// rowNotes says what the numbers of a row do not.
func rowNotes(r diffscope.Row) []string {
	var notes []string
	if r.Uncounted != "" {
		notes = append(notes, uncountedWord(r.Uncounted))
	}
	if r.Binary {
		notes = append(notes, "binary")
	}
	if r.ModeChanged {
		notes = append(notes, "mode")
	}
	if r.Approximate {
		notes = append(notes, "approximate")
	}
	return notes
}

func uncountedWord(why string) string { return strings.ReplaceAll(why, "_", " ") }

// bar gives each side its share of a bar whose length is that of the row's lines in the largest one. A line is never
// longer than a character, and a side that has lines is never without one.
func bar(added, removed, largest, room int) (plus, minus int) {
	if room < 2 {
		return 0, 0
	}
	if largest <= room {
		return added, removed
	}
	// One character less is to be shared than there is room for, since each side may be rounded up.
	scale := func(n int) int { return (n*(room-1) + largest - 1) / largest }
	return scale(added), scale(removed)
}

// withSign is a number with its sign, or a question mark when it was not measured.
func withSign(sign string, n *int) string {
	if n == nil {
		return "?"
	}
	return fmt.Sprintf("%s%d", sign, *n)
}

// width is how many cells of a terminal a text takes.
func width(s string) int { return text.StringWidthWithoutEscSequences(s) }

func padLeft(s string, n int) string { return strings.Repeat(" ", max(0, n-width(s))) + s }

// middle cuts a text in its middle so that it takes at most n cells. More is left of its end, where the name of a file is.
func middle(s string, n int) string {
	if len(s) <= n || width(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	runes := []rune(s)
	head, room := 0, (n-1)/3
	for ; head < len(runes) && text.RuneWidth(runes[head]) <= room; head++ {
		room -= text.RuneWidth(runes[head])
	}
	room += n - 1 - (n-1)/3
	tail := len(runes)
	for ; tail > head && text.RuneWidth(runes[tail-1]) <= room; tail-- {
		room -= text.RuneWidth(runes[tail-1])
	}
	return string(runes[:head]) + "…" + string(runes[tail:])
}
