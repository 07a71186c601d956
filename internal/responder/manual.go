package responder

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/assay-ci/assay/internal/trace"
)

// manual has a person decide, on a terminal.
type manual struct{ terminal Terminal }

var _ Needy = manual{}

func buildManual(s Settings) (Responder, error) {
	if err := s.Decode(&noParams{}); err != nil {
		return nil, err
	}
	return manual{}, nil
}

// Needs implements Needy.
func (manual) Needs() Needs { return Needs{Terminal: true} }

// With implements Needy.
func (manual) With(r Resources) Responder { return manual{r.Terminal} }

func (m manual) Answer(ctx context.Context, ask trace.Ask) (Reply, error) {
	if m.terminal == nil {
		return Reply{}, errors.New("manual has no terminal to ask on")
	}
	if isQuestion(ask) {
		return m.questions(ctx, ask)
	}
	return m.permission(ctx, ask)
}

func (m manual) permission(ctx context.Context, ask trace.Ask) (Reply, error) {
	text := fmt.Sprintf("The agent wants to use %s (%s):\n%sType allow, deny or interrupt: ", plain(ask.Name), plain(string(ask.Kind)), quoted(ask.Input))
	var word string
	err := m.typed(ctx, text, func(line string) error {
		word = line
		if line != "allow" && line != "deny" && line != "interrupt" {
			return errors.New("the answer was not allow, deny or interrupt")
		}
		return nil
	})
	if err != nil {
		return Reply{}, err
	}
	if word == "allow" {
		return allow(ask, "manual")
	}
	r := deny(ask, "manual", "denied by a person")
	r.Interrupt = word == "interrupt"
	return r, nil
}

func (m manual) questions(ctx context.Context, ask trace.Ask) (Reply, error) {
	reply := Reply{Outcome: Allowed, By: "manual"}
	for _, q := range ask.Questions {
		var answer string
		err := m.typed(ctx, asked(q), func(line string) (err error) {
			answer, err = chosen(q, line)
			return err
		})
		if err != nil {
			return Reply{}, err
		}
		reply.Answers = append(reply.Answers, answer)
	}
	return reply, nil
}

// asked is a question as a person reads it.
func asked(q trace.Question) string {
	var b strings.Builder
	b.WriteString("The agent asks:\n" + quoted(q.Text))
	for i, o := range q.Options {
		fmt.Fprintf(&b, "%4d) %s", i+1, plain(o.Label))
		if o.Description != "" {
			b.WriteString(": " + plain(o.Description))
		}
		if o.Default {
			b.WriteString(" (the agent's default)")
		}
		b.WriteString("\n")
	}
	switch {
	case len(q.Options) == 0:
		b.WriteString("Type an answer: ")
	case takesText(q):
		b.WriteString("Type a number, or an answer of your own: ")
	default:
		b.WriteString("Type a number: ")
	}
	return b.String()
}

// chosen is the answer that a typed line stands for.
func chosen(q trace.Question, line string) (string, error) {
	if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(q.Options) {
		return q.Options[n-1].Label, nil
	}
	if !takesText(q) {
		return "", fmt.Errorf("the answer was not a number from 1 to %d", len(q.Options))
	}
	if line == "" || len(line) > maxAnswer {
		return "", fmt.Errorf("the answer had %d bytes, not 1 to %d", len(line), maxAnswer)
	}
	return line, nil
}

// typed asks until a line can be taken.
func (m manual) typed(ctx context.Context, text string, take func(line string) error) error {
	ask := func(refused error) (string, error) {
		shown := text
		if refused != nil {
			shown = refused.Error() + ".\n" + text
		}
		line, err := m.terminal(ctx, shown)
		if err != nil {
			return "", fmt.Errorf("ask on the terminal: %w", err)
		}
		return strings.TrimSpace(line), nil
	}
	return retried(ask, take)
}

// quoted is a text of the agent with a mark before each line, so that none of them can pass for one of ours.
func quoted(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(excerpt(text), "\n") {
		b.WriteString("  | " + plain(line) + "\n")
	}
	return b.String()
}

// plain is text on one line that does nothing to a terminal: what cannot be seen is written out, as in \x1b.
func plain(text string) string {
	q := strconv.Quote(excerpt(text))
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(q[1 : len(q)-1])
}
