package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// probeTime is how long an upstream may take to tell which models it has.
const probeTime = 20 * time.Second

// Unavailable is the error of an upstream that cannot be used. Reason is no_auth, no_network or unknown.
type Unavailable struct {
	What, Reason, Text string
	Err                error // the cause, where there is one
}

func (u *Unavailable) Error() string { return u.What + ": " + u.Reason + ": " + u.Text }

// Unwrap returns the cause.
func (u *Unavailable) Unwrap() error { return u.Err }

// Probe asks an upstream for the list of its models, which costs nothing, to find out before any work whether it is there
// and takes the key. Any answer but one that refuses the key is good: an address may serve a model and no list, and one
// that is overloaded now is tried again when a cell needs it. transport is nil for plain HTTP without a proxy. The error is
// an *Unavailable, and never holds the key.
func Probe(ctx context.Context, transport http.RoundTripper, u Upstream, key string) error {
	address := strings.TrimRight(u.BaseURL, "/")
	gone := func(reason string, err error) error {
		return &Unavailable{What: address, Reason: reason, Text: err.Error(), Err: err}
	}
	if transport == nil {
		plain := &http.Transport{ForceAttemptHTTP2: true}
		defer plain.CloseIdleConnections()
		transport = plain
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+u.Dialect.listPath(), nil)
	if err != nil {
		return gone("unknown", err)
	}
	if u.Dialect == Anthropic {
		r.Header.Set("Anthropic-Version", "2023-06-01")
	}
	u.Dialect.authorize(r.Header, strings.TrimSpace(key))
	answer, err := transport.RoundTrip(r) // no redirect is followed: it would carry the key elsewhere
	if err != nil {
		return gone(reasonOf(err), err)
	}
	defer answer.Body.Close()
	if !refusesKey(answer) {
		return nil
	}
	if u.KeyEnv == "" {
		return gone("no_auth", fmt.Errorf("it answers %s, and no key is named; name its environment variable as key_env of the harness", answer.Status))
	}
	return gone("no_auth", fmt.Errorf("it answers %s to the key in %s", answer.Status, u.KeyEnv))
}

// listPath is where the list of models lies, below a base URL.
func (d Dialect) listPath() string {
	switch d {
	case Anthropic:
		return "/v1/models"
	case Gemini:
		return "/v1beta/models"
	}
	return "/models"
}

// refusesKey tells whether an answer says that the key is no good. One that may call models but not list them is good.
func refusesKey(answer *http.Response) bool {
	if answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden {
		return false
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // what is cut off says nothing
	return !bytes.Contains(bytes.ToLower(body), []byte("missing scopes"))
}

// reasonOf says why no answer came: nobody was found at the address, or nobody answered. Whatever else it is, such as a
// certificate that is no good or an address that we do not dial, is not the network's fault.
func reasonOf(err error) string {
	var name *net.DNSError
	var refused *os.SyscallError
	var late net.Error
	if errors.As(err, &name) || errors.As(err, &refused) || errors.As(err, &late) && late.Timeout() {
		return "no_network"
	}
	return "unknown"
}
