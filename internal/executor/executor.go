// Package executor runs commands in a cell's place and moves files in and out of it, the same way whether the place is a
// folder of this host, a container or a cloud box. Build a [Backend] by its row of [Kinds] and ask it for a place; run argv
// with Run, read and write files through Files, and Close it: after Close no process of the place exists. Its folders
// belong to whoever made them.
//
// How a command ended is data ([Exit]): a non-zero code, a signal and a timeout are facts about the command. An error
// means that we could not do our work. Nothing of the caller's environment is inherited: a command gets exactly the
// environment of its place and what [Command] names.
//
// Killing a process is easy, killing everything it started is not: a grandchild that called setsid or was forked twice
// has left every group we know. So each command runs below a supervisor of its own ([Supervise]), to which the kernel
// hands all orphans of that command, and the command has ended only when the supervisor has no descendant left.
package executor

import (
	"context"
	"io"
	"io/fs"
	"time"
)

// An Executor is a place where commands run. Its methods may be called at the same time.
type Executor interface {
	// Run runs one command to its end and returns how it ended. The error is ours: no fork, no place.
	Run(ctx context.Context, c Command) (Exit, error)
	// Files reads and writes the work folder of the place.
	Files() FS
	// Close ends every process of the place. It is idempotent; Run after Close is an error.
	Close(ctx context.Context) error
}

// A Command is one program to run. Argv is never a shell string.
//
// A program without a slash is looked up in the absolute folders of the command's own PATH; one with a slash is relative
// to Dir. Stdout and Stderr are never written at the same time, so they may be the same writer; a writer that blocks
// holds Run, and one that fails makes Run return its error after the command ended. Run does not wait for a Read of Stdin
// that still blocks when the command has ended: whoever owns the reader ends it.
type Command struct {
	Argv      []string
	Dir       string    // below the work folder, slash separated; empty is the work folder
	Env       []string  // NAME=value; the complete list beyond what the place itself sets (PATH, HOME, TMPDIR, …)
	Stdin     io.Reader // nil: at end of file at once
	Stdout    io.Writer // nil: counted and dropped
	Stderr    io.Writer
	Timeout   time.Duration // 0: none but the context's
	Grace     time.Duration // between TERM and KILL; 0: 5 s. At most 1 s of it is given when the context is cancelled
	MaxOutput int64         // bytes a stream that are passed on, more are counted and dropped; 0: 256 MiB
}

// Exit says how a command ended. A program that is absent is Code 127, one that cannot be executed and a Dir that is not
// there are Code 126, each with a line on Stderr that says so.
type Exit struct {
	Code      int           // exit code; -1 when a signal ended it
	Signal    string        // SIGKILL and the like, empty when it exited
	TimedOut  bool          // we ended it at its Timeout or at the deadline of the context
	Cancelled bool          // we ended it because the context was cancelled
	OOM       bool          // the memory limit of the place ended it, or something that it started
	Truncated bool          // a stream passed MaxOutput, or was still held open from outside when the command had ended
	Out, Err  int64         // bytes seen on each stream
	Took      time.Duration // until the command's own process ended, by the host's monotonic clock
	Survivors []string      // command lines of processes that the sweep could not end within 1.5 s
	Swept     int           // processes that the command left behind and the sweep ended
}

// FS is the work folder of a place. Names are slash separated and relative; links are reported and never followed.
type FS interface {
	// Open opens a regular file of at most 64 MiB for reading. A link (also on the way), FIFO, device or folder is an
	// error, never a hang.
	Open(name string) (fs.File, error)
	// Put writes a regular file of at most 64 MiB, parents made, through a temporary name; a link at name is replaced,
	// a link on the way is an error.
	Put(name string, r io.Reader, mode fs.FileMode) error
	// List returns everything below dir, sorted by path: regular files, links, folders, and what else an agent may have
	// made; Mode tells. More than 200 000 entries are an error.
	List(dir string) ([]Entry, error)
}

// An Entry is one thing in a place.
type Entry struct {
	Path string
	Mode fs.FileMode
	Size int64
	Link string // target of a symbolic link
}

