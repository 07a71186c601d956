package executor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// This is our side of a process that speaks to Harbor. The other side is bridge.py, whose docstring tells the protocol.

//go:embed bridge.py
var bridgeSource []byte

// What the other side must be.
const (
	bridgeProto   = 1
	harborRelease = "0.25."
	harborInstall = "harbor==0.25.0"
	oldestPython  = 12 // of Python 3
)

const (
	helloTime  = 2 * time.Minute // a busy host imports for a while, and uv may have to install
	lastWords  = 4 << 10         // bytes of standard error that are kept
	maxAnswer  = 8 << 20         // bytes of a line
	bridgeStop = 30 * time.Second
)

// A bridge is one process of Harbor, which has one place or none.
type bridge struct {
	process *exec.Cmd
	log     *lastBytes

	mu      sync.Mutex
	in      io.WriteCloser
	last    int                 // id of the last request
	waiting map[int]chan answer // for the final line of a request
	ended   chan struct{}       // closed when there will be no more answers
	why     error               // set before ended is closed
}

// A request is one line to the bridge.
type request struct {
	ID         int      `json:"id"`
	Do         string   `json:"do"`
	Backend    string   `json:"backend,omitempty"`
	Image      string   `json:"image,omitempty"`
	Folder     string   `json:"folder,omitempty"`
	Session    string   `json:"session,omitempty"`
	CPUs       float64  `json:"cpus,omitempty"`
	CPUMode    string   `json:"cpu_mode,omitempty"`
	MemoryMB   int64    `json:"memory_mb,omitempty"`
	MemoryMode string   `json:"memory_mode,omitempty"`
	Compose    []string `json:"compose,omitempty"`
	Command    string   `json:"command,omitempty"`
	Src        string   `json:"src,omitempty"`
	Dst        string   `json:"dst,omitempty"`
	Target     int      `json:"target,omitempty"`
}

// An answer is the final line of a request. The first line of all answers request 0.
type answer struct {
	ID    int           `json:"id"`
	OK    bool          `json:"ok"`
	Error *bridgeFault  `json:"error"`
	Hello *bridgeHello  `json:"hello"`
	Caps  resourceModes `json:"caps"`
	Code  int           `json:"code"`
	Out   string        `json:"out"`
}

// A bridgeHello says who is at the other side.
type bridgeHello struct {
	Proto  int    `json:"proto"`
	Bridge string `json:"bridge"` // sha256 of its source, as hex
	Python string `json:"python"` // such as 3.12
	Harbor string `json:"harbor"` // its release; empty: it is not installed
}

// resourceModes say how a backend can hold a place to its limits.
type resourceModes struct {
	CPULimit      bool `json:"cpu_limit"`
	CPURequest    bool `json:"cpu_request"`
	MemoryLimit   bool `json:"memory_limit"`
	MemoryRequest bool `json:"memory_request"`
}

// A bridgeFault is what went wrong at the other side. Type is credentials, extra, unsupported, cancelled or place; Cause is
// the class of what Harbor raised; Retry tells that the same request may succeed later.
type bridgeFault struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Cause   string `json:"cause"`
	Retry   bool   `json:"retry"`
}

func (f *bridgeFault) Error() string { return fmt.Sprintf("harbor: %s (%s)", f.Message, f.Cause) }

// startBridge starts a process of Harbor, whose source is written into a folder of ours, and hears who it is. The error is an
// *Unavailable when it is not what we can speak to.
func startBridge(ctx context.Context, python []string, env []string, folder string) (*bridge, error) {
	source := filepath.Join(folder, "bridge.py")
	if err := os.WriteFile(source, bridgeSource, 0o600); err != nil {
		return nil, fmt.Errorf("harbor: %w", err)
	}
	argv := append(python[:len(python):len(python)], "-I", source)
	b := &bridge{process: exec.Command(argv[0], argv[1:]...), log: &lastBytes{most: lastWords}, waiting: map[int]chan answer{}, ended: make(chan struct{})}
	b.process.Env, b.process.Dir, b.process.Stderr = env, folder, b.log
	b.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches us alone; and all that it started can be ended
	b.process.WaitDelay = time.Second
	in, err := b.process.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("harbor: %w", err)
	}
	out, err := b.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("harbor: %w", err)
	}
	hello := make(chan answer, 1)
	b.in, b.waiting[0] = in, hello
	if err := b.process.Start(); err != nil {
		return nil, noPython(python[0], err)
	}
	go b.listen(out)
	if err := b.greet(ctx, hello); err != nil {
		b.kill()
		return nil, err
	}
	return b, nil
}

func noPython(name string, err error) error {
	return &Unavailable{What: "executor harbor", Reason: "no_cli",
		Text: fmt.Sprintf("%v; name a Python of at least 3.%d that has %s as python: of the executor, or uv", err, oldestPython, harborInstall)}
}

