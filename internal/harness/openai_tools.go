package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/trace"
)

// openaiVersion is the version of the texts below, which shape what a model does as much as its own name. Raise it with
// every change of them: it is a part of the key of every cell.
const openaiVersion = "1"

const openaiPrompt = `You are a coding agent. Do the task of the user by using your tools, then answer with a short summary of
what you did. An answer without a tool call ends your work, so do not stop half-way and do not ask for confirmation.
Look at the files before you change them, change no more than the task needs, and check your work by running it where
that is possible.

Working directory: %s`

const openaiTools = `[
{"type":"function","function":{"name":"bash","description":"Run a command line in the work folder and return what it prints. It gets no input, and whatever it leaves running is ended when it returns.","parameters":{"type":"object","properties":{"command":{"type":"string"},"timeout":{"type":"integer","minimum":1,"maximum":600,"description":"seconds, 120 by default"}},"required":["command"]}}},
{"type":"function","function":{"name":"read","description":"Read a text file.","parameters":{"type":"object","properties":{"path":{"type":"string","description":"below the work folder"},"from":{"type":"integer","minimum":1,"description":"first line, 1 by default"},"lines":{"type":"integer","minimum":1,"description":"number of lines, 2000 by default"}},"required":["path"]}}},
{"type":"function","function":{"name":"write","description":"Write a file: make it, or replace all of it. Folders on the way are made.","parameters":{"type":"object","properties":{"path":{"type":"string","description":"below the work folder"},"content":{"type":"string","description":"the whole new content"}},"required":["path","content"]}}},
{"type":"function","function":{"name":"edit","description":"Replace a text in a file. The old text must stand in the file exactly once, white space included.","parameters":{"type":"object","properties":{"path":{"type":"string","description":"below the work folder"},"old":{"type":"string"},"new":{"type":"string"}},"required":["path","old","new"]}}},
{"type":"function","function":{"name":"grep","description":"Find lines in the files of the work folder.","parameters":{"type":"object","properties":{"pattern":{"type":"string","description":"extended regular expression"},"glob":{"type":"string","description":"only files whose name matches, such as *.py"}},"required":["pattern"]}}},
{"type":"function","function":{"name":"list","description":"List a folder. Names of folders end with a slash.","parameters":{"type":"object","properties":{"path":{"type":"string","description":"the work folder by default"}}}}}
]`

func openaiToolNames() []string { return []string{"bash", "read", "write", "edit", "grep", "list"} }

// openaiToolKind is the kind of one of our tools. A name that a model made up has none.
func openaiToolKind(name string) trace.ToolKind {
	for _, known := range openaiToolNames() {
		if name == known {
			return trace.KindOfTool(name)
		}
	}
	return trace.ToolOther
}

const (
	maxCommand   = 100 << 10 // bytes of a command line: the system takes 128 KiB of one argument
	bashPatience = 120       // seconds
	readLines    = 2000
	grepPatience = time.Minute
)

type (
	bashArgs struct {
		Command string `json:"command"`
		Timeout int    `json:"timeout"`
	}
	readArgs struct {
		Path  string `json:"path"`
		From  int    `json:"from"`
		Lines int    `json:"lines"`
	}
	writeArgs struct {
		Path    string  `json:"path"`
		Content *string `json:"content"`
	}
	editArgs struct {
		Path string  `json:"path"`
		Old  string  `json:"old"`
		New  *string `json:"new"`
	}
	grepArgs struct {
		Pattern string `json:"pattern"`
		Glob    string `json:"glob"`
	}
	listArgs struct {
		Path string `json:"path"`
	}
)

// A toolUse does one call and fills its result, which is ok unless it says otherwise. The error is ours.
type toolUse func(ctx context.Context, r *trace.Tool) error

// tool makes a call ready to be done. why tells the model what is wrong with the call itself.
func (l *loop) tool(name, arguments string) (do toolUse, why string) {
	switch name {
	case "bash":
		a := bashArgs{Timeout: bashPatience}
		return func(ctx context.Context, r *trace.Tool) error { return l.bash(ctx, a, r) }, readArguments(arguments, &a)
	case "read":
		a := readArgs{From: 1, Lines: readLines}
		return func(ctx context.Context, r *trace.Tool) error { return l.read(ctx, a, r) }, readArguments(arguments, &a)
	case "write":
		var a writeArgs
		return func(_ context.Context, r *trace.Tool) error { l.write(a, r); return nil }, readArguments(arguments, &a)
	case "edit":
		var a editArgs
		return func(_ context.Context, r *trace.Tool) error { l.edit(a, r); return nil }, readArguments(arguments, &a)
	case "grep":
		var a grepArgs
		return func(ctx context.Context, r *trace.Tool) error { return l.grep(ctx, a, r) }, readArguments(arguments, &a)
	case "list":
		a := listArgs{Path: "."}
		return func(_ context.Context, r *trace.Tool) error { l.list(a, r); return nil }, readArguments(arguments, &a)
	}
	return nil, fmt.Sprintf("There is no tool %q. The tools are %s.", trace.Shorten(name, 100), strings.Join(openaiToolNames(), ", "))
}

