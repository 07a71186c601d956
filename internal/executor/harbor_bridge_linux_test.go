package executor

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// playBridge is a process in the place of Harbor's: the part says how it misbehaves.
func playBridge(part string) int {
	sum := sha256.Sum256(bridgeSource)
	hello := bridgeHello{Proto: bridgeProto, Bridge: hex.EncodeToString(sum[:]), Python: "3.12", Harbor: "0.25.3"}
	switch part {
	case "other-proto":
		hello.Proto++
	case "other-source":
		hello.Bridge = strings.Repeat("0", 64)
	case "old-python":
		hello.Python = "3.11"
	case "odd-python":
		hello.Python = "12"
	case "no-harbor":
		hello.Harbor = ""
	case "other-harbor":
		hello.Harbor = "0.26.0"
	case "silent-death":
		fmt.Fprintln(os.Stderr, "ModuleNotFoundError: no such thing")
		return 1
	case "chatter":
		fmt.Println("Welcome to Harbor!")
	case "no-hello":
		fmt.Println(`{"id":0,"ok":true}`)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"id": 0, "ok": true, "hello": hello})
	requests := bufio.NewScanner(os.Stdin)
	var held []request
	for requests.Scan() {
		var r request
		if json.Unmarshal(requests.Bytes(), &r) != nil {
			return 3
		}
		switch part {
		case "garbage":
			fmt.Println("{]")
		case "huge-line":
			os.Stdout.Write(bytes.Repeat([]byte("x"), maxAnswer+128<<10))
		case "nobody-asked":
			fmt.Println(`{"id":99,"ok":true}`)
		case "dies":
			fmt.Fprintln(os.Stderr, "Segmentation fault")
			return 139
		case "half-line":
			fmt.Print(`{"id":1,"ok":tr`)
			return 0
		case "no-credentials":
			fmt.Printf(`{"id":%d,"ok":false,"error":{"type":"credentials","message":"set DAYTONA_API_KEY","cause":"SystemExit","retry":false}}`+"\n", r.ID)
		case "backwards": // answers three requests in reverse
			if held = append(held, r); len(held) == 3 {
				for i := len(held) - 1; i >= 0; i-- {
					fmt.Printf(`{"id":%d,"ok":true,"out":%q}`+"\n", held[i].ID, held[i].Command)
				}
			}
		case "until-cancelled":
			if r.Do == "cancel" {
				fmt.Printf(`{"id":%d,"ok":false,"error":{"type":"cancelled","message":"","cause":"CancelledError"}}`+"\n", r.Target)
				fmt.Printf(`{"id":%d,"ok":true}`+"\n", r.ID)
			}
		}
	}
	return 0
}

func fakeBridge(t *testing.T, part string) (*bridge, error) {
	t.Helper()
	b, err := startBridge(t.Context(), []string{self("")[0], "bridge", part}, nil, t.TempDir())
	if err == nil {
		t.Cleanup(func() { b.close() })
	}
	return b, err
}

func TestBridgeRefusesAnyoneElse(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{
		"other-proto":  "no_cli: what its Python runs is not our bridge",
		"other-source": "no_cli: what its Python runs is not our bridge",
		"no-hello":     "no_cli: what its Python runs is not our bridge",
		"old-python":   `no_cli: its Python is "3.11"; Harbor needs 3.12`,
		"odd-python":   `no_cli: its Python is "12"; Harbor needs 3.12`,
		"no-harbor":    "no_cli: its Python has no Harbor; install harbor==0.25.0 there",
		"other-harbor": `no_cli: its Harbor is "0.26.0", and the bridge is written for harbor==0.25.0`,
		"silent-death": "unknown: harbor: its process ended; it said \"ModuleNotFoundError: no such thing\\n\"",
		"chatter":      "unknown: harbor: its process said \"Welcome to Harbor!\", which is no answer",
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			_, err := fakeBridge(t, part)
			var u *Unavailable
			if !errors.As(err, &u) || !strings.HasPrefix(u.Error(), "executor harbor: "+want) {
				t.Errorf("got %v\nwant executor harbor: %s", err, want)
			}
		})
	}
	t.Run("absent", func(t *testing.T) {
		_, err := startBridge(t.Context(), []string{"/nowhere/python3.12"}, nil, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "no_cli: fork/exec /nowhere/python3.12: no such file or directory; name a Python") {
			t.Error(err)
		}
	})
}

