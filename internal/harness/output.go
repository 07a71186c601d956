package harness

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/assay-ci/assay/internal/trace"
)

var errOutput = errors.New("output over the limit")

// output is where all bytes that an agent writes go: to agent.log as they come, up to the limit. Past the limit it calls
// over, and counts and drops the rest, so that a flood neither blocks the agent nor fills a disk before it is ended.
type output struct {
	mu    sync.Mutex
	log   io.Writer // may be nil
	limit int64     // 0 is none
	over  func()
	seen  int64
	err   error // the first of log: ours, not the agent's
}

// stream returns a writer for one stream of the agent, which remembers in keep what the outcome quotes of it.
func (o *output) stream(keep *trace.Excerpt) io.Writer { return &stream{o, keep} }

type stream struct {
	out  *output
	keep *trace.Excerpt
}

func (s *stream) Write(p []byte) (int, error) {
	o := s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	s.keep.Write(p)
	room := int64(len(p))
	if o.limit > 0 {
		room = max(0, min(room, o.limit-o.seen))
	}
	o.seen += int64(len(p))
	if o.limit > 0 && o.seen > o.limit {
		o.over()
	}
	if o.log != nil && o.err == nil && room > 0 {
		if _, err := o.log.Write(p[:room]); err != nil {
			o.err = fmt.Errorf("write agent.log: %w", err)
			o.over()
		}
	}
	return len(p), nil
}

// state returns how many bytes were seen, and the error of the log.
func (o *output) state() (seen int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen, o.err
}
