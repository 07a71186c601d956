package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Pusher sends spans and scores to a receiver, in batches, and counts what was taken. What a receiver took does not change
// when it is sent again. Add what there is, then Close.
type Pusher struct {
	URL     string            // where OTLP traces are posted
	Scores  string            // where scores of Langfuse are posted; empty: they are not
	Header  map[string]string // keys, among others: no part of a header is ever printed
	Tool    string            // version of assay
	Client  *http.Client      // follows no redirects: see NewClient
	Wait    func(ctx context.Context, d time.Duration) error
	Outcome Pushed

	batch [][]byte
	size  int
	dead  error // why nothing more is sent
}

// Pushed counts what was sent. What is not known to have been taken was not.
type Pushed struct {
	Spans, SpansTaken   int
	Scores, ScoresTaken int
	Faults              []string // the first of them
}

// Whole tells whether all was taken.
func (p Pushed) Whole() bool { return p.Spans == p.SpansTaken && p.Scores == p.ScoresTaken }

const (
	batchSpans  = 512
	batchBytes  = 1 << 20
	mostTries   = 5
	longestWait = time.Minute
	mostAnswer  = 1 << 20 // bytes of an answer that are read
	mostLosses  = 5
)

// NewClient is a client for a Pusher. An endpoint that redirects is a wrong one: what is sent there, keys too, goes nowhere else.
func NewClient() *http.Client {
	return &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// AddSpans sends spans, now or with those that come later. The error is that of the context.
func (p *Pusher) AddSpans(ctx context.Context, spans []Span) error {
	for _, s := range spans {
		b := otlpSpan(s)
		if len(p.batch) == batchSpans || p.size+len(b) > batchBytes && len(p.batch) > 0 {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
		p.batch, p.size = append(p.batch, b), p.size+len(b)
		p.Outcome.Spans++
	}
	return nil
}

// AddScores sends scores, each alone: Langfuse takes no lists. The error is that of the context.
func (p *Pusher) AddScores(ctx context.Context, scores []LangfuseScore) error {
	for _, s := range scores {
		p.Outcome.Scores++
		if p.dead != nil {
			continue
		}
		body, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if _, err := p.post(ctx, p.Scores, "application/json", body); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			p.fault(err)
			continue
		}
		p.Outcome.ScoresTaken++
	}
	return nil
}

// Close sends what is left. The error is that of the context.
func (p *Pusher) Close(ctx context.Context) error { return p.flush(ctx) }

func (p *Pusher) flush(ctx context.Context) error {
	batch := p.batch
	p.batch, p.size = nil, 0
	if len(batch) == 0 || p.dead != nil {
		return nil
	}
	resource := []Attribute{{"service.name", "assay"}, {"service.version", p.Tool}}
	answer, err := p.post(ctx, p.URL, "application/x-protobuf", otlpRequest(resource, p.Tool, batch))
	var rejected int64
	var why string
	if err == nil {
		rejected, why, err = readOTLPAnswer(answer.contentType, answer.body)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		p.fault(err)
		return nil
	case rejected < 0 || rejected > int64(len(batch)):
		rejected = int64(len(batch))
		fallthrough
	case rejected > 0:
		p.fault(fmt.Errorf("%d of %d spans were rejected: %s", rejected, len(batch), p.quote(why)))
	}
	p.Outcome.SpansTaken += len(batch) - int(rejected)
	return nil
}

// fault remembers what went wrong. After some faults nothing more is sent.
func (p *Pusher) fault(err error) {
	if len(p.Outcome.Faults) < mostLosses {
		p.Outcome.Faults = append(p.Outcome.Faults, err.Error())
	}
	var refused *refusal
	if errors.As(err, &refused) && refused.final {
		p.dead = err
	}
}

// A refusal is an answer that took nothing. A final one would be given to everything else, too.
type refusal struct {
	text  string
	final bool
}

func (r *refusal) Error() string { return r.text }

type answer struct {
	contentType string
	body        []byte
}

// post sends a body until it is taken, refused for good, or was tried often enough.
func (p *Pusher) post(ctx context.Context, url, contentType string, body []byte) (answer, error) {
	pause := time.Second
	for try := 1; ; try++ {
		a, after, err := p.once(ctx, url, contentType, body)
		if err == nil || after < 0 || ctx.Err() != nil {
			return a, err
		}
		if try == mostTries {
			return a, &refusal{fmt.Sprintf("%v; tried %d times", err, try), true}
		}
		if after == 0 {
			after = pause + rand.N(pause/2)
		}
		if err := p.Wait(ctx, min(after, longestWait)); err != nil {
			return a, err
		}
		pause *= 2
	}
}

// once sends a body. after is how long the receiver wants us to wait before the next try, 0 when it does not say, and
// negative when there is none.
func (p *Pusher) once(ctx context.Context, url, contentType string, body []byte) (a answer, after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return a, -1, &refusal{"the endpoint is no URL", true}
	}
	for k, v := range p.Header {
		req.Header.Set(k, v)
	}
	req.Header.Set("Content-Type", contentType)
	resp, err := p.Client.Do(req)
	if err != nil {
		return a, 0, fmt.Errorf("no answer: %s", p.quote(err.Error()))
	}
	defer resp.Body.Close()
	a.contentType = resp.Header.Get("Content-Type")
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests || code >= 500:
		return a, retryAfter(resp.Header.Get("Retry-After"), time.Now()), fmt.Errorf("answered %d: %s", code, p.quote(string(a.body)))
	case code >= 300 && code < 400:
		return a, -1, &refusal{fmt.Sprintf("answered %d: it redirects, and redirects are not followed; name the final address", code), true}
	case code >= 400:
		oneBody := code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusUnprocessableEntity
		return a, -1, &refusal{fmt.Sprintf("answered %d: %s", code, p.quote(string(a.body))), !oneBody}
	case err != nil:
		return a, 0, fmt.Errorf("the answer broke off: %s", p.quote(err.Error()))
	}
	return a, -1, nil
}

// quote is what a receiver said, short, on one line, and without our keys.
func (p *Pusher) quote(s string) string {
	for _, v := range p.Header {
		for part := range strings.FieldsSeq(v) {
			if len(part) > 3 {
				s = strings.ReplaceAll(s, part, "***")
			}
		}
	}
	return clean(s, 200)
}

// retryAfter reads the header: seconds, or a date. It is 0 when it says nothing that can be read.
func retryAfter(v string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil && n > 0 {
		return time.Duration(min(n, 3600)) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}