// readArguments decodes the arguments of a call and says what is wrong with them. Keys that the tool does not have are
// passed over.
func readArguments[A interface{ check() string }](text string, into *A) string {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return "The arguments are not the JSON of this tool: " + err.Error()
	}
	return (*into).check()
}

func missing(name string) string { return "The argument " + name + " is missing." }

func (a bashArgs) check() string {
	switch {
	case strings.TrimSpace(a.Command) == "":
		return missing("command")
	case len(a.Command) > maxCommand || strings.ContainsRune(a.Command, 0):
		return fmt.Sprintf("A command has at most %d bytes and no NUL character; write a file and run that.", maxCommand)
	case a.Timeout < 1 || a.Timeout > 600:
		return "The timeout is 1 to 600 seconds."
	}
	return ""
}

func (a readArgs) check() string {
	switch {
	case a.Path == "":
		return missing("path")
	case a.From < 1 || a.Lines < 1:
		return "Lines are counted from 1."
	}
	return ""
}

func (a writeArgs) check() string {
	switch {
	case a.Path == "":
		return missing("path")
	case a.Content == nil:
		return missing("content")
	}
	return ""
}

func (a editArgs) check() string {
	switch {
	case a.Path == "":
		return missing("path")
	case a.Old == "":
		return missing("old")
	case a.New == nil:
		return missing("new")
	}
	return ""
}

func (a grepArgs) check() string {
	switch {
	case a.Pattern == "":
		return missing("pattern")
	case len(a.Pattern)+len(a.Glob) > maxCommand || strings.ContainsRune(a.Pattern+a.Glob, 0):
		return "The pattern is too long or holds a NUL character."
	}
	return ""
}

func (listArgs) check() string { return "" }

// inWork turns a path of the model into one of the executor's files. ok is false when r has become a failure. Links are
// the executor's to judge: it follows none.
func (l *loop) inWork(name string, r *trace.Tool) (rel string, ok bool) {
	rel = path.Clean(name)
	if path.IsAbs(name) {
		var err error
		if rel, err = filepath.Rel(l.s.task.Work, rel); err != nil {
			rel = ".."
		}
	}
	if !filepath.IsLocal(rel) {
		fail(r, "%s is outside the work folder.", name)
		return "", false
	}
	return rel, true
}

// bash runs a command line. One stream for both outputs, so that the lines keep their order.
func (l *loop) bash(ctx context.Context, a bashArgs, r *trace.Tool) error {
	const script = `if command -v bash >/dev/null 2>&1; then exec bash -c "$1" 2>&1; fi; exec sh -c "$1" 2>&1`
	ex, err := l.command(ctx, time.Duration(a.Timeout)*time.Second, r, "sh", "-c", script, "sh", a.Command)
	if err != nil {
		return err
	}
	if ex.Signal == "" {
		r.Exit = &ex.Code
	}
	if ex.Code != 0 {
		r.Status = trace.StatusError
		r.Output += fmt.Sprintf("\n[exit %d]", ex.Code)
	}
	return nil
}

// command runs a program in the work folder and puts what it printed into r.
func (l *loop) command(ctx context.Context, patience time.Duration, r *trace.Tool, argv ...string) (executor.Exit, error) {
	printed := trace.NewExcerpt()
	ex, err := l.s.task.Exec.Run(ctx, executor.Command{
		Argv: argv, Env: l.s.task.Env, Stdout: printed, Stderr: printed, Timeout: patience, Grace: l.s.task.Limits.Grace,
	})
	if err != nil {
		return ex, err
	}
	l.survivors, l.swept = append(l.survivors, ex.Survivors...), l.swept+ex.Swept
	r.Output, r.Duration = shown(printed.String()), ex.Took
	if note := howEnded(ex); note != "" {
		r.Status = trace.StatusError
		r.Output += "\n[" + note + "]"
	}
	return ex, nil
}

