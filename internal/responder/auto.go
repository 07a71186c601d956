package responder

import (
	"context"

	"github.com/assay-ci/assay/internal/trace"
)

// auto gives every ask the same answer.
type auto struct{ approve bool }

var _ Responder = auto{}

type noParams struct{}

func buildAuto(approve bool) func(Settings) (Responder, error) {
	return func(s Settings) (Responder, error) {
		if err := s.Decode(&noParams{}); err != nil {
			return nil, err
		}
		return auto{approve}, nil
	}
}

func (a auto) Answer(_ context.Context, ask trace.Ask) (Reply, error) {
	if !a.approve {
		return deny(ask, "auto-deny", "denied by policy"), nil
	}
	if !isQuestion(ask) {
		return allow(ask, AutoApprove)
	}
	r := Reply{Outcome: Allowed, By: AutoApprove}
	for _, q := range ask.Questions {
		r.Answers = append(r.Answers, pick(q))
	}
	return r, nil
}
