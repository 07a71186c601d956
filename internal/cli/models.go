package cli

import (
	"net/http"
	"os"

	"github.com/assay-ci/assay/internal/gateway"
	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/sandbox"
)

// modelKeys looks up the keys of models; nil when none is needed, since a recording answers. A run that is not trusted has
// no keys: what strangers wrote would spend them.
func (o runOptions) modelKeys(x IO) func(string) string {
	switch {
	case o.Replay != "":
		return nil
	case o.Trust == untrusted:
		return func(string) string { return "" }
	}
	return x.getenv
}

// transport is how the models of a run are reached; nil: plain HTTP without a proxy. A run that is not trusted dials no
// address that is not on the public internet, unless --allow-private-hosts names the host. One that is trusted may have its
// models anywhere: those on one's own machine are as common as any.
func (o runOptions) transport() http.RoundTripper {
	if o.Trust != untrusted {
		return nil
	}
	t := sandbox.Transport(o.AllowPrivate)
	t.ResponseHeaderTimeout = 0 // a model may think before it says anything
	t.MaxIdleConnsPerHost = 64
	t.DisableCompression = true
	return t
}

// openGateway starts the gateway through which all models of a run are called. spent is what earlier runs have spent of the
// budget, in US dollars.
func (w *work) openGateway(x IO, secrets *redact.Redactor, o runOptions, budget, spent float64) (*gateway.Gateway, error) {
	options := gateway.Options{
		Keys: o.modelKeys(x), Transport: o.transport(), Redact: secrets.Bytes,
		RunBudgetUSD: budget, SpentUSD: spent, Prices: w.kit.Prices(),
	}
	switch {
	case o.Replay != "":
		if _, err := os.Stat(o.Replay); err != nil {
			return nil, usage(err)
		}
		options.Cassettes = gateway.PlayFrom(o.Replay, secrets)
	case o.Record != "":
		if err := os.MkdirAll(o.Record, 0o700); err != nil {
			return nil, usage(err)
		}
		options.Cassettes = gateway.RecordTo(o.Record, secrets)
	}
	g, err := gateway.New(options)
	if err != nil {
		return nil, unmeasured(err)
	}
	w.kit.UseGateway(g)
	w.gateway = g
	return g, nil
}
