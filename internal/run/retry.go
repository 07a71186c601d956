package run

import (
	"math/rand/v2"
	"time"

	"github.com/assay-ci/assay/internal/trace"
)

// Pauses between the attempts of an errored cell: full jitter below 2 s · 2ⁿ, at most a minute.
const (
	firstPause   = 2 * time.Second
	longestPause = time.Minute
)

func backoff(n int) time.Duration {
	ceiling := min(longestPause, firstPause<<min(n-1, 10))
	return rand.N(ceiling)
}

// retryable tells whether another attempt may find what this one did not. A wrong key, a wrong model name and a harness
// that refuses its settings stay wrong.
func retryable(c trace.Class) bool {
	switch c {
	case trace.ClassModelAuth, trace.ClassModelRequest, trace.ClassModelNotAllowed, trace.ClassHarnessConfig,
		trace.ClassCassette, trace.ClassCondition, trace.ClassResponder:
		return false
	}
	return true
}
