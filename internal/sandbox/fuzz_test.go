package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/suite"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestLinksAreResolvedAsByTheKernel: for any small tree, a link is accepted exactly when the kernel, kept in the tree by
// os.Root, can follow it.
func TestLinksAreResolvedAsByTheKernel(t *testing.T) {
	t.Parallel()
	name := rapid.SampledFrom([]string{"a", "b", "c", "d", "a/a", "a/b", "b/a", "b/c", "a/a/a", "a/a/b"})
	part := rapid.SampledFrom([]string{"a", "b", "c", "d", "..", ".", "", "x"})
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "links")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		for range rapid.IntRange(1, 7).Draw(t, "entries") {
			at := filepath.Join(dir, name.Draw(t, "name"))
			if os.MkdirAll(filepath.Dir(at), 0o755) != nil {
				continue
			}
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				_ = os.Mkdir(at, 0o755)
			case 1:
				if _, err := os.Lstat(at); err != nil {
					_ = os.WriteFile(at, nil, 0o644)
				}
			default:
				_ = os.Symlink(strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "target"), "/"), at)
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		all, err := readTree(root, foreignRules, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]*entry{}
		for i := range all.entries {
			at[all.entries[i].path] = &all.entries[i]
		}
		for _, e := range all.entries {
			if e.link == "" {
				continue
			}
			hops := 40
			_, ours := follow(at, filepath.Dir(e.path), e.link, &hops)
			if 40-hops > 7 {
				continue // os.Root gives up earlier than the kernel
			}
			_, kernel := root.Stat(e.path)
			if (ours == nil) != (kernel == nil) {
				t.Fatalf("%s to %q: we say %v, the kernel %v\n%s", e.path, e.link, ours, kernel, all.listing())
			}
		}
	})
}

// TestReadLayRead: laying a tree out and reading it again gives the same tree, from memory and from the disk.
func TestReadLayRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := tempRoot(t), tempRoot(t)
		l := newLayer(from, false)
		for range rapid.IntRange(0, 12).Draw(t, "entries") {
			name := strings.Join(rapid.SliceOfN(rapid.StringMatching(`[a-z\xe9 ]{1,3}`), 1, 4).Draw(t, "name"), "/")
			data := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "data")
			mode := rapid.SampledFrom([]fs.FileMode{0o644, 0o755}).Draw(t, "mode")
			if err := l.file(name, mode, func(f *os.File) error { _, err := f.Write(data); return err }); err != nil {
				t.Fatal(err)
			}
		}
		memory := &budget{left: rapid.SampledFrom([]int64{0, 1 << 20}).Draw(t, "memory")}
		read, err := readTree(from, sourceRules, memory)
		if err == nil {
			err = read.lay(context.Background(), to, ".", false)
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := readTree(to, sourceRules, nil)
		if err != nil || !bytes.Equal(read.listing(), again.listing()) {
			t.Fatalf("%v\n%s", err, cmp.Diff(string(read.listing()), string(again.listing())))
		}
	})
}

