package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/trace"
)

const maxErrorBody = 1 << 20 // bytes of an answer that is an error

// serve answers one request of the agent. path is what follows the address of the cell.
func (c *Cell) serve(w http.ResponseWriter, r *http.Request, path string) {
	if !c.enter() {
		http.NotFound(w, r)
		return
	}
	defer c.running.Done()
	defer c.cutWithCell(w)()
	if r.Method == http.MethodGet && path == "/v1/models" {
		send(w, http.StatusOK, modelsBody(c.spec.Models))
		return
	}
	rt, ok := routeOf(path)
	if !ok || r.Method != http.MethodPost {
		if r.Method != http.MethodHead { // claude-code knocks at the door first
			c.remark(fmt.Sprintf("the gateway answered 404 to %s %q", trace.Shorten(r.Method, 10), trace.Shorten(path, 200)))
		}
		http.NotFound(w, r)
		return
	}
	q, err := readRequest(rt, r)
	if err != nil {
		c.remark("the gateway answered 400 to a request: " + err.Error())
		send(w, http.StatusBadRequest, endBody(err.Error()))
		return
	}
	k, refusal := c.begin(q)
	if refusal != nil {
		send(w, http.StatusBadRequest, endBody(refusal.why()))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	c.exchange(ctx, k, &httpClient{w: w, flush: http.NewResponseController(w).Flush})
}

// enter counts a request in, unless the cell is closed.
func (c *Cell) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Add(1)
	}
	return !c.closed
}

// cutWithCell ends the reading and writing of a request when the cell ends, so that a client that does neither cannot hold
// it up. The function that it returns must be called when the request has ended.
func (c *Cell) cutWithCell(w http.ResponseWriter) (stop func()) {
	done := make(chan struct{})
	unhook := context.AfterFunc(c.ctx, func() {
		defer close(done)
		past := time.Unix(1, 0)
		conn := http.NewResponseController(w)
		conn.SetReadDeadline(past)
		conn.SetWriteDeadline(past)
	})
	return func() {
		if !unhook() {
			<-done
		}
	}
}

func send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

// why is what an agent is told. Words of a provider are not in it: agents act on some of them, and try again.
func (r *Refusal) why() string {
	why, _, _ := strings.Cut(r.Detail, ", last: ")
	return why
}

// An answer is what came back for a request. Its body must be closed.
type answer struct {
	status int
	header http.Header
	body   io.ReadCloser
}

// A client takes an answer as it comes.
type client interface {
	begin(status int, header http.Header)
	write(p []byte) error
	// abort ends an answer that was cut, so that it cannot be taken for a whole one.
	abort()
}

// exchange sends a request on, passes the answer to the client, and books the call.
func (c *Cell) exchange(ctx context.Context, k *call, to client) {
	a, err := c.ask(ctx, k)
	var different *mismatchError
	switch {
	case errors.As(err, &different):
		c.settleMismatch(k, different, to)
		return
	case err != nil && ctx.Err() != nil:
		k.cut = true
		c.settle(k)
		to.abort()
		return
	case err != nil:
		k.fault = &trace.Fault{Class: trace.ClassModelAPI, Retryable: true, Detail: "the model could not be reached: " + err.Error()}
		c.fail(k, to, http.StatusBadGateway, deadBody())
		return
	}
	defer a.body.Close()
	k.status, k.header = a.status, a.header
	if a.status < 200 || a.status >= 300 {
		c.passFailure(k, a, to)
		return
	}
	c.pass(ctx, k, a, to)
}

// A mismatchError says how a request differs from the recorded one.
type mismatchError struct{ err error }

func (e *mismatchError) Error() string { return e.err.Error() }