// TestBridgeThatBreaks: whoever waits is woken with what is known, and no process is left.
func TestBridgeThatBreaks(t *testing.T) {
	t.Parallel()
	for part, want := range map[string]string{
		"garbage":      `harbor: its process said "{]", which is no answer`,
		"huge-line":    "harbor: its process said a line of more than 8388608 bytes",
		"nobody-asked": "harbor: its process answered request 99, which nobody made",
		"dies":         `harbor: its process ended; it said "Segmentation fault\n"`,
		"half-line":    "harbor: unexpected EOF",
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			b, err := fakeBridge(t, part)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.ask(t.Context(), request{Do: "exec"}); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			if _, err := b.ask(t.Context(), request{Do: "exec"}); err == nil {
				t.Error("a request to a process that ended was answered")
			}
			if b.process.ProcessState == nil {
				t.Error("the process was not collected")
			}
		})
	}
}

func TestBridgeAnswersInAnyOrder(t *testing.T) {
	t.Parallel()
	b, err := fakeBridge(t, "backwards")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, text := range []string{"a", "b", "c"} {
		all.Go(func() {
			if a, err := b.ask(t.Context(), request{Do: "exec", Command: text}); err != nil || a.Out != text {
				t.Errorf("%s was answered %q, %v", text, a.Out, err)
			}
		})
	}
	all.Wait()
}

func TestBridgeCallsARequestOff(t *testing.T) {
	t.Parallel()
	b, err := fakeBridge(t, "until-cancelled")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = b.ask(ctx, request{Do: "exec"})
	var f *bridgeFault
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &f) || f.Type != "cancelled" {
		t.Errorf("got %v, want a deadline and the word of the other side", err)
	}
}

func TestMissingCredentialsAreNoAuth(t *testing.T) {
	t.Parallel()
	b, err := fakeBridge(t, "no-credentials")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.ask(t.Context(), request{Do: "caps", Backend: "daytona"})
	for engine, want := range map[string]string{"": "no_auth: set DAYTONA_API_KEY", "docker": "no_daemon: set DAYTONA_API_KEY"} {
		got := (&harborBackend{kind: harborKind{name: "x", engine: engine}}).refusal(err).Error()
		if want := "executor harbor, backend x: " + want; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestHarborRefusesWhatItCannotHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backend, engine string
		asked, want     Network
		refused         string
	}{
		{"docker", "docker", "", NetNone, ""},
		{"docker", "docker", NetNone, NetNone, ""},
		{"docker", "docker", NetOpen, NetOpen, ""},
		{"docker", "docker", NetGateway, "", "policy_unenforceable: the model gateway is on this host"},
		{"e2b", "", NetOpen, NetOpen, ""},
		{"e2b", "", "", "", "policy_unenforceable: nobody has tried"},
		{"e2b", "", NetNone, "", "policy_unenforceable: nobody has tried"},
		{"e2b", "", NetGateway, "", "policy_unenforceable: the model gateway"},
	} {
		b := &harborBackend{kind: harborKind{name: c.backend, engine: c.engine}}
		got, err := b.network(c.asked)
		if got != c.want || (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s asked for %q: %q, %v", c.backend, c.asked, got, err)
		}
	}
}

// TestHarborGetsNoKeys: its process holds the credentials of its own backend, and nothing else of ours.
func TestHarborGetsNoKeys(t *testing.T) {
	t.Parallel()
	b := &harborBackend{kind: harborKinds[2], session: Session{Environ: []string{
		"PATH=/bin", "HOME=/root", "OPENAI_API_KEY=canary", "GITHUB_TOKEN=canary", "MODAL_TOKEN_ID=canary", "PATHS=canary", "DAYTONA_API_KEY=its own",
	}}}
	want := []string{"HARBOR_TELEMETRY=off", "PATH=/bin", "HOME=/root", "DAYTONA_API_KEY=its own"}
	if diff := cmp.Diff(want, b.env()); diff != "" {
		t.Error(diff)
	}
}

