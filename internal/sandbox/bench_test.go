package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// onTmpfs makes temp folders of a benchmark lie in memory, where that is to be had.
func onTmpfs(b *testing.B) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		b.Setenv("TMPDIR", "/dev/shm")
	}
}

func benchOpen(b *testing.B, files map[string]string, n Needs) {
	onTmpfs(b)
	s := newSandbox(b, nil)
	write(b, filepath.Join(s.Suite, "f"), files)
	src := resolve(b, s, folderCase("f"))
	b.ReportAllocs()
	for b.Loop() {
		p, err := s.Open(b.Context(), src, n)
		must(b, err)
		must(b, p.Close(b.Context()))
	}
}

var three = map[string]string{"main.go": strings.Repeat("x", 2000), "main_test.go": strings.Repeat("y", 2000), "go.mod": "module m\n"}

func BenchmarkOpenCloseThreeFiles(b *testing.B) { benchOpen(b, three, Needs{}) }

func BenchmarkGradingThreeFiles(b *testing.B) {
	onTmpfs(b)
	s := newSandbox(b, nil)
	write(b, filepath.Join(s.Suite, "f"), three)
	write(b, filepath.Join(s.Suite, "hidden"), map[string]string{"hidden_test.go": "x"})
	c := folderCase("f")
	c.Hidden = "hidden"
	hidden, err := s.Assets(b.Context(), c)
	must(b, err)
	src := resolve(b, s, c)
	for b.Loop() {
		p, _, err := s.Grading(b.Context(), src, Handover{Tree: handed(three), Hidden: hidden}, Needs{})
		must(b, err)
		must(b, p.Close(b.Context()))
	}
}

func manyFiles(n, size int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("d%02d/e%d/f%04d.txt", i%40, i%5, i)] = strings.Repeat(string(rune('a'+i%26)), size)
	}
	return files
}

func BenchmarkOpen2000Files(b *testing.B)  { benchOpen(b, manyFiles(2000, 2000), Needs{}) }
func BenchmarkOpen20000Files(b *testing.B) { benchOpen(b, manyFiles(20000, 2000), Needs{}) }

// BenchmarkShow does the same with overlay mounts.
func BenchmarkShow600Files(b *testing.B)   { benchShow(b, 600) }
func BenchmarkShow2000Files(b *testing.B)  { benchShow(b, 2000) }
func BenchmarkShow20000Files(b *testing.B) { benchShow(b, 20000) }
func BenchmarkOpen600Files(b *testing.B)   { benchOpen(b, manyFiles(600, 2000), Needs{}) }

func benchShow(b *testing.B, n int) {
	onTmpfs(b)
	s := newSandbox(b, nil)
	if s.Overlay = canOverlay(s.Scratch); !s.Overlay {
		b.Skip("overlays cannot be mounted here")
	}
	write(b, filepath.Join(s.Suite, "f"), manyFiles(n, 2000))
	src := resolve(b, s, folderCase("f"))
	open := func() {
		p, err := s.Open(b.Context(), src, Needs{})
		must(b, err)
		must(b, p.Close(b.Context()))
	}
	open() // the first one lays the tree out
	for b.Loop() {
		open()
	}
}

// BenchmarkCopyA2000Files is the yardstick of BenchmarkOpen2000Files: cp -a and rm -r.
func BenchmarkCopyA2000Files(b *testing.B)  { benchCopyA(b, 2000) }
func BenchmarkCopyA20000Files(b *testing.B) { benchCopyA(b, 20000) }

func benchCopyA(b *testing.B, n int) {
	onTmpfs(b)
	dir := b.TempDir()
	write(b, filepath.Join(dir, "f"), manyFiles(n, 2000))
	for b.Loop() {
		must(b, exec.Command("cp", "-a", filepath.Join(dir, "f"), filepath.Join(dir, "g")).Run())
		must(b, os.RemoveAll(filepath.Join(dir, "g")))
	}
}

// BenchmarkPlaces tells how long a cell waits for its place. make bench holds it against its bars.
func BenchmarkPlaces(b *testing.B) {
	onTmpfs(b)
	for b.Loop() {
		for _, n := range []int{2000, 20000} {
			s := newSandbox(b, nil)
			write(b, filepath.Join(s.Suite, "f"), manyFiles(n, 2000))
			src := resolve(b, s, folderCase("f"))
			b.ReportMetric(readyIn(b, s, src, Needs{}), fmt.Sprintf("ms/%d-files-copied", n))
			if s.Overlay = canOverlay(s.Scratch); s.Overlay {
				b.ReportMetric(readyIn(b, s, src, Needs{}), fmt.Sprintf("ms/%d-files-shown", n))
			}
		}
	}
}

// readyIn is how long a place takes that is not the first, in milliseconds: the median of five.
func readyIn(b *testing.B, s *Sandbox, src *Source, n Needs) float64 {
	var taken []float64
	for range 6 {
		started := time.Now()
		p, err := s.Open(b.Context(), src, n)
		must(b, err)
		taken = append(taken, float64(time.Since(started))/float64(time.Millisecond))
		must(b, p.Close(b.Context()))
	}
	slices.Sort(taken[1:])
	return taken[3]
}

// BenchmarkEnvironments sets a place whose environment a run before has made against one whose environment is made anew.
// Both start with nothing read: the first place of a run is the dearest one.
func BenchmarkEnvironments(b *testing.B) {
	onTmpfs(b)
	const name = "tiny-1.0-py3-none-any.whl"
	for b.Loop() {
		benchEnvironment(b, "venv", "{type: venv, requirements: [requirements.txt], inputs: ["+name+"]}",
			map[string]string{"f/" + name: wheel(b, "x"), "f/requirements.txt": "./" + name + "\n"})
		benchEnvironment(b, "node", "{type: node, inputs: [tiny-1.0.0.tgz, packages]}", npmSource(b))
	}
}

func benchEnvironment(b *testing.B, name, settings string, files map[string]string) {
	s := newSandbox(b, files)
	src, n := resolve(b, s, folderCase("f")), Needs{Environment: environment(b, settings)}
	ready := func() time.Duration {
		s.cache = newCache(s.Cache, s.memory)
		started := time.Now()
		p, err := s.Open(b.Context(), src, n)
		must(b, err)
		took := time.Since(started)
		must(b, p.Close(b.Context()))
		return took
	}
	rebuilt := ready()
	cached := ready()
	b.ReportMetric(float64(cached)/float64(rebuilt), name+"-cached/rebuilt")
	b.Logf("%s: rebuilt in %v, cached in %v", name, rebuilt, cached)
}

// BenchmarkOpenEnvironment copies 50 MB in 1,000 files beside a small tree.
func BenchmarkOpenEnvironment(b *testing.B) {
	benchOpen(b, three, Needs{Environment: environment(b,
		`{type: command, run: ["for i in $(seq 1000); do head -c 50000 /dev/zero > {env}/$i; done"], inputs: [go.mod]}`)})
}
