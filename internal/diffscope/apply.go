package diffscope

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// Apply returns the tree that a patch makes of before. It takes what git diff and diff -u print, with names that have one
// folder too many in front (a/, b/), and is strict: every line must be where the patch says. The error names the line of
// the patch that does not hold.
func Apply(before Tree, patch []byte) (Tree, error) {
	p := parser{lines: splitLines(string(patch))}
	edits, err := p.parse()
	if err != nil {
		return Tree{}, &lineError{p.at + 1, err}
	}
	if len(edits) == 0 {
		return Tree{}, fmt.Errorf("there is no patch in it")
	}
	removed, made := map[string]bool{}, map[string]entry{}
	for _, f := range edits {
		if err := f.apply(before, removed, made); err != nil {
			return Tree{}, &lineError{f.line, err}
		}
	}
	after := before
	after.entries = slices.DeleteFunc(slices.Clone(before.entries), func(e entry) bool { return removed[e.path] })
	after.entries = slices.AppendSeq(after.entries, maps.Values(made))
	slices.SortFunc(after.entries, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	for i, e := range after.entries {
		if i > 0 && after.entries[i-1].path == e.path {
			return Tree{}, fmt.Errorf("%s is created, but exists already", printable(e.path))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if start, end := below(after.entries, name+"/"); start < end || after.hasFileAbove(name) {
			return Tree{}, fmt.Errorf("%s is created, but would be a file and a folder at once, or lie below a file", printable(name))
		}
	}
	return after, nil
}

// A lineError is what is wrong in one line of a patch.
type lineError struct {
	line int // from 1
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

func (t Tree) hasFileAbove(name string) bool {
	for i := range len(name) {
		if name[i] == '/' && find(t.entries, name[:i]) != nil {
			return true
		}
	}
	return false
}

// A fileEdit is what a patch says about one file. A name is empty on the side where the file does not exist.
type fileEdit struct {
	line             int // of the patch, from 1
	oldName, newName string
	oldMode, newMode filemode.FileMode // 0: not said
	copied           bool
	hunks            []hunk
	binary           *string // the whole new content
}

// A hunk replaces lines, which include those around the change.
type hunk struct {
	line     int // of the patch, from 1
	start    int // of old, from 0
	old, new []string
}

// apply records what the edit removes from the tree and what it makes.
func (f *fileEdit) apply(before Tree, removed map[string]bool, made map[string]entry) error {
	var e entry
	old := ""
	if f.oldName == "" {
		e.mode = cmp.Or(f.newMode, filemode.Regular)
	} else {
		found := find(before.entries, f.oldName)
		switch {
		case found == nil:
			return fmt.Errorf("%s does not exist", printable(f.oldName))
		case found.blob == nil:
			return found.absent()
		case f.oldMode != 0 && f.oldMode != found.mode:
			return fmt.Errorf("%s has mode %o, the patch says %o", printable(f.oldName), uint32(found.mode), uint32(f.oldMode))
		}
		e.mode = cmp.Or(f.newMode, found.mode)
		var err error
		if old, err = found.blob.load(); err != nil {
			return err
		}
		if !f.copied && removed[f.oldName] {
			return fmt.Errorf("%s is changed twice", printable(f.oldName))
		}
		removed[f.oldName] = removed[f.oldName] || !f.copied
	}
	new, err := f.content(old)
	if err != nil {
		return err
	}
	if f.newName == "" {
		if new != "" {
			return fmt.Errorf("%s is deleted, but the patch leaves lines in it", printable(f.oldName))
		}
		return nil
	}
	if _, twice := made[f.newName]; twice {
		return fmt.Errorf("%s is changed twice", printable(f.newName))
	}
	e.path, e.size, e.blob = f.newName, int64(len(new)), &blob{text: new}
	made[f.newName] = e
	return nil
}

// content applies the hunks.
func (f *fileEdit) content(old string) (string, error) {
	if f.binary != nil {
		return *f.binary, nil
	}
	if len(f.hunks) == 0 {
		return old, nil
	}
	var new strings.Builder
	lines, at := splitLines(old), 0
	for _, h := range f.hunks {
		if h.start < at || h.start+len(h.old) > len(lines) || !slices.Equal(lines[h.start:h.start+len(h.old)], h.old) {
			return "", fmt.Errorf("the hunk in line %d does not fit %s", h.line, printable(cmp.Or(f.oldName, f.newName)))
		}
		for _, part := range [][]string{lines[at:h.start], h.new} {
			for _, line := range part {
				new.WriteString(line)
			}
		}
		at = h.start + len(h.old)
	}
	for _, line := range lines[at:] {
		new.WriteString(line)
	}
	return new.String(), nil
}

// A parser reads a patch. Hunks end where their headers say: what a line looks like does not matter.
type parser struct {
	lines []string
	at    int
}

func (p *parser) line() string {
	if p.at < len(p.lines) {
		return p.lines[p.at]
	}
	return ""
}

// cut returns what follows a prefix of the current line, without the line feed.
func (p *parser) cut(prefix string) (string, bool) {
	return strings.CutPrefix(strings.TrimSuffix(p.line(), "\n"), prefix)
}

func (p *parser) parse() ([]fileEdit, error) {
	var edits []fileEdit
	for p.at < len(p.lines) {
		f := fileEdit{line: p.at + 1}
		names, isGit := p.cut("diff --git ")
		switch {
		case isGit:
			p.at++
			if err := p.gitHeader(&f, names); err != nil {
				return nil, err
			}
		case p.atNames():
			if err := p.names(&f); err != nil {
				return nil, err
			}
		case strings.HasPrefix(p.line(), "@@ "):
			return nil, fmt.Errorf("the hunk belongs to no file")
		default:
			p.at++ // a commit message and the like
			continue
		}
		if err := p.hunks(&f); err != nil {
			return nil, err
		}
		for _, name := range []string{f.oldName, f.newName} {
			if name != "" && !safe(name) {
				return nil, fmt.Errorf("%q is not a path that a patch may touch", name)
			}
		}
		if f.oldName == "" && f.newName == "" {
			return nil, fmt.Errorf("the patch names no file")
		}
		edits = append(edits, f)
	}
	return edits, nil
}

// atNames tells whether the two lines of a plain diff that name the files come next.
func (p *parser) atNames() bool {
	return strings.HasPrefix(p.line(), "--- ") && p.at+1 < len(p.lines) && strings.HasPrefix(p.lines[p.at+1], "+++ ")
}

// gitHeader reads the lines from behind diff --git to the hunks.
func (p *parser) gitHeader(f *fileEdit, names string) error {
	if oldName, newName, ok := splitNames(names); ok {
		f.oldName, f.newName = oldName, newName
	}
	created, deleted := false, false
	var err error
	for more := true; more && err == nil; {
		switch keyword, value := header(strings.TrimSuffix(p.line(), "\n")); keyword {
		case "old mode":
			f.oldMode, err = parseMode(value)
		case "new mode":
			f.newMode, err = parseMode(value)
		case "new file mode":
			created = true
			f.newMode, err = parseMode(value)
		case "deleted file mode":
			deleted = true
			f.oldMode, err = parseMode(value)
		case "rename from", "copy from":
			f.oldName, err = unquote(value)
			f.copied = keyword == "copy from"
		case "rename to", "copy to":
			f.newName, err = unquote(value)
		case "Binary files":
			err = fmt.Errorf("the patch does not hold the content of a binary file; make it with git diff --binary")
		case "":
			more = false
			continue
		}
		p.at++
	}
	switch {
	case err != nil:
		p.at--
		return err
	case p.line() == "GIT binary patch\n":
		p.at++
		err = p.binary(f)
	case p.atNames():
		err = p.names(f)
	}
	if created {
		f.oldName = ""
	}
	if deleted {
		f.newName = ""
	}
	return err
}

// header splits one of git's header lines.
func header(line string) (keyword, value string) {
	for _, k := range []string{
		"old mode", "new mode", "new file mode", "deleted file mode", "rename from", "rename to", "copy from", "copy to",
		"index", "similarity index", "dissimilarity index", "Binary files",
	} {
		if value, ok := strings.CutPrefix(line, k+" "); ok {
			return k, value
		}
	}
	return "", ""
}

func parseMode(text string) (filemode.FileMode, error) {
	switch text {
	case "100644":
		return filemode.Regular, nil
	case "100755":
		return filemode.Executable, nil
	case "120000":
		return filemode.Symlink, nil
	}
	return 0, fmt.Errorf("mode %q is not that of a file or link", text)
}

// names reads the two lines above the hunks.
func (p *parser) names(f *fileEdit) error {
	for _, side := range []struct {
		prefix string
		name   *string
	}{{"--- ", &f.oldName}, {"+++ ", &f.newName}} {
		text, _ := p.cut(side.prefix)
		if !strings.HasPrefix(text, `"`) {
			text, _, _ = strings.Cut(text, "\t") // a time may follow
		}
		name, err := unquote(text)
		if err != nil {
			return err
		}
		*side.name = ""
		if name != "/dev/null" {
			_, rest, ok := strings.Cut(name, "/")
			if !ok {
				return fmt.Errorf("%q has no folder in front, such as a/ or b/", name)
			}
			*side.name = rest
		}
		p.at++
	}
	return nil
}

// splitNames reads the names of a diff --git line, which are only certain when both are the same or quoted.
func splitNames(text string) (oldName, newName string, ok bool) {
	var first, second string
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		first, second = quoted, strings.TrimPrefix(text[len(quoted):], " ")
	} else if half := len(text) / 2; len(text)%2 == 1 && text[half] == ' ' {
		first, second = text[:half], text[half+1:]
	}
	first, err := unquote(first)
	if err != nil {
		return "", "", false
	}
	second, err = unquote(second)
	if err != nil {
		return "", "", false
	}
	_, oldName, hasOld := strings.Cut(first, "/")
	_, newName, hasNew := strings.Cut(second, "/")
	return oldName, newName, hasOld && hasNew
}

func unquote(name string) (string, error) {
	if !strings.HasPrefix(name, `"`) {
		return name, nil
	}
	plain, err := strconv.Unquote(name)
	if err != nil {
		return "", fmt.Errorf("the quoted name %s is broken", name)
	}
	return plain, nil
}

// safe tells whether a path stays in the tree and out of every .git.
func safe(name string) bool {
	return fs.ValidPath(strings.ToValidUTF8(name, "?")) && name != "." && !slices.Contains(strings.Split(name, "/"), ".git")
}

// hunks reads the hunks of a file.
func (p *parser) hunks(f *fileEdit) error {
	for strings.HasPrefix(p.line(), "@@ ") {
		h := hunk{line: p.at + 1}
		oldLines, newLines, err := h.parseHeader(p.line())
		if err != nil {
			return err
		}
		p.at++
		for oldLines > len(h.old) || newLines > len(h.new) {
			if err := p.hunkLine(&h); err != nil {
				return err
			}
		}
		if len(h.old) > oldLines || len(h.new) > newLines {
			return fmt.Errorf("the hunk in line %d has more lines than it says", h.line)
		}
		if p.isStray() {
			return fmt.Errorf("the hunk in line %d has more lines than it says", h.line)
		}
		f.hunks = append(f.hunks, h)
	}
	return nil
}

// isStray tells whether the line behind a hunk looks like one more of it. "-- " starts the signature of a mail.
func (p *parser) isStray() bool {
	line := p.line()
	return line != "" && strings.Contains("+- ", line[:1]) && line != "-- \n" && !p.atNames()
}

// hunkLine reads one line of a hunk, and the remark that it has no line feed.
func (p *parser) hunkLine(h *hunk) error {
	text := p.line()
	if text == "" {
		return fmt.Errorf("the patch ends inside of the hunk in line %d", h.line)
	}
	p.at++
	sign, line := text[0], text[1:]
	if text == "\n" { // an empty line whose blank in front was lost
		sign, line = ' ', "\n"
	}
	if strings.HasPrefix(p.line(), `\ `) {
		line = strings.TrimSuffix(line, "\n")
		p.at++
	}
	switch sign {
	case ' ':
		h.old, h.new = append(h.old, line), append(h.new, line)
	case '-':
		h.old = append(h.old, line)
	case '+':
		h.new = append(h.new, line)
	default:
		p.at--
		return fmt.Errorf("the hunk in line %d has fewer lines than it says", h.line)
	}
	return nil
}

// parseHeader reads "@@ -START,LINES +START,LINES @@".
func (h *hunk) parseHeader(line string) (oldLines, newLines int, err error) {
	fields := strings.Fields(line)
	if len(fields) < 4 || fields[3] != "@@" || fields[1][0] != '-' || fields[2][0] != '+' {
		return 0, 0, fmt.Errorf("the hunk header %q is broken", strings.TrimSpace(line))
	}
	start, oldLines, okOld := parseSpan(fields[1][1:])
	_, newLines, okNew := parseSpan(fields[2][1:])
	if !okOld || !okNew || start == 0 && oldLines > 0 || oldLines+newLines == 0 {
		return 0, 0, fmt.Errorf("the hunk header %q is broken", strings.TrimSpace(line))
	}
	if h.start = start; oldLines > 0 {
		h.start-- // an empty span is named by the line before it
	}
	return oldLines, newLines, nil
}

func parseSpan(text string) (start, lines int, ok bool) {
	first, second, found := strings.Cut(text, ",")
	a, err := strconv.ParseUint(first, 10, 31)
	if err != nil {
		return 0, 0, false
	}
	b := uint64(1)
	if found {
		b, err = strconv.ParseUint(second, 10, 31)
	}
	return int(a), int(b), err == nil
}

// binary reads the whole new content of a file, and passes over the old one.
func (p *parser) binary(f *fileEdit) error {
	for _, into := range []**string{&f.binary, new(*string)} {
		text, ok := p.cut("literal ")
		if !ok {
			if into == &f.binary {
				return fmt.Errorf("a binary patch that holds a difference cannot be read; make it with the whole content")
			}
			return p.skipBinary()
		}
		size, err := strconv.ParseUint(text, 10, 31)
		if err != nil || size > maxText {
			return fmt.Errorf("the size %q of a binary file is broken or above %d", text, maxText)
		}
		p.at++
		var packed []byte
		for ; p.at < len(p.lines) && p.line() != "\n"; p.at++ {
			if packed, err = appendBase85(packed, strings.TrimSuffix(p.line(), "\n")); err != nil {
				return err
			}
		}
		p.at++
		z, err := zlib.NewReader(bytes.NewReader(packed))
		if err != nil {
			return fmt.Errorf("the content of a binary file is broken: %w", err)
		}
		content, err := io.ReadAll(io.LimitReader(z, int64(size)+1))
		if err != nil || uint64(len(content)) != size {
			return fmt.Errorf("the content of a binary file is broken: %d of %d bytes", len(content), size)
		}
		whole := string(content)
		*into = &whole
	}
	return nil
}

// skipBinary passes over the way back, which may hold a difference.
func (p *parser) skipBinary() error {
	if !strings.HasPrefix(p.line(), "delta ") {
		return nil
	}
	for p.at < len(p.lines) && p.line() != "\n" {
		p.at++
	}
	return nil
}

// appendBase85 reads one line of what base85Writer writes.
func appendBase85(to []byte, line string) ([]byte, error) {
	broken := fmt.Errorf("the line of a binary file is broken")
	if line == "" || len(line)%5 != 1 {
		return nil, broken
	}
	size := 0
	switch c := line[0]; {
	case c >= 'A' && c <= 'Z':
		size = int(c-'A') + 1
	case c >= 'a' && c <= 'z':
		size = int(c-'a') + 27
	}
	if (size+3)/4*5 != len(line)-1 || size == 0 {
		return nil, broken
	}
	end := len(to) + size
	for digits := line[1:]; digits != ""; digits = digits[5:] {
		word := uint64(0)
		for i := range 5 {
			d := strings.IndexByte(base85Digits, digits[i])
			if d < 0 {
				return nil, broken
			}
			word = word*85 + uint64(d)
		}
		if word > 1<<32-1 {
			return nil, broken
		}
		to = append(to, byte(word>>24), byte(word>>16), byte(word>>8), byte(word))
	}
	return to[:end], nil
}