func TestShellWordsComeBack(t *testing.T) {
	t.Parallel()
	words := []string{"", "a b", "it's", `\`, "$HOME `id` \"x\"", "\n", "-n", "*", "\xff\x01"}
	out, err := exec.Command("sh", "-c", `set -- `+shellWords(words)+`; for w; do printf '%s\0' "$w"; done`).Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Join(words, "\x00")+"\x00", string(out)); diff != "" {
		t.Error(diff)
	}
}

func TestParseReport(t *testing.T) {
	t.Parallel()
	got, err := parseReport("assay 137 SIGKILL 1 2 0 3 0 4 5,c2xlZXAgMQ==,,\nYWJj\nZGVmZw==\n")
	want := farReport{
		code: -1, signal: "SIGKILL", stopped: true, swept: 2, survivors: []string{"sleep 1"},
		out: farStream{kept: 3, data: []byte("abc"), inline: true}, err: farStream{kept: 4, more: 5, data: []byte("defg"), inline: true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(farReport{}, farStream{})); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, bad := range []string{
		"", "bash: not found", "assay 0 - 0 0 0 0 0 0", "assay 0 - 0 0 0 -1 0 0 0,\n\n\n", "assay x - 0 0 0 0 0 0 0,\n\n\n",
		"assay 0 - 0 0 0 3 0 0 0,\nYW\n\n", "assay 0 - 0 0 0 4 0 0 0,\nYWJj\n\n",
	} {
		if _, err := parseReport(bad); !errors.Is(err, errNoReport) {
			t.Errorf("%q was understood: %v", bad, err)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add("assay 137 SIGKILL 1 2 0 3 0 4 5,c2xlZXAgMQ==,\nYWJj\nZGVmZw==\n")
	f.Add("assay 0 - 0 0 0 99999999 0 0 0,\n")
	f.Fuzz(func(t *testing.T, out string) {
		r, err := parseReport(out)
		if err == nil && (r.out.kept < 0 || r.out.inline && int64(len(r.out.data)) != r.out.kept) {
			t.Errorf("%q became %+v", out, r)
		}
		parseLook(out)
	})
}

func FuzzBridgeLines(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"ok\":true}\n{\"id\":2}\n"))
	f.Add([]byte("{\"id\":1e99}\n\n[]\nnull"))
	f.Fuzz(func(t *testing.T, said []byte) {
		lines := bufio.NewReaderSize(bytes.NewReader(said), 16)
		for {
			line, err := readLine(lines, 64)
			if err != nil {
				return
			}
			if len(line) > 64 || bytes.ContainsRune(line, '\n') {
				t.Fatalf("%q is no line", line)
			}
			parseAnswer(line)
		}
	})
}

func TestStateSince(t *testing.T) {
	t.Parallel()
	dir, file := fs.ModeDir|0o755, fs.FileMode(0o644)
	before := state{
		"work": {mode: dir, inode: 1}, "work/a": {mode: file, size: 1, inode: 2}, "work/b": {mode: file, inode: 3},
		"work/d": {mode: dir, inode: 4}, "work/d/x": {mode: file, inode: 5}, "work/e": {mode: dir, inode: 6}, "work/e/y": {mode: file, inode: 7},
	}
	after := state{
		"work": {mode: dir, inode: 1}, "work/a": {mode: file, size: 2, inode: 2}, "work/c": {mode: file, inode: 8},
		"work/d": {mode: file, inode: 9}, "work/e": {mode: dir, inode: 10}, "work/e/y": {mode: file, inode: 7},
	}
	fresh, gone := after.since(before)
	if diff := cmp.Diff([]string{"work/a", "work/c", "work/d", "work/e", "work/e/y"}, fresh); diff != "" {
		t.Error("fresh", diff)
	}
	if diff := cmp.Diff([]string{"work/b", "work/d", "work/d/x", "work/e"}, gone); diff != "" {
		t.Error("gone", diff)
	}
	if fresh, gone := after.since(after); fresh != nil || gone != nil {
		t.Error("nothing changed, and yet", fresh, gone)
	}
}

type tarEntry struct {
	tar.Header
	text string
}

func packed(t testing.TB, entries ...tarEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Size = int64(len(e.text))
		if e.Typeflag == 0 {
			e.Typeflag = tar.TypeReg
		}
		if err := errors.Join(w.WriteHeader(&e.Header), second(io.WriteString(w, e.text))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func second(_ int, err error) error { return err }

func unpack(t testing.TB, sent []byte) (dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return dir, unpackTar(bytes.NewReader(sent), root, []string{"work"})
}

func workDir() tarEntry {
	return tarEntry{Header: tar.Header{Name: "work/", Mode: 0o755, Typeflag: tar.TypeDir}}
}

// TestA13PlaceSendsNothingOutside: a tar file of a place is what a stranger sent.
func TestA13PlaceSendsNothingOutside(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(outside, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(name, to string) tarEntry {
		return tarEntry{Header: tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}}
	}
	file := func(name string) tarEntry {
		return tarEntry{Header: tar.Header{Name: name, Mode: 0o644}, text: "evil"}
	}
	for name, sent := range map[string][]byte{
		"absolute":        packed(t, workDir(), file(outside)),
		"dots":            packed(t, workDir(), file("work/../../canary")),
		"other folder":    packed(t, file("home/x")),
		"through a link":  packed(t, workDir(), link("work/l", filepath.Dir(outside)), file("work/l/canary")),
		"chained links":   packed(t, workDir(), link("work/a", "."), link("work/b", "a/../.."), file("work/b/canary")),
		"over a link":     packed(t, workDir(), link("work/l", outside), file("work/l")),
		"second name":     packed(t, workDir(), tarEntry{Header: tar.Header{Name: "work/h", Linkname: outside, Typeflag: tar.TypeLink}}),
		"name of a link":  packed(t, workDir(), link("work/l", outside), tarEntry{Header: tar.Header{Name: "work/h", Linkname: "work/l", Typeflag: tar.TypeLink}}),
		"twice":           packed(t, workDir(), file("work/x"), file("work/x")),
		"below a file":    packed(t, workDir(), file("work/x"), file("work/x/y")),
		"work is a link":  packed(t, link("work", filepath.Dir(outside)), file("work/canary")),
		"no tar":          []byte("hello"),
		"nothing at once": {},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := unpack(t, sent)
			if err == nil && name != "nothing at once" {
				t.Error("it was laid out")
			}
			if text, err := os.ReadFile(outside); err != nil || string(text) != canary {
				t.Errorf("the file outside holds %q, %v", text, err)
			}
		})
	}
}

func TestPlaceSendsItsTree(t *testing.T) {
	t.Parallel()
	sent := packed(t, workDir(),
		tarEntry{Header: tar.Header{Name: "work/run", Mode: 0o4755}, text: "#!/bin/sh\n"},
		tarEntry{Header: tar.Header{Name: "work/again", Linkname: "work/run", Typeflag: tar.TypeLink}},
		tarEntry{Header: tar.Header{Name: "work/to", Linkname: "../elsewhere", Typeflag: tar.TypeSymlink}},
		tarEntry{Header: tar.Header{Name: "work/closed", Mode: 0, Typeflag: tar.TypeDir}},
		tarEntry{Header: tar.Header{Name: "work/closed/in", Mode: 0}, text: "x"},
		tarEntry{Header: tar.Header{Name: "work/pipe", Typeflag: tar.TypeFifo}},
	)
	dir, err := unpack(t, sent)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	got, err := folder{root: root}.List("work")
	want := []Entry{
		{Path: "work/again", Mode: 0o755, Size: 10}, {Path: "work/closed", Mode: fs.ModeDir | 0o700}, {Path: "work/closed/in", Size: 1},
		{Path: "work/run", Mode: 0o755, Size: 10}, {Path: "work/to", Mode: fs.ModeSymlink | 0o777, Link: "../elsewhere"},
	}
	for i := range got {
		if got[i].Mode&fs.ModeType != 0 {
			got[i].Size = 0 // of folders and links, a matter of the file system
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestPlaceThatSendsTooMuch: the file that was cut has its whole length, so that whoever measures the tree finds it too large.
func TestPlaceThatSendsTooMuch(t *testing.T) {
	t.Parallel()
	sent := packed(t, workDir(), tarEntry{Header: tar.Header{Name: "work/big", Mode: 0o644}, text: strings.Repeat("x", 100<<10)})
	dir, err := unpack(t, sent[:50<<10])
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "work/big")); err != nil || info.Size() != 100<<10 {
		t.Errorf("%v, %v", info, err)
	}
}

func FuzzUnpackTar(f *testing.F) {
	f.Add(packed(f, workDir(), tarEntry{Header: tar.Header{Name: "work/a", Mode: 0o644}, text: "x"}))
	f.Add(packed(f, workDir(), tarEntry{Header: tar.Header{Name: "work/l", Linkname: "..", Typeflag: tar.TypeSymlink}}))
	f.Fuzz(func(t *testing.T, sent []byte) {
		dir, _ := unpack(t, sent)
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 1 || len(entries) == 1 && entries[0].Name() != "work" {
			t.Errorf("%v, %v", entries, err)
		}
	})
}

// TestPackedTreeComesBack: what goes to a place is what would come from there.
func TestPackedTreeComesBack(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(from, "work/sub"), 0o755), os.WriteFile(filepath.Join(from, "work/sub/f"), []byte("a\x00b"), 0o755),
		os.Symlink("sub/f", filepath.Join(from, "work/l"))); err != nil {
		t.Fatal(err)
	}
	now, err := stateOf(from, []string{"work", "absent"})
	if err != nil {
		t.Fatal(err)
	}
	fresh, gone := now.since(nil)
	root, err := os.OpenRoot(from)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var sent bytes.Buffer
	if err := packTar(&sent, root, fresh, gone); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&sent)
	if h, err := r.Next(); err != nil || h.Name != goneName {
		t.Fatal(h, err)
	}
	var names []string
	for {
		h, err := r.Next()
		if err != nil {
			break
		}
		if h.Uid != farUID || h.Gid != farUID || h.Uname != "" {
			t.Errorf("%s belongs to %d", h.Name, h.Uid)
		}
		names = append(names, h.Name)
	}
	if diff := cmp.Diff([]string{"work/", "work/l", "work/sub/", "work/sub/f"}, names); diff != "" {
		t.Error(diff)
	}
}
