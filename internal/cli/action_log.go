package cli

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/assay-ci/assay/internal/redact"
)

// A stepLog is the log of a step of GitHub Actions, where a line may be a command to the runner. What assay prints may quote
// agents, suites and models, so commands are switched off under a word that nobody can guess, and every printed line is
// marked. Only command is obeyed.
type stepLog struct {
	mu      sync.Mutex
	w       io.Writer
	secrets *redact.Redactor // that no printed line holds
	stop    string           // the word that switches commands on again
}

// newStepLog takes over the log. Close it to give it back.
func newStepLog(w io.Writer, secrets *redact.Redactor) *stepLog {
	l := &stepLog{w: w, secrets: secrets}
	l.stop = rand.Text()
	fmt.Fprintf(w, "::stop-commands::%s\n", l.stop)
	return l
}

func (l *stepLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "::%s::\n", l.stop)
}

// command writes lines that the runner obeys.
func (l *stepLog) command(lines string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.stop
	l.stop = rand.Text() // a word that was used has been read by whoever sees the log
	fmt.Fprintf(l.w, "::%s::\n%s\n::stop-commands::%s\n", said, strings.TrimRight(lines, "\n"), l.stop)
}

// commands is the log as a writer of commands.
type commands struct{ log *stepLog }

func (c commands) Write(p []byte) (int, error) {
	c.log.command(string(p))
	return len(p), nil
}

// A printed stream is what anything else is printed to: marked line by line, and never a command.
type printed struct {
	log  *stepLog
	mu   sync.Mutex
	line []byte // begun and not ended
}

// longestLine is where a line without an end is broken, in bytes.
const longestLine = 64 << 10

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, b...)
	for {
		end := bytes.IndexByte(p.line, '\n')
		if end < 0 && len(p.line) < longestLine {
			return len(b), nil
		}
		if end < 0 {
			end = len(p.line) - 1
		}
		p.log.print(p.line[:end+1])
		p.line = p.line[end+1:]
	}
}

// flush prints a line that nobody ended.
func (p *printed) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.line) > 0 {
		p.log.print(p.line)
		p.line = nil
	}
}

// print prints one line of which nothing is obeyed: by the runner, by a terminal, or by whoever reads it.
func (l *stepLog) print(line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.w, "│ %s\n", plainLine(l.secrets.String(strings.TrimRight(string(line), "\r\n"))))
}