func (l *loop) read(ctx context.Context, a readArgs, r *trace.Tool) error {
	if skills := l.s.task.Extras.SkillsDir; skills != "" && strings.HasPrefix(path.Clean(a.Path), skills+"/") {
		return l.readSkill(ctx, path.Clean(a.Path), r)
	}
	name, ok := l.inWork(a.Path, r)
	if !ok {
		return nil
	}
	if content, _, ok := l.load(name, r); ok {
		r.Output = cutLines(content, a.From, a.Lines)
	}
	return nil
}

// readSkill reads a file of the condition's skills, which lie outside the work folder.
func (l *loop) readSkill(ctx context.Context, name string, r *trace.Tool) error {
	ex, err := l.command(ctx, time.Minute, r, "sh", "-c", `[ ! -L "$1" ] && cat -- "$1"`, "sh", name)
	if err == nil && ex.Code != 0 {
		r.Status = trace.StatusError
		r.Output += "\n[it cannot be read]"
	}
	return err
}

// cutLines returns n lines of a text beginning with line from, and says how many there are when it is not all of them.
func cutLines(content []byte, from, n int) string {
	total := bytes.Count(content, []byte("\n"))
	if len(content) > 0 && content[len(content)-1] != '\n' {
		total++
	}
	_, rest := splitLines(content, from-1)
	part, rest := splitLines(rest, n)
	x := trace.NewExcerpt()
	x.Write(part) // never fails
	if len(part) == len(content) {
		return shown(x.String())
	}
	last := total - bytes.Count(rest, []byte("\n"))
	if len(rest) > 0 && rest[len(rest)-1] != '\n' {
		last--
	}
	return fmt.Sprintf("%s\n[lines %d to %d of %d]", shown(strings.TrimSuffix(x.String(), "\n")), min(from, total+1), last, total)
}

// splitLines cuts a text after its first n lines.
func splitLines(text []byte, n int) (head, rest []byte) {
	at := 0
	for ; n > 0 && at < len(text); n-- {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return text, nil
		}
		at += i + 1
	}
	return text[:at], text[at:]
}

// load reads a file of the work folder with its permissions. ok is false when r has become a failure.
func (l *loop) load(name string, r *trace.Tool) (content []byte, mode fs.FileMode, ok bool) {
	f, err := l.s.task.Exec.Files().Open(name)
	if err != nil {
		fail(r, "%v", err)
		return nil, 0, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		content, err = io.ReadAll(f)
	}
	if err != nil {
		fail(r, "%v", err)
		return nil, 0, false
	}
	return content, info.Mode().Perm(), true
}

// write replaces a file or makes it. A file that is there keeps its permissions; what is no file stays.
func (l *loop) write(a writeArgs, r *trace.Tool) {
	name, ok := l.inWork(a.Path, r)
	if !ok {
		return
	}
	mode := fs.FileMode(0o644)
	f, err := l.s.task.Exec.Files().Open(name)
	if err == nil {
		if info, err := f.Stat(); err == nil {
			mode = info.Mode().Perm()
		}
		f.Close()
	} else if !errors.Is(err, fs.ErrNotExist) {
		fail(r, "%v", err)
		return
	}
	l.put(name, []byte(*a.Content), mode, r)
}

func (l *loop) put(name string, content []byte, mode fs.FileMode, r *trace.Tool) {
	if err := l.s.task.Exec.Files().Put(name, bytes.NewReader(content), mode); err != nil {
		fail(r, "%v", err)
		return
	}
	r.Output = fmt.Sprintf("%s now has %d bytes.", name, len(content))
}

func (l *loop) edit(a editArgs, r *trace.Tool) {
	name, ok := l.inWork(a.Path, r)
	if !ok {
		return
	}
	content, mode, ok := l.load(name, r)
	if !ok {
		return
	}
	if n := bytes.Count(content, []byte(a.Old)); n != 1 {
		fail(r, "%s holds the old text %d times, not once. Nothing was changed.", name, n)
		return
	}
	l.put(name, bytes.Replace(content, []byte(a.Old), []byte(*a.New), 1), mode, r)
}

func (l *loop) grep(ctx context.Context, a grepArgs, r *trace.Tool) error {
	argv := []string{"grep", "-rnIE", "--exclude-dir=.git"} // -r follows no links
	if a.Glob != "" {
		argv = append(argv, "--include="+a.Glob)
	}
	ex, err := l.command(ctx, grepPatience, r, append(argv, "-e", a.Pattern, "--", ".")...)
	switch {
	case err != nil:
		return err
	case ex.Code == 1 && ex.Out == 0:
		r.Output = "No line matches."
	case ex.Code > 1 && ex.Out == 0:
		r.Status = trace.StatusError
	}
	return nil
}

