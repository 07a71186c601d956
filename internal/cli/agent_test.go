package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// fakeAgent is a program with many behaviours, most of them bad: the agents that the zoo is made of. The task of the zoo is
// to write the word FIXED into answer.txt.
func fakeAgent(args []string) int {
	behaviour, ok := behaviours[args[0]]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such behaviour:", args[0])
		return 64
	}
	return behaviour(args[1:])
}

func fix() { must(os.WriteFile("answer.txt", []byte("FIXED\n"), 0o644)) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func forever() int {
	for {
		time.Sleep(time.Hour)
	}
}

// spawn starts this program again with another behaviour and does not wait for it.
func spawn(attr *syscall.SysProcAttr, stdout io.Writer, env []string, args ...string) {
	self, err := os.Executable()
	must(err)
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "fake-agent"
	cmd.SysProcAttr, cmd.Env, cmd.Stdout = attr, env, stdout
	must(cmd.Start())
}

var behaviours = map[string]func(args []string) int{
	"fix":     func([]string) int { fix(); fmt.Println("fixed it"); return 0 },
	"nothing": func([]string) int { return 0 },
	"talk":    func([]string) int { fmt.Println("5 passed"); return 0 },
	"lie":     func([]string) int { fix(); fmt.Println("5 passed"); return 1 },
	"exit-7":  func([]string) int { fix(); fmt.Println("working"); return 7 },
	"die": func([]string) int {
		fmt.Println("working")
		must(syscall.Kill(os.Getpid(), syscall.SIGKILL))
		return forever()
	},
	"hang":      func([]string) int { return forever() },
	"talk-hang": func([]string) int { fmt.Println("thinking"); return forever() },
	"ignore-term": func([]string) int {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		fmt.Println("thinking")
		return forever()
	},
	// All at once: it ignores that it is told to end, and has a daemon that nothing of it marks.
	"entrench": func([]string) int {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		spawn(&syscall.SysProcAttr{Setsid: true}, os.Stdout, []string{}, "daemon-2")
		fmt.Println("thinking")
		return forever()
	},
	"close-stdout": func([]string) int {
		fmt.Println("thinking")
		must(os.Stdout.Close())
		must(os.Stderr.Close())
		return forever()
	},
	// A grandchild in a session of its own, without the environment that could mark it, outlives its parents.
	"daemon": func([]string) int {
		spawn(&syscall.SysProcAttr{Setsid: true}, nil, []string{}, "daemon-2")
		time.Sleep(100 * time.Millisecond)
		fix()
		fmt.Println("done")
		return 0
	},
	"daemon-2": func([]string) int {
		spawn(&syscall.SysProcAttr{Setsid: true}, nil, []string{}, "hang")
		return 0
	},
	"hold-stdout": func([]string) int {
		spawn(nil, os.Stdout, os.Environ(), "hang")
		fix()
		fmt.Println("done")
		return 0
	},
	"many-children": func([]string) int {
		for range 30 {
			spawn(nil, nil, os.Environ(), "hang")
		}
		fix()
		fmt.Println("done")
		return 0
	},
	// A child goes on writing into the tree after its parent has ended.
	"late-writer": func([]string) int {
		spawn(&syscall.SysProcAttr{Setsid: true}, nil, []string{}, "keep-writing")
		time.Sleep(100 * time.Millisecond)
		fix()
		fmt.Println("done")
		return 0
	},
	"keep-writing": func([]string) int {
		for i := 0; ; i++ {
			os.WriteFile("late.txt", []byte(strings.Repeat("late\n", i%100)), 0o644)
			time.Sleep(time.Millisecond)
		}
	},
	"flood": func([]string) int {
		fix()
		lines := bytes.Repeat([]byte(strings.Repeat("x", 99)+"\n"), 10_000)
		for n := 0; n < 1<<30; n += len(lines) {
			if _, err := os.Stdout.Write(lines); err != nil {
				return 1
			}
		}
		return 0
	},
	"one-line": func([]string) int {
		fix()
		block := bytes.Repeat([]byte("y"), 1<<20)
		for range 1 << 10 {
			if _, err := os.Stdout.Write(block); err != nil {
				return 1
			}
		}
		return 0
	},
	"stderr-flood": func([]string) int {
		os.Stderr.Write(bytes.Repeat([]byte("e"), 300_000))
		fix()
		fmt.Println("done")
		return 0
	},
	"bad-utf8": func([]string) int {
		fix()
		os.Stdout.Write([]byte("\xff\xfe\x00done \x1b[31mred\xc3\n"))
		return 0
	},
	"read-stdin": func([]string) int {
		io.Copy(io.Discard, os.Stdin)
		fix()
		fmt.Println("done")
		return 0
	},
	// The trace that an agent writes about itself proves nothing: the exit code is 3.
	"forge-trace": func(args []string) int {
		fix()
		os.WriteFile(args[0], []byte(`{"schema":1,"seq":1,"kind":"stop","stop":{"reason":"end_turn"}}`+"\n"), 0o644)
		return 3
	},
	"write-outside": func([]string) int {
		os.WriteFile("../../../outside.txt", []byte("x"), 0o644)
		os.WriteFile("../result.json", []byte(`{"status":"passed"}`), 0o644)
		os.WriteFile(os.Getenv("HOME")+"/note.txt", []byte("x"), 0o644)
		fmt.Println("done")
		return 0
	},
	// The hidden test's place is taken: by a test that always passes, by a link to a file of the host, by a FIFO.
	"own-test": func([]string) int {
		os.WriteFile("test.sh", []byte("exit 0\n"), 0o755)
		fmt.Println("done")
		return 0
	},
	"link-test": func(args []string) int {
		must(os.Symlink(args[1], "test.sh"))
		fix()
		fmt.Println("done")
		return 0
	},
	"fifo": func([]string) int {
		must(syscall.Mkfifo("test.sh", 0o644))
		must(syscall.Mkfifo("pipe", 0o644))
		fix()
		fmt.Println("done")
		return 0
	},
	"links": func([]string) int {
		must(os.Symlink("/", "root"))
		must(os.Symlink("loop-b", "loop-a"))
		must(os.Symlink("loop-a", "loop-b"))
		must(os.Symlink("..", "up"))
		must(os.Remove("answer.txt"))
		must(os.Symlink("/etc/hostname", "answer.txt"))
		fmt.Println("done")
		return 0
	},
	"git": func([]string) int {
		must(os.MkdirAll(".git/hooks", 0o755))
		must(os.WriteFile(".git/config", []byte("[core]\n\tfsmonitor = touch pwned\n"), 0o644))
		must(os.WriteFile(".gitattributes", []byte("* -diff\n"), 0o644))
		fix()
		fmt.Println("done")
		return 0
	},
	"delete-all": func([]string) int {
		names, err := filepath.Glob("*")
		must(err)
		for _, n := range names {
			must(os.RemoveAll(n))
		}
		fmt.Println("done")
		return 0
	},
	"no-permission": func([]string) int {
		must(os.MkdirAll("dark/deep", 0o755))
		must(os.WriteFile("dark/deep/x", []byte("x"), 0))
		must(os.Chmod("dark/deep", 0))
		fix()
		fmt.Println("done")
		return 0
	},
	"sparse": func([]string) int {
		f, err := os.Create("huge")
		must(err)
		err = f.Truncate(1 << 40) // where files have a limit, it cannot
		must(f.Close())
		fix()
		fmt.Println("done", err)
		return 0
	},
	"many-files": func([]string) int {
		for i := range 3_000 {
			if i%200 == 0 {
				must(os.MkdirAll(fmt.Sprintf("d%d", i/200), 0o755))
			}
			must(os.WriteFile(fmt.Sprintf("d%d/f%d", i/200, i), nil, 0o644))
		}
		fix()
		fmt.Println("done")
		return 0
	},
	"odd-names": func([]string) int {
		for _, name := range []string{"-rf", "a\nb", "\xff\xfe", ":(glob)", strings.Repeat("n", 255), `"q"`, "t\tt"} {
			must(os.WriteFile(name, []byte("x\n"), 0o644))
		}
		fix()
		fmt.Println("done")
		return 0
	},
	"snoop": snoop,
	"env": func([]string) int {
		must(os.WriteFile("env.txt", []byte(strings.Join(os.Environ(), "\n")), 0o644))
		fix()
		fmt.Println("done")
		return 0
	},
	// Writes down what it was given: its arguments, and the files and folders that they name; says how it is greeted.
	"show": func(args []string) int {
		out, err := os.Create("given.txt")
		must(err)
		for _, arg := range args {
			fmt.Fprintf(out, "[%s]\n", filepath.Base(arg))
			must(filepath.WalkDir(arg, func(name string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return nil // an argument need not be a path
				}
				b, err := os.ReadFile(name)
				fmt.Fprintf(out, "%s: %s\n", filepath.Base(name), b)
				return err
			}))
		}
		must(out.Close())
		fix()
		fmt.Println("GREETING=" + os.Getenv("GREETING"))
		return 0
	},
	// The disk of the place is small: the agent fills it and gives up.
	"fill-disk": func([]string) int {
		f, err := os.Create("fill")
		must(err)
		block := make([]byte, 1<<20)
		for {
			if _, err := f.Write(block); err != nil {
				fmt.Println("disk full:", err)
				return 1
			}
		}
	},
	// Speaks the Agent Client Protocol and asks a model once, with the skills that it was given and those of the tree. Its
	// first argument says what of that it does wrong.
	"acp": func(args []string) int {
		how, gateway, model, skills := args[0], args[1], args[2], args[3]
		in := json.NewDecoder(os.Stdin)
		for {
			var frame struct {
				ID     json.RawMessage
				Method string
			}
			if err := in.Decode(&frame); err != nil {
				return 0
			}
			result := `{"protocolVersion":1,"agentCapabilities":{},"sessionId":"s","stopReason":"end_turn"}`
			if frame.Method == "session/prompt" && how != "around" {
				fix()
				askModel(how, gateway, model, skills)
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", frame.ID, result)
		}
	},
}

// askModel sends one request whose system prompt holds the skills that can be found.
func askModel(how, gateway, model, skills string) {
	system := ""
	for _, dir := range []string{skills, ".claude/skills"} {
		files, err := filepath.Glob(filepath.Join(dir, "*", "SKILL.md"))
		must(err)
		for _, name := range files {
			if b, err := os.ReadFile(name); err == nil && !(how == "lossy" && dir == skills) {
				system += string(b)
			}
		}
	}
	body := map[string]any{"model": model, "messages": []any{
		map[string]any{"role": "system", "content": system}, map[string]any{"role": "user", "content": "Fix it."},
	}}
	if how != "toolless" {
		body["tools"] = []any{map[string]any{"type": "function", "function": map[string]any{"name": "bash"}}}
	}
	b, err := json.Marshal(body)
	must(err)
	resp, err := http.Post(gateway+"/chat/completions", "application/json", bytes.NewReader(b))
	must(err)
	resp.Body.Close()
}
