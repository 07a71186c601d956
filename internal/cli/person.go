package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/assay-ci/assay/internal/suite"
	"golang.org/x/term"
)

// A person answers agents on the terminal of a call. Whatever else is to be printed there goes through Write, which waits
// while a question stands on the screen.
type person struct {
	out    io.Writer
	screen chan struct{} // holds a value from a question to its answer, and during each Write
	gone   chan struct{} // closed when no line can come any more

	mu   sync.Mutex
	want chan string // of who waits for a line; nil: nobody does
}

// seat gives the policy of the suite the terminal of the call when it is one by which a person decides. Then one cell runs
// at a time, and what is printed goes through the person. The error is a fault of the suite: here nobody can be asked.
func (w *work) seat(x IO, jobs int) (IO, int, error) {
	if !w.kit.AsksPerson() {
		return x, jobs, nil
	}
	in, isIn := x.In.(*os.File)
	_, isOut := terminal(x.Err)
	why := ""
	switch {
	case x.getenv("GITHUB_ACTIONS") == "true":
		why = "in GitHub Actions nobody is there to be asked"
	case !isIn || !isOut || !term.IsTerminal(int(in.Fd())):
		why = "standard input and standard error are not both a terminal"
	}
	if policy := w.suite.Interaction; why != "" {
		fault := policy.Fault("policy", "policy "+policy.Kind+" has a person answer, and "+why, "run it on a terminal, or use another policy")
		return x, jobs, w.project.relate(suite.Flatten(fault))
	}
	p := newPerson(in, x.Err)
	w.kit.UseTerminal(p.ask)
	if jobs > 1 {
		fmt.Fprintln(x.Err, "A person answers the agents, so one cell runs at a time.")
	}
	x.Err = p
	return x, 1, nil
}

// newPerson reads lines from in until that ends.
func newPerson(in io.Reader, out io.Writer) *person {
	p := &person{out: out, screen: make(chan struct{}, 1), gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			p.typed(lines.Text())
		}
	}()
	return p
}

// typed hands a line to who waits for one. What was typed before the question was on the screen is no answer to it.
func (p *person) typed(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.want != nil {
		p.want <- line
		p.want = nil
	}
}

// listen has the next line that is typed sent to the channel it returns; nil is nobody.
func (p *person) listen(to chan string) <-chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want = to
	return to
}

// ask is a responder.Terminal.
func (p *person) ask(ctx context.Context, text string) (string, error) {
	p.screen <- struct{}{}
	defer func() { <-p.screen }()
	lines := p.listen(make(chan string, 1))
	defer p.listen(nil)
	if _, err := io.WriteString(p.out, "\n"+text); err != nil {
		return "", err
	}
	select {
	case line := <-lines:
		return line, nil
	case <-p.gone:
		return "", errors.New("its input has ended")
	case <-ctx.Done():
		io.WriteString(p.out, "\n(this is not asked any more)\n")
		return "", ctx.Err()
	}
}

// Write implements io.Writer.
func (p *person) Write(b []byte) (int, error) {
	p.screen <- struct{}{}
	defer func() { <-p.screen }()
	return p.out.Write(b)
}
