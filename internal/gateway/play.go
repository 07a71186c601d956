package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"
)

// A played answer is what a script makes of a request.
type played struct {
	status int
	header http.Header
	chunks [][]byte // of the body; more than one when it is a stream
	pause  time.Duration
}

// playScript answers a request the way a script says.
func playScript(s *Script, d Dialect, stream bool, body []byte) (played, error) {
	a, err := s.Answer(d, stream, body)
	if err != nil {
		return played{}, err
	}
	chunks := a.Chunks
	if chunks == nil {
		chunks = [][]byte{a.Body}
	}
	return played{status: a.Status, header: a.Header, chunks: chunks, pause: a.Pause}, nil
}

// play asks the script of a model instead of a provider.
func (c *Cell) play(ctx context.Context, k *call) (*answer, error) {
	if k.req.count { // as a script cannot know tokens, the usual rule of thumb has to do
		n := len(k.req.body) / 4
		return whole(http.StatusOK, mustJSON(map[string]int{"input_tokens": n, "totalTokens": n})), nil
	}
	body, err := k.req.upstreamBody()
	if err != nil {
		return nil, err
	}
	p, err := c.g.playScript(k.model.Script, k.req.dialect, k.req.stream, body)
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.g.after(p.pause):
	}
	return &answer{status: p.status, header: p.header, body: io.NopCloser(&pieces{left: p.chunks})}, nil
}

// pieces reads one piece at a time, as a stream would arrive.
type pieces struct{ left [][]byte }

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.left) > 0 && len(p.left[0]) == 0 {
		p.left = p.left[1:]
	}
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[0])
	p.left[0] = p.left[0][n:]
	return n, nil
}

// whole is an answer of ours.
func whole(status int, body []byte) *answer {
	return &answer{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: io.NopCloser(bytes.NewReader(body))}
}
