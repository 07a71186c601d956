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
	Limits         string // how memory, CPU and process limits are enforced: hard, request or none
	Isolation      string // what it does not protect, for the first lines of a run and of its report
	Keys           string // what stands between agents and our memory, which holds the keys: none, uid or container
	Params         any    // zero value of the struct that its settings decode into
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
		Networks:       []string{"open"},
		Limits:         "none",
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
		Isolation: "Each place is a container without capabilities and, unless the network is open, without a network; graders get " +
			"another one than the agent. Containers share the kernel of this host: a hole in it, or in the daemon, is not stopped.",
		Keys:   "container",
		Params: DockerParams{},
		Build:  buildDocker,
	},
}