func tempRoot(t *rapid.T) *os.Root {
	dir, err := os.MkdirTemp("", "root")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// FuzzGradingStaysInside lays hostile trees, one entry a line: a letter for its kind, its path, and after a tab its text or
// target. Whatever they are, nothing beside the work folder changes, and hidden assets stand where they belong.
func FuzzGradingStaysInside(f *testing.F) {
	f.Add([]byte("fa\tx\nl../x\ty\nlt\t../../..\nft/hidden\tevil"))
	f.Add([]byte("ld\t/tmp\nfd/conftest.py\tevil\nf.git/config\tx\nsx\ty"))
	f.Add([]byte("dt\nlt/hidden\t../../../suite/f/conftest.py\nlu\t.\nfu/u/u\tx"))
	f.Add([]byte("pfifo\nf\x00\tx\nf/abs\tx\nfconftest.py\tx\ndconftest.py/x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "suite"), map[string]string{"f/conftest.py": "ours", "f/t/conftest.py": "ours", "hidden/t/hidden": "true"})
		s, err := New(Options{
			Suite: filepath.Join(dir, "suite"), Scratch: filepath.Join(dir, "scratch"), Cache: filepath.Join(dir, "cache"),
			Places: shells{},
		})
		must(t, err)
		c := folderCase("f")
		c.Hidden = "hidden"
		hidden, err := s.Assets(t.Context(), c)
		must(t, err)
		p, _, err := s.Grading(t.Context(), resolve(t, s, c), Handover{Tree: lines(data), Hidden: hidden}, Needs{})
		if err == nil {
			for name, want := range map[string]string{"t/hidden": "true", "conftest.py": "ours", "t/conftest.py": "ours"} {
				info, err := os.Lstat(filepath.Join(p.Work, name))
				must(t, err)
				if got, err := os.ReadFile(filepath.Join(p.Work, name)); err != nil || string(got) != want || !info.Mode().IsRegular() {
					t.Errorf("%s is %q (%v, %v)", name, got, info.Mode(), err)
				}
			}
			must(t, p.Close(t.Context()))
		}
		want := map[string]string{"suite/f/conftest.py": "ours", "suite/f/t/conftest.py": "ours", "suite/hidden/t/hidden": "true", "scratch/": "", "cache/": ""}
		if diff := cmp.Diff(want, look(t, dir)); diff != "" {
			t.Error(diff)
		}
	})
}

func lines(data []byte) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if len(line) == 0 {
				continue
			}
			name, text, _ := bytes.Cut(line[1:], []byte("\t"))
			file := File{Path: string(name), Mode: 0o644, Link: string(text), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }}
			switch line[0] {
			case 'd':
				file.Mode = fs.ModeDir | 0o755
			case 'l':
				file.Mode = fs.ModeSymlink | 0o777
			case 's':
				file.Mode |= fs.ModeSetuid
			case 'p':
				file.Mode |= fs.ModeNamedPipe
			}
			if !yield(file, nil) {
				return
			}
		}
	}
}

// FuzzRepoAddress: what is accepted as the address of a repository is https to a host, without credentials.
func FuzzRepoAddress(f *testing.F) {
	for _, seed := range []string{"https://github.com/a/b", "http://localhost/x", "ext::sh", "git@h:a/b", "https://u:p@h/x", "--upload-pack=x", "https://h/%2e%2e", "https:///x", "HTTPS://H/x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		err := checkRepo(suite.Repo{URL: address, Commit: strings.Repeat("a", 40)}, []string{"localhost"})
		if err != nil {
			return
		}
		u, err := url.Parse(address)
		if err != nil || u.User != nil || u.Hostname() == "" || u.Scheme != "https" && !strings.EqualFold(u.Hostname(), "localhost") {
			t.Errorf("%q was accepted", address)
		}
	})
}

// FuzzProof: bytes of a cache or of a server that claim to be git objects break nothing.
func FuzzProof(f *testing.F) {
	f.Add([]byte("tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor a <a@b> 1 +0000\n\nm\n"), []byte("40000 sub\x00aaaaaaaaaaaaaaaaaaaa"))
	f.Add([]byte("tree x"), []byte("100644 a"))
	f.Add([]byte(""), []byte("\x00"))
	f.Fuzz(func(t *testing.T, commit, tree []byte) {
		top, err := walkProof(suite.Repo{Commit: strings.Repeat("a", 40), Subdir: "sub"}, func(kind plumbing.ObjectType, _ plumbing.Hash) ([]byte, error) {
			if kind == plumbing.CommitObject {
				return commit, nil
			}
			return tree, nil
		})
		if err == nil && !bytes.Contains(tree, top[:]) {
			t.Errorf("%s came from nowhere", top)
		}
	})
}

// FuzzPack: a pack that does not hold what its repository should is an error, never a crash and never a proof.
func FuzzPack(f *testing.F) {
	t := &tree{kept: true, entries: []entry{{path: "a", mode: 0o644, size: 1, data: []byte("x")}}}
	t.entries[0].sum = sumOfBytes("x")
	h, err := newHistory(t)
	must(f, err)
	dir := f.TempDir()
	must(f, h.writePack(dir))
	packs, err := filepath.Glob(filepath.Join(dir, "*.pack"))
	must(f, err)
	good, err := os.ReadFile(packs[0])
	must(f, err)
	f.Add(good)
	f.Add(good[:len(good)-25])
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, ids, err := indexPack(bytes.NewReader(data), 3)
		if err == nil && bytes.Equal(data, good) && len(ids) != 3 {
			t.Errorf("%d objects", len(ids))
		}
	})
}

func sumOfBytes(text string) (sum [32]byte) {
	sum, err := sumUpTo(strings.NewReader(text), int64(len(text)), new(scratch))
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return sum
}