func (c *Cell) settleMismatch(k *call, e *mismatchError, to client) {
	c.mu.Lock()
	if c.mismatch == "" {
		c.mismatch = c.clean(e.Error())
	}
	r := c.refuse(Refusal{Stop: trace.StopError, Class: trace.ClassCassette, Detail: "a request differs from the recording, last: " + e.Error()})
	c.mu.Unlock()
	c.tell()
	to.begin(http.StatusBadRequest, jsonHeader())
	to.write(endBody(r.why()))
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// ask gets the answer to a call: from the recording, from a script or from the provider.
func (c *Cell) ask(ctx context.Context, k *call) (*answer, error) {
	if c.tape != nil {
		t, err := c.tape.take(c.taped(k))
		if err != nil {
			return nil, &mismatchError{err}
		}
		if t != nil {
			k.replayed = true
			return t.answer(), nil
		}
	}
	if k.model.Script != nil {
		return c.play(ctx, k)
	}
	return c.fetch(ctx, k)
}

func (c *Cell) taped(k *call) taped {
	return taped{lane: k.lane, ordinal: k.inLane, dialect: k.req.dialect, path: k.req.path, request: k.req.body}
}

// fetch asks the provider.
func (c *Cell) fetch(ctx context.Context, k *call) (*answer, error) {
	body, err := k.req.upstreamBody()
	if err != nil {
		return nil, err
	}
	address := strings.TrimRight(k.model.BaseURL, "/") + k.req.path
	if k.req.query != "" {
		address += "?" + k.req.query
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, values := range k.req.header {
		if !notForwarded(name) {
			r.Header[name] = values
		}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept-Encoding", "identity")
	k.req.dialect.authorize(r.Header, k.model.key)
	resp, err := c.g.client.Do(r)
	if err != nil {
		return nil, err
	}
	a := &answer{status: resp.StatusCode, header: resp.Header, body: resp.Body}
	return a, a.unpack()
}

// unpack undoes an encoding that we did not ask for.
func (a *answer) unpack() error {
	switch enc := a.header.Get("Content-Encoding"); enc {
	case "", "identity":
		return nil
	case "gzip":
		z, err := gzip.NewReader(a.body)
		if err != nil {
			a.body.Close()
			return fmt.Errorf("read a gzip answer: %w", err)
		}
		a.body = struct {
			io.Reader
			io.Closer
		}{z, a.body}
		return nil
	default:
		a.body.Close()
		return fmt.Errorf("the answer is encoded as %q, and plain was asked for", trace.Shorten(enc, 40))
	}
}

// passFailure passes an error of the provider on.
func (c *Cell) passFailure(k *call, a *answer, to client) {
	body, _ := io.ReadAll(io.LimitReader(a.body, maxErrorBody))
	k.arrived(c, body)
	k.fault = faultOf(a.status, body)
	if a.status < 400 {
		k.fault.Detail = fmt.Sprintf("the model's provider answered with a redirect (HTTP %d); its base URL may be wrong", a.status)
	}
	status, header := a.status, k.returned()
	if a.status < 400 {
		status, body, header = http.StatusBadGateway, deadBody(), jsonHeader()
	}
	c.record(k)
	if r := c.settle(k); r != nil {
		status, body, header = http.StatusBadRequest, endBody(r.why()), jsonHeader()
	}
	to.begin(status, header)
	to.write([]byte(k.scrub.all(string(body))))
}

// fail books a call that got no answer and tells the client.
func (c *Cell) fail(k *call, to client, status int, body []byte) {
	if r := c.settle(k); r != nil {
		status, body = http.StatusBadRequest, endBody(r.why())
	}
	to.begin(status, jsonHeader())
	to.write(body)
}

// pass passes an answer on while it comes, and books it.
func (c *Cell) pass(ctx context.Context, k *call, a *answer, to client) {
	media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	stream := media == "text/event-stream"
	h := newHold(k.meter, stream, stream && !k.req.asked)
	to.begin(a.status, k.returned())
	err := c.copy(k, a, h, to)
	if err == nil {
		err = k.write(to, h.pass(k.scrub.rest()))
	}
	if rest := h.end(); err == nil {
		err = k.write(to, rest)
	}
	k.judge(ctx, err)
	c.record(k)
	c.settle(k)
	if err != nil {
		to.abort()
	}
}

// errClient is said of a client that takes no more.
var errClient = errors.New("the client went away")

// copy passes the bytes of an answer on, each at once.
func (c *Cell) copy(k *call, a *answer, h *hold, to client) error {
	buf := make([]byte, 32<<10)
	total := 0
	for {
		n, err := a.body.Read(buf)
		if total += n; total > maxBody {
			return fmt.Errorf("the answer has more than %d MiB", maxBody>>20)
		}
		if n > 0 {
			k.arrived(c, buf[:n])
			if err := k.write(to, h.pass(k.scrub.pass(buf[:n]))); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (k *call) write(to client, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if to.write(p) != nil {
		return errClient
	}
	return nil
}

// arrived notes bytes of the answer.
func (k *call) arrived(c *Cell, p []byte) {
	since := c.g.opts.Now().Sub(k.began)
	if k.first == 0 {
		k.first = max(since, 1)
	}
	c.alive()
	if c.tape != nil {
		k.recorded = append(k.recorded, tapedChunk{since, bytes.Clone(p)})
	}
}

// judge decides whether the answer came to its end.
func (k *call) judge(ctx context.Context, err error) {
	hungUp := errors.Is(err, errClient) || err != nil && ctx.Err() != nil
	switch {
	case k.req.count && err == nil:
	case hungUp:
		k.cut = !k.meter.ended
	case err != nil:
		k.cut = true
		k.fault = &trace.Fault{Class: trace.ClassModelAPI, HTTP: k.status, Retryable: true, Detail: "the answer of the model was cut: " + err.Error()}
	case k.meter.fault != nil:
		k.cut = true
		k.fault = k.meter.fault
	case !k.meter.ended && k.meter.finish == "":
		k.cut = true
		k.fault = &trace.Fault{Class: trace.ClassModelAPI, HTTP: k.status, Retryable: true, Detail: "the answer of the model ended before it was whole"}
	}
}

// returned are the headers that the client gets.
func (k *call) returned() http.Header {
	out := http.Header{}
	for name, values := range k.header {
		if notReturned(name) {
			continue
		}
		for _, v := range values {
			out.Add(name, k.scrub.all(v))
		}
	}
	return out
}

// record keeps an exchange on the cassette.
func (c *Cell) record(k *call) {
	if c.tape == nil || k.replayed {
		return
	}
	t := c.taped(k)
	t.status, t.header, t.chunks, t.cut = k.status, k.returned(), k.recorded, k.cut && k.meter.fault == nil
	if err := c.tape.keep(t.cleaned(func(s string) string { return c.clean(k.scrub.all(s)) })); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.mismatch == "" {
			c.mismatch = "the cassette could not be written: " + err.Error()
		}
	}
}

// An httpClient is the agent at the other end of a connection.
type httpClient struct {
	w     http.ResponseWriter
	flush func() error
}

func (h *httpClient) begin(status int, header http.Header) {
	for name, values := range header {
		h.w.Header()[name] = values
	}
	h.w.WriteHeader(status)
	h.flush()
}

func (h *httpClient) write(p []byte) error {
	if _, err := h.w.Write(p); err != nil {
		return err
	}
	return h.flush()
}

func (h *httpClient) abort() { panic(http.ErrAbortHandler) }
