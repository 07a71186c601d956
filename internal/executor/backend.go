package executor

import (
	"context"
	"slices"
	"strings"
)

// Folders are the host paths of a place, absolute; inside a place they may have other names, see [Backend]. They belong to
// whoever made them.
type Folders struct {
	Root, Work, Home, Tmp string
	Env                   string // what an environment made; empty when the case has none
}

// Paths as commands see them in a place that is more than folders of this host.
const (
	InsideRoot    = "/assay/place" // of the folders
	insideProgram = "/.assay/assay"
)

// inside are the folders of a place below InsideRoot.
func inside(f Folders) Folders {
	move := func(dir string) string {
		if dir == "" {
			return ""
		}
		return InsideRoot + strings.TrimPrefix(dir, f.Root)
	}
	return Folders{Root: InsideRoot, Work: move(f.Work), Home: move(f.Home), Tmp: move(f.Tmp), Env: move(f.Env)}
}

// A Network is what the commands of a place can reach.
type Network string

// The networks. A backend that cannot enforce the one that was asked for refuses it before any cell starts.
const (
	NetNone    Network = "none"    // a loopback of their own, and nothing else
	NetGateway Network = "gateway" // a loopback of their own, on which the model gateway answers
	NetOpen    Network = "open"    // whatever the host reaches; never the default where something closer can be enforced
)

// A Backend makes the places of one run. Build one by its row of [Kinds], Start it once, Open places, Close it. Open and
// Inside may be called at the same time.
type Backend interface {
	// Start gets ready and finds out, by trying it, what can be enforced. What cannot be reached or enforced is an
	// *Unavailable; it costs no cell.
	Start(ctx context.Context, s Session) (Facts, error)
	// Open makes a place over folders of this host: Work (and Env, when it has a name) exist, Home and Tmp may.
	Open(ctx context.Context, s Spec) (Executor, error)
	// Inside are the same folders as commands of a place see them.
	Inside(f Folders) Folders
	// Close removes all that the run still has: places, sockets, networks. It is idempotent.
	Close(ctx context.Context) error
}

// A Session is what a backend is told of the run that it works for.
type Session struct {
	Program string        // path of this program
	Scratch string        // a folder of the run that only we can enter
	Environ []string      // of the host
	Gateway func() string // host:port of the model gateway on our loopback; empty: no models are called
	Network Network       // asked for while agents run; empty: the closest that can be enforced, gateway before open

	Isolation string   // wall asked for by hand, as in [HostParams]; empty: as the settings say
	Closed    []string // folders that no place may see whole, such as the suite's
	Untrusted bool     // strangers had a say in what is run: it needs a wall, or Facts say that there is none

	Image  string   // of every place; empty: as the settings say
	Images []string // that cases name, beside it
}

// A Spec is what one place is to be.
type Spec struct {
	Folders
	Env     []string // NAME=value, what the place itself sets
	Network Network  // NetNone for setup and grading; what Facts.Network says while the agent works
	Image   string   // of the case; empty: the backend's own
	Label   string   // whose place it is, such as timezone/with_skill/t1, for whoever looks at what runs
}

// Facts are what a backend found out about itself when it was started. They are written to the manifest before the first
// cell runs.
type Facts struct {
	Name      string            // of the kind with what makes numbers differ, such as "docker, 2 cpus, 4 GiB, 512 processes"; host alone is "host"
	Network   Network           // enforced while agents work
	NoGateway bool              // commands of a place cannot reach the model gateway: agents that call models from there cannot work
	Isolation string            // what it does not protect, in a sentence
	Unwalled  string            // why what strangers wrote must not run here: nothing holds it, and nobody asked for that by name; else empty
	Keys      string            // what stands between agents and our memory, as in [Kind]
	Images    map[string]string // id of each image, by the name that the suite uses: sha256:…
}

// An Unavailable says why a backend cannot be used, and what to do about it. Reason is no_daemon, no_image, no_cli,
// no_auth, policy_unenforceable or unknown.
type Unavailable struct{ What, Reason, Text string }

func (u *Unavailable) Error() string { return u.What + ": " + u.Reason + ": " + u.Text }

// An Egress is what a look around from inside a place, before anything else ran there, found that it can reach.
type Egress struct {
	Policy     Network  `json:"policy"`
	Proven     bool     `json:"proven"`     // false: nobody looked, or what was seen is more than Policy allows
	Interfaces []string `json:"interfaces"` // names; nil: nobody looked
	Routes     int      `json:"routes"`     // rows of the route tables that belong to other interfaces than lo
	Canary     string   `json:"canary"`     // a listener of ours outside of the place: unreached, reached, or none when there was none
}

// egressOf judges what a look around found by the network that the place was to have. What may reach everything proves
// nothing.
func egressOf(policy Network, interfaces []string, routes int, canary string) Egress {
	alone := interfaces != nil && (len(interfaces) == 0 || slices.Equal(interfaces, []string{"lo"}))
	return Egress{
		Policy: policy, Proven: policy != NetOpen && alone && routes == 0 && canary != canaryReached,
		Interfaces: interfaces, Routes: routes, Canary: canary,
	}
}

// A Prover is an Executor that looked what its commands can reach when it was opened.
type Prover interface{ Egress() Egress }

// A Mirror is an Executor whose place is not the folders of this host, but a copy of them elsewhere. The first Run carries
// them there.
type Mirror interface {
	// Pull makes the folders of this host what those of the place are.
	Pull(ctx context.Context) error
}

// Settings are the raw settings of the executor of a suite.
type Settings interface {
	// Decode decodes strictly into a pointer to a struct: an unknown key is an error.
	Decode(into any) error
	// Fault returns an error at the place of the key.
	Fault(key, msg, hint string) error
}
