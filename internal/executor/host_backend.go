package executor

import (
	"context"
	"crypto/rand"
)

// HostParams are the settings of the executor host.
type HostParams struct{}

// hostBackend makes places of this host.
type hostBackend struct{ session Session }

func buildHost(s Settings) (Backend, error) {
	return &hostBackend{}, s.Decode(&HostParams{})
}

func (b *hostBackend) Start(_ context.Context, s Session) (Facts, error) {
	b.session = s
	if s.Image != "" || len(s.Images) > 0 {
		return Facts{}, &Unavailable{What: "executor host", Reason: "no_image", Text: "places of this host are made of no image; use --executor docker"}
	}
	if s.Network == NetNone || s.Network == NetGateway {
		return Facts{}, &Unavailable{What: "executor host", Reason: "policy_unenforceable",
			Text: "commands on this host reach whatever the host reaches, so network " + string(s.Network) + " cannot be held; use --executor docker, or network open"}
	}
	return Facts{Name: "host", Network: NetOpen, Isolation: Kinds[0].Isolation, Keys: Kinds[0].Keys}, nil
}

func (b *hostBackend) Open(_ context.Context, s Spec) (Executor, error) {
	return NewHost(HostOptions{
		Work: s.Work, Home: s.Home, Tmp: s.Tmp, Env: s.Env, Host: b.session.Environ,
		Supervisor: []string{b.session.Program, SuperviseName}, Token: rand.Text(),
	})
}

func (b *hostBackend) Inside(f Folders) Folders { return f }

func (b *hostBackend) Close(context.Context) error { return nil }
