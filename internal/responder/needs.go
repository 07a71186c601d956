package responder

import "context"

// Resources are what a policy may need of the outside while a cell runs.
type Resources struct {
	// Complete asks the model of the policy for one answer, at temperature 0 where the model takes one. The call is not
	// the agent's: it has a lane and a budget of its own. nil: there is no model.
	Complete func(ctx context.Context, system, user string) (string, error)
	// Terminal is where a person answers. nil: there is none.
	Terminal Terminal
}

// A Terminal shows a text to a person and returns the line that was typed, without its line feed. It waits no longer than
// ctx. The text holds nothing that acts on a terminal.
type Terminal func(ctx context.Context, text string) (string, error)

// A Needy is a policy that cannot decide alone. It fails closed until With has given it what it needs.
type Needy interface {
	Responder
	// Needs says what must be there before the first cell runs.
	Needs() Needs
	// With returns the policy for one cell.
	With(Resources) Responder
}

// Needs are what a policy cannot do without.
type Needs struct {
	Model    *Model // nil: none
	Terminal bool   // a person answers, so only one cell may run at a time
}

// A Model is one that a policy asks, and where it is. What is empty is that of the provider of the dialect.
type Model struct {
	Name    string
	Dialect string // chat, responses, anthropic or gemini
	BaseURL string
	KeyEnv  string // name of the environment variable that holds the key
}

// tries is how often an answer may be one that cannot be taken.
const tries = 2

// retried calls once for an answer that can be taken, and once more when it cannot. ask gets the reason that the one before
// was not taken; its own error ends the tries.
func retried(ask func(refused error) (string, error), take func(answer string) error) error {
	var refused error
	for range tries {
		answer, err := ask(refused)
		if err != nil {
			return err
		}
		if refused = take(answer); refused == nil {
			return nil
		}
	}
	return refused
}