func (l *loop) list(a listArgs, r *trace.Tool) {
	dir, ok := l.inWork(or(a.Path, "."), r)
	if !ok {
		return
	}
	entries, err := l.s.task.Exec.Files().List(dir)
	if err != nil {
		fail(r, "%v", err)
		return
	}
	text := trace.NewExcerpt()
	for _, e := range entries {
		name := strings.TrimPrefix(e.Path, dir+"/")
		if strings.Contains(name, "/") {
			continue // deeper
		}
		switch {
		case e.Mode.IsDir():
			name += "/"
		case e.Link != "":
			name += " -> " + e.Link
		}
		fmt.Fprintln(text, name)
	}
	r.Output = or(text.String(), "The folder is empty.")
}

// systemPrompt is what a model is told before the task: what it is, and the instructions and skills of the condition.
func systemPrompt(ctx context.Context, t Task) (text string, skills []string, err error) {
	text = fmt.Sprintf(openaiPrompt, t.Work)
	if file := t.Extras.InstructionsFile; file != "" {
		content, err := outOfPlace(ctx, t, `cat -- "$1"`, file)
		if err != nil {
			return "", nil, fmt.Errorf("read the instructions of condition %s: %w", t.Condition, err)
		}
		text += "\n\n# Instructions\n\n" + content
	}
	if t.Extras.SkillsDir == "" {
		return text, nil, nil
	}
	const each = `cd -- "$1" && for f in */SKILL.md; do printf '%s\0' "$f"; head -c 65536 -- "$f" | tr -d '\000'; printf '\0'; done`
	list, err := outOfPlace(ctx, t, each, t.Extras.SkillsDir)
	if err != nil {
		return "", nil, fmt.Errorf("read the skills of condition %s: %w", t.Condition, err)
	}
	text += "\n\n# Skills\n\nA skill is a folder with instructions for one kind of task. When one fits the task, read its SKILL.md first.\n"
	fields := strings.Split(list, "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		name, description := SkillHeader(fields[i+1])
		name = or(name, path.Dir(fields[i]))
		skills = append(skills, name)
		text += fmt.Sprintf("\n- %s: %s (%s)", name, description, path.Join(t.Extras.SkillsDir, fields[i]))
	}
	return text, skills, nil
}

// maxOutOfPlace is how much of the condition's files is read for the system prompt, in bytes.
const maxOutOfPlace = 1 << 20

// outOfPlace returns what a shell script printed that reads a path outside the work folder.
func outOfPlace(ctx context.Context, t Task, script, name string) (string, error) {
	var out bytes.Buffer
	said := trace.NewTail(400)
	ex, err := t.Exec.Run(ctx, executor.Command{
		Argv: []string{"sh", "-c", script, "sh", name}, Stdout: &out, Stderr: said, Timeout: time.Minute, MaxOutput: maxOutOfPlace,
	})
	switch {
	case err != nil:
		return "", err
	case ex.Code != 0:
		return "", fmt.Errorf("exit %d: %s", ex.Code, printable(said.String()))
	case ex.Truncated:
		return "", fmt.Errorf("%s: more than %d bytes", name, maxOutOfPlace)
	}
	return strings.ToValidUTF8(out.String(), "\uFFFD"), nil
}

// SkillHeader reads name and description from the head of a SKILL.md. A value may go on in indented lines.
func SkillHeader(text string) (name, description string) {
	values := map[string]string{}
	key := ""
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if lines[0] != "---" {
		return "", ""
	}
	for _, line := range lines[1:] {
		if line == "---" {
			break
		}
		if k, v, ok := strings.Cut(line, ":"); ok && line[0] != ' ' && line[0] != '\t' {
			key = k
			values[key] = strings.TrimSpace(v)
		} else if key != "" && len(values[key]) < 4<<10 {
			values[key] += " " + strings.TrimSpace(line)
		}
	}
	return scalar(values["name"]), scalar(values["description"])
}

// scalar takes the marks off a YAML text: quotes, or the sign of a block that has been folded into a line.
func scalar(text string) string {
	for _, sign := range []string{">-", "|-", ">", "|"} {
		if rest, ok := strings.CutPrefix(text, sign+" "); ok {
			return rest
		}
	}
	for _, quote := range []string{`"`, `'`} {
		if len(text) >= 2 && strings.HasPrefix(text, quote) && strings.HasSuffix(text, quote) {
			return text[1 : len(text)-1]
		}
	}
	return text
}