// A Kind is one row of the table of executors: the facts that other rooms may need before they choose it.
type Kind struct {
	Name           string
	Doc            string // one line
	SeparateStderr bool   // stderr arrives apart from stdout
	Streams        bool   // output arrives while the command runs
	SeesHostFiles  bool   // commands can read the files of the host's user
	Networks       []string
	Limits         string   // how memory, CPU and process limits are enforced: hard, request or none
	Runs           string   // how commands are run, in sentences
	Holds          []string // what is enforced while they run, a sentence each
	Isolation      string   // what it does not protect, for the first lines of a run and of its report
	Keys           string   // what stands between agents and our memory, which holds the keys: none, uid, namespace or container
	Params         any      // zero value of the struct that its settings decode into
	Build          func(s Settings) (Backend, error)
}

// Kinds lists every executor.
var Kinds = []Kind{
	{
		Name:           "host",
		Doc:            "run commands as processes of this Linux host, in folders of their own",
		SeparateStderr: true,
		Streams:        true,
		SeesHostFiles:  true,
		Networks:       []string{"open"}, // with bubblewrap none and gateway, too
		Limits:         "none",
		Runs: "Each command is a process of this host, below a supervisor of its own that ends all that the command started. A place " +
			"is a folder that is made for one cell and removed after it.",
		Holds: []string{
			"A command gets the environment of its place and nothing of ours, and no process outlives it.",
			"Files are read and written below the work folder; links are never followed.",
		},
		Isolation: "The agent runs as your user: it can read your files and processes, reach the network, and use memory, " +
			"disk and processes without limit. Assay ends everything it started and detects tampering; it cannot prevent it.",
		Keys:   "none",
		Params: HostParams{},
		Build:  buildHost,
	},
	{
		Name:           "docker",
		Doc:            "run commands in a hardened container for each place, which reaches nothing but the model gateway",
		SeparateStderr: true,
		Streams:        true,
		Networks:       []string{"gateway", "none", "open"},
		Limits:         "hard",
		Runs: "Each place is one container, and each command an exec of our supervisor in it, asked for by the docker command on PATH. " +
			"Its image is named by the suite, a case or --image, resolved to an id when the run begins, and never pulled. Folders of the " +
			"place are under /assay/place; the image's own environment and PATH hold, and HOME and TMPDIR are the place's. Tools and agents " +
			"come from the image, or from folders of this host that mount names.",
		Holds: []string{
			"No capabilities, no new privileges, a user that is not root (65532 when we are root, else our own), the image read-only, " +
				"processes and shared memory of its own, and no socket of the daemon.",
			"Limits of memory, processors, processes, open files and the size of a file (2 GiB). What is written to the folders of the " +
				"place is on the disk of this host, whose room is shared.",
			"Networks none and gateway: the place has a loopback and nothing else. The model gateway is reached through one socket that " +
				"only this place has, under the same address as on this host.",
			"When a place is opened, and when the run begins, a look around from inside proves the limits, that interfaces and routes are " +
				"none but lo, and that a listener at this host's end of the bridge is not reached. What does not hold is refused.",
			"Graders get another container than the agent, without a network. A container whose command cannot be ended is killed. " +
				"Containers that a killed run left are removed by the next one.",
		},
		Isolation: "Each place is a container without capabilities and, unless the network is open, without a network; graders get " +
			"another one than the agent. Containers share the kernel of this host: a hole in it, or in the daemon, is not stopped.",
		Keys:   "container",
		Params: DockerParams{},
		Build:  buildDocker,
	},
	{
		Name:           "harbor",
		Doc:            "run commands in places that Harbor makes: in containers of this host, or at a vendor's",
		SeparateStderr: true,
		Networks:       []string{"none", "open"},
		Limits:         "hard",
		Runs: "Each place is made by a process of Harbor 0.25 of its own, to which Assay speaks by JSON lines over its standard input " +
			"and output. Its folders go there with the first command and come back when they are measured. The page on this executor " +
			"(executors-harbor.md) tells which backends were tried: docker alone.",
		Holds: []string{
			"Commands run as user 65532 without capabilities and cannot gain any. A line of shell that runs as root keeps their streams " +
				"apart and within bounds, ends all that they left behind, and reports.",
			"On docker and podman a place has no network, and an image is never fetched. Elsewhere only --network open is taken.",
			"A place that does not obey is deleted. When Assay or Harbor is killed, the next run removes what was left on this host.",
			"Harbor gets the credentials of its own backend and no keys of models.",
		},
		Isolation: "Places are made by Harbor, whose backend decides what walls they have. Commands run there as a user without " +
			"powers, and no place reaches the model gateway.",
		Keys:   "container",
		Params: HarborParams{},
		Build:  buildHarbor,
	},
}
