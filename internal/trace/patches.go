package trace

import (
	"bytes"
	"strconv"
	"strings"
)

// The marks of the patch language of apply_patch. A path or nothing stands behind each.
const (
	patchBegin  = "*** Begin Patch"
	patchEnd    = "*** End Patch"
	patchAdd    = "*** Add File: "
	patchDelete = "*** Delete File: "
	patchUpdate = "*** Update File: "
	patchMove   = "*** Move to: "
	patchEOF    = "*** End of File"
)

// noNewline starts the line of a unified diff that says that the line before it ends without a line feed.
const noNewline = `\ `

// A patchReader turns the lines of a patch into edits. It is strict: a line that it does not know ends the reading, since
// what is left of a patch that was cut says less than was done.
type patchReader struct {
	lines    []string // that are left
	path     string   // of the file whose changes are being read; empty between files
	created  bool     // the file did not exist before
	old, new []byte   // of one place in the file
	mark     byte     // of the last line
	edits    []Edit
}

func (p *patchReader) add(e Edit) { p.edits = append(p.edits, e) }

// next takes one line.
func (p *patchReader) next() string {
	line := p.lines[0]
	p.lines = p.lines[1:]
	return line
}

// hunk ends the lines that were gathered of one place in the file.
func (p *patchReader) hunk() {
	old, new := string(p.old), string(p.new)
	p.old, p.new = p.old[:0], p.new[:0]
	switch {
	case old == new:
	case p.created && old == "":
		p.add(Edit{Op: EditWrite, Path: p.path, New: new})
	default:
		p.add(Edit{Op: EditReplace, Path: p.path, Old: old, New: new})
	}
}

// gather takes a line that starts with a blank, a minus or a plus. An empty one is an empty line that did not change.
func (p *patchReader) gather(line string) bool {
	if line == "" {
		line = " "
	}
	p.mark = line[0]
	if p.mark != ' ' && p.mark != '-' && p.mark != '+' {
		return false
	}
	if p.mark != '+' {
		p.old = append(append(p.old, line[1:]...), '\n')
	}
	if p.mark != '-' {
		p.new = append(append(p.new, line[1:]...), '\n')
	}
	return true
}

// unended takes the line feed of the last line back.
func (p *patchReader) unended() {
	if p.mark != '+' {
		p.old = bytes.TrimSuffix(p.old, []byte("\n"))
	}
	if p.mark != '-' {
		p.new = bytes.TrimSuffix(p.new, []byte("\n"))
	}
}

// patch reads the patch language, from behind its first line to its end.
func (p *patchReader) patch() (edits []Edit, ok bool) {
	for len(p.lines) > 0 {
		line := p.next()
		switch {
		case line == patchEnd:
			p.hunk()
			return p.edits, len(p.edits) > 0
		case strings.HasPrefix(line, "*** "):
			p.hunk()
			if !p.file(line) {
				return nil, false
			}
		case p.path == "":
			return nil, false
		case strings.HasPrefix(line, "@@"):
			p.hunk()
		case !p.gather(line):
			return nil, false
		}
	}
	return nil, false
}

// file reads a line that tells which file comes next, and all of a new file.
func (p *patchReader) file(line string) bool {
	if line == patchEOF {
		return p.path != ""
	}
	if to, ok := strings.CutPrefix(line, patchMove); ok && p.path != "" {
		p.add(Edit{Op: EditMove, Path: p.path, To: to})
		p.path = to
		return true
	}
	if name, ok := strings.CutPrefix(line, patchUpdate); ok {
		p.path = name
		return name != ""
	}
	p.path = ""
	if name, ok := strings.CutPrefix(line, patchDelete); ok {
		p.add(Edit{Op: EditDelete, Path: name})
		return name != ""
	}
	name, ok := strings.CutPrefix(line, patchAdd)
	if !ok || name == "" {
		return false
	}
	p.add(Edit{Op: EditWrite, Path: name, New: p.added()})
	return true
}

// added takes the lines of a new file.
func (p *patchReader) added() string {
	var text strings.Builder
	for len(p.lines) > 0 && strings.HasPrefix(p.lines[0], "+") {
		text.WriteString(p.next()[1:] + "\n")
	}
	return text.String()
}

// unified reads a unified diff. Names come from its headers, unless the path is known already.
func (p *patchReader) unified() (edits []Edit, ok bool) {
	known := p.path != ""
	for len(p.lines) > 0 {
		line := p.next()
		switch {
		case strings.HasPrefix(line, "--- ") && len(p.lines) > 0 && strings.HasPrefix(p.lines[0], "+++ "):
			old, new := line[len("--- "):], p.next()[len("+++ "):]
			p.created = strings.HasPrefix(old, "/dev/null")
			if !known {
				p.path = patchName(old, new)
			}
		case strings.HasPrefix(line, "@@ ") && p.path != "":
			if !p.unifiedHunk(line) {
				return nil, false
			}
		case !isHeader(line):
			return nil, false
		}
	}
	return p.edits, len(p.edits) > 0
}

// unifiedHunk reads one hunk, of as many lines as its first line says.
func (p *patchReader) unifiedHunk(header string) bool {
	old, new, ok := hunkSizes(header)
	if !ok {
		return false
	}
	for len(p.lines) > 0 && (old > 0 || new > 0 || strings.HasPrefix(p.lines[0], noNewline)) {
		line := p.next()
		if strings.HasPrefix(line, noNewline) {
			p.unended()
			continue
		}
		if !p.gather(line) {
			return false
		}
		if p.mark != '+' {
			old--
		}
		if p.mark != '-' {
			new--
		}
	}
	p.hunk()
	return old == 0 && new == 0
}

// hunkSizes reads "@@ -12,3 +12,4 @@"; a size that is not there is 1.
func hunkSizes(header string) (old, new int, ok bool) {
	fields := strings.Fields(header)
	if len(fields) < 4 || fields[3] != "@@" {
		return 0, 0, false
	}
	old, okOld := rangeSize(fields[1], "-")
	new, okNew := rangeSize(fields[2], "+")
	return old, new, okOld && okNew
}

func rangeSize(field, mark string) (int, bool) {
	field, ok := strings.CutPrefix(field, mark)
	_, size, said := strings.Cut(field, ",")
	if !said {
		size = "1"
	}
	n, err := strconv.Atoi(size)
	return n, ok && err == nil && n >= 0
}

// patchName is the path that two header names stand for. A letter and a slash in front of both, as git writes them, go.
func patchName(old, new string) string {
	old, _, _ = strings.Cut(old, "\t")
	new, _, _ = strings.Cut(new, "\t")
	o, okOld := strings.CutPrefix(old, "a/")
	n, okNew := strings.CutPrefix(new, "b/")
	switch {
	case old == "/dev/null" && okNew, okOld && okNew && o == n:
		return n
	case new == "/dev/null" && okOld:
		return o
	case new == "/dev/null":
		return old
	}
	return new
}

// isHeader tells whether a line between the hunks says nothing that we need.
func isHeader(line string) bool {
	for _, start := range []string{"Index: ", "====", "diff ", "index ", "new file mode ", "deleted file mode "} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return line == ""
}