// greet waits for the first line.
func (b *bridge) greet(ctx context.Context, hello chan answer) error {
	select {
	case a := <-hello:
		return a.Hello.check()
	case <-b.ended:
		return &Unavailable{What: "executor harbor", Reason: "unknown", Text: b.why.Error()}
	case <-time.After(helloTime):
		return &Unavailable{What: "executor harbor", Reason: "unknown", Text: fmt.Sprintf("its Python said nothing for %v%s", helloTime, b.log.said())}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// check holds the other side to what we can speak to.
func (h *bridgeHello) check() error {
	sum := sha256.Sum256(bridgeSource)
	minor := 0
	if h != nil {
		if major, rest, _ := strings.Cut(h.Python, "."); major == "3" {
			minor, _ = strconv.Atoi(rest)
		}
	}
	var text string
	switch {
	case h == nil || h.Proto != bridgeProto || h.Bridge != hex.EncodeToString(sum[:]):
		text = "what its Python runs is not our bridge"
	case minor < oldestPython:
		text = fmt.Sprintf("its Python is %q; Harbor needs 3.%d", shorten(h.Python, 20), oldestPython)
	case h.Harbor == "":
		text = "its Python has no Harbor; install " + harborInstall + " there"
	case !strings.HasPrefix(h.Harbor, harborRelease):
		text = fmt.Sprintf("its Harbor is %q, and the bridge is written for %s, whose interface changes often", shorten(h.Harbor, 20), harborInstall)
	default:
		return nil
	}
	return &Unavailable{What: "executor harbor", Reason: "no_cli", Text: text}
}

// ask sends a request and waits for its final line. A request that the context ends is called off at the other side too, and
// answered there within a few seconds or never.
func (b *bridge) ask(ctx context.Context, r request) (answer, error) {
	final, id, err := b.send(r)
	if err != nil {
		return answer{}, err
	}
	select {
	case a := <-final:
		return b.result(a)
	case <-b.ended:
		return answer{}, b.why
	case <-ctx.Done():
	}
	if _, _, err := b.send(request{Do: "cancel", Target: id}); err != nil {
		return answer{}, err
	}
	select {
	case a := <-final:
		if _, err := b.result(a); err != nil {
			return answer{}, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return a, nil
	case <-b.ended:
		return answer{}, b.why
	case <-time.After(hardLimit):
		return answer{}, fmt.Errorf("harbor does not answer: %w", context.Cause(ctx))
	}
}

func (b *bridge) result(a answer) (answer, error) {
	switch {
	case a.OK:
		return a, nil
	case a.Error == nil:
		return a, errors.New("harbor: it failed and does not say why")
	}
	return a, a.Error
}

// send writes a request. The channel gets its answer.
func (b *bridge) send(r request) (chan answer, int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last++
	r.ID = b.last
	line, err := json.Marshal(r)
	if err != nil {
		return nil, 0, fmt.Errorf("harbor: %w", err)
	}
	final := make(chan answer, 1)
	b.waiting[r.ID] = final
	if _, err := b.in.Write(append(line, '\n')); err != nil {
		delete(b.waiting, r.ID)
		return nil, 0, fmt.Errorf("harbor: its process takes no request: %w%s", err, b.log.said())
	}
	return final, r.ID, nil
}

// listen hands out answers until there are no more, or something else than an answer comes.
func (b *bridge) listen(out io.Reader) {
	lines := bufio.NewReaderSize(out, 64<<10)
	var err error
	for err == nil {
		var line []byte
		if line, err = readLine(lines, maxAnswer); err == nil {
			err = b.hear(line)
		}
	}
	end := func() { syscall.Kill(-b.process.Process.Pid, syscall.SIGKILL) }
	if err == io.EOF {
		err = errors.New("its process ended")
		defer time.AfterFunc(hardLimit, end).Stop() // it closes its output shortly before it ends
	} else {
		end()
	}
	b.process.Wait()
	end() // what it started must not go on
	b.why = fmt.Errorf("harbor: %w%s", err, b.log.said())
	close(b.ended)
}

func (b *bridge) hear(line []byte) error {
	a, err := parseAnswer(line)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	final, ok := b.waiting[a.ID]
	if !ok {
		return fmt.Errorf("its process answered request %d, which nobody made", a.ID)
	}
	delete(b.waiting, a.ID)
	final <- a
	return nil
}

// parseAnswer understands one line.
func parseAnswer(line []byte) (answer, error) {
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("its process said %q, which is no answer: %w", shorten(string(line), 200), err)
	}
	return a, nil
}

// readLine reads a line of at most limit bytes, without its end.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, fmt.Errorf("its process said a line of more than %d bytes", limit)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case err == io.EOF && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// close ends the process by the end of its input, which deletes its place. What does not end is killed: then its place may be
// left, and who knows its backend must look for it.
func (b *bridge) close() error {
	b.mu.Lock()
	b.in.Close()
	b.mu.Unlock()
	select {
	case <-b.ended:
	case <-time.After(bridgeStop):
		b.kill()
	}
	if b.process.ProcessState.Success() {
		return nil
	}
	return fmt.Errorf("%w (%v)", b.why, b.process.ProcessState)
}

// kill ends the process and what it started.
func (b *bridge) kill() {
	syscall.Kill(-b.process.Process.Pid, syscall.SIGKILL)
	<-b.ended
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	most int
	mu   sync.Mutex
	kept []byte
}

func (l *lastBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p[max(0, len(p)-l.most):]...)
	l.kept = bytes.Clone(l.kept[max(0, len(l.kept)-l.most):])
	return len(p), nil
}

// said is what was kept, for the end of an error.
func (l *lastBytes) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) == 0 {
		return ""
	}
	return fmt.Sprintf("; it said %q", l.kept[max(0, len(l.kept)-800):])
}
