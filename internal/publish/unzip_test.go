package publish

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A zipEntry is one of a hand-made archive.
type zipEntry struct {
	name   string
	data   string
	mode   fs.FileMode // 0: a regular file
	change func(*zip.FileHeader)
}

// zipOf writes entries as they are, with no question asked.
func zipOf(t testing.TB, entries ...zipEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := flate.NewWriter(nil, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var packed bytes.Buffer
		w.Reset(&packed)
		w.Write([]byte(e.data))
		w.Close()
		h := &zip.FileHeader{
			Name: e.name, Method: zip.Deflate, CRC32: crc32.ChecksumIEEE([]byte(e.data)),
			CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(len(e.data)),
		}
		h.SetMode(e.mode)
		if e.mode == 0 {
			h.SetMode(0o644)
		}
		if e.change != nil {
			e.change(h)
		}
		raw, err := z.CreateRaw(h)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(e.name, "/") {
			continue // package zip writes no bytes of a folder
		}
		if _, err := raw.Write(packed.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unzipTo unpacks into a fresh folder within another fresh folder.
func unzipTo(t testing.TB, data []byte, l Limits) (dir string, err error) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "into")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return dir, Unzip(bytes.NewReader(data), int64(len(data)), root, l)
}

// readFolder is every file of a folder; what is neither file nor folder fails the test.
func readFolder(t testing.TB, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			t.Errorf("%s is a %s", name, d.Type())
			return nil
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		got[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestUnzip(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("all work and no play\n", 1000)
	dir, err := unzipTo(t, zipOf(t,
		zipEntry{name: "cells/", mode: fs.ModeDir | 0o755},
		zipEntry{name: "cells/a/result.json", data: "{}"},
		zipEntry{name: "cells/a/trace.jsonl", data: long, mode: 0o777},
		zipEntry{name: "empty"},
		zipEntry{name: "…/ünïcode.txt", data: "x"},
	), LimitsFor(0))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"cells/a/result.json": "{}", "cells/a/trace.jsonl": long, "empty": "", "…/ünïcode.txt": "x"}
	if diff := cmp.Diff(want, readFolder(t, dir)); diff != "" {
		t.Error(diff)
	}
	if info, err := os.Stat(filepath.Join(dir, "cells/a/trace.jsonl")); err != nil || info.Mode().Perm()&0o111 != 0 {
		t.Errorf("a file of strangers can be run: %v, %v", info.Mode(), err)
	}
}

func TestA27UnzipRefuses(t *testing.T) {
	t.Parallel()
	lie := func(size uint64) func(*zip.FileHeader) {
		return func(h *zip.FileHeader) { h.UncompressedSize64 = size }
	}
	var many []zipEntry
	for i := range LimitsFor(1).Files + 1 {
		many = append(many, zipEntry{name: fmt.Sprint(i)})
	}
	good := zipOf(t, zipEntry{name: "a", data: strings.Repeat("x", 100)})
	tests := map[string]struct {
		data []byte
		says string
	}{
		"up":                   {zipOf(t, zipEntry{name: "../x", data: "x"}), "plain relative name"},
		"up in the middle":     {zipOf(t, zipEntry{name: "a/../../x", data: "x"}), "plain relative name"},
		"absolute":             {zipOf(t, zipEntry{name: "/etc/x", data: "x"}), "plain relative name"},
		"empty name":           {zipOf(t, zipEntry{name: "", data: "x"}), "plain relative name"},
		"dot":                  {zipOf(t, zipEntry{name: ".", data: "x"}), "plain relative name"},
		"double slash":         {zipOf(t, zipEntry{name: "a//b", data: "x"}), "plain relative name"},
		"backslash":            {zipOf(t, zipEntry{name: `..\x`, data: "x"}), "do not allow"},
		"drive":                {zipOf(t, zipEntry{name: "C:x", data: "x"}), "do not allow"},
		"NUL":                  {zipOf(t, zipEntry{name: "a\x00b", data: "x"}), "do not allow"},
		"line break":           {zipOf(t, zipEntry{name: "a\n::error::b", data: "x"}), "do not allow"},
		"broken UTF-8":         {zipOf(t, zipEntry{name: "a\xff", data: "x"}), "plain relative name"},
		"long name":            {zipOf(t, zipEntry{name: strings.Repeat("a", 401), data: "x"}), "too long"},
		"deep name":            {zipOf(t, zipEntry{name: strings.Repeat("a/", 16) + "a", data: "x"}), "too deep"},
		"link":                 {zipOf(t, zipEntry{name: "a", data: "/etc/passwd", mode: fs.ModeSymlink | 0o777}), "neither a file nor a folder"},
		"device":               {zipOf(t, zipEntry{name: "a", mode: fs.ModeDevice | 0o644}), "neither a file nor a folder"},
		"FIFO":                 {zipOf(t, zipEntry{name: "a", mode: fs.ModeNamedPipe | 0o644}), "neither a file nor a folder"},
		"folder with bytes":    {zipOf(t, zipEntry{name: "a/", data: "x", mode: fs.ModeDir | 0o755}), "bytes of its own"},
		"twice":                {zipOf(t, zipEntry{name: "a", data: "1"}, zipEntry{name: "a", data: "2"}), "name twice"},
		"file and folder":      {zipOf(t, zipEntry{name: "a", data: "1"}, zipEntry{name: "a/b", data: "2"}), "name twice"},
		"folder and file":      {zipOf(t, zipEntry{name: "a/b", data: "2"}, zipEntry{name: "a", data: "1"}), "name twice"},
		"other case":           {zipOf(t, zipEntry{name: "Benchmark.json"}, zipEntry{name: "benchmark.json"}), "letter case"},
		"other case of folder": {zipOf(t, zipEntry{name: "A/x"}, zipEntry{name: "a/y"}), "letter case"},
		"other case of ſ":      {zipOf(t, zipEntry{name: "ſ"}, zipEntry{name: "s"}), "letter case"},
		"encrypted":            {zipOf(t, zipEntry{name: "a", change: func(h *zip.FileHeader) { h.Flags |= 1 }}), "encrypted"},
		"unknown method":       {zipOf(t, zipEntry{name: "a", change: func(h *zip.FileHeader) { h.Method = 12 }}), "unknown method"},
		"too many":             {zipOf(t, many...), "more than 30"},
		"too large":            {zipOf(t, zipEntry{name: "a", change: lie(1 << 40)}), "bytes unpacked"},
		"sizes that overflow":  {zipOf(t, zipEntry{name: "a", change: lie(1 << 63)}, zipEntry{name: "b", change: lie(1 << 63)}), "bytes unpacked"},
		"bomb":                 {zipOf(t, zipEntry{name: "a", data: strings.Repeat("\x00", 4<<20)}), "100 times"},
		"longer than it says":  {zipOf(t, zipEntry{name: "a", data: strings.Repeat("x", 5000), change: lie(10)}), "not a valid zip file"},
		"shorter than it says": {zipOf(t, zipEntry{name: "a", data: "x", change: lie(10)}), "EOF"},
		"wrong checksum":       {zipOf(t, zipEntry{name: "a", data: "x", change: func(h *zip.FileHeader) { h.CRC32++ }}), "checksum"},
		"cut off":              {good[:len(good)-30], "not a valid zip file"},
		"no archive":           {[]byte("<html>"), "not a valid zip file"},
		"nothing":              {nil, "not a valid zip file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := unzipTo(t, test.data, LimitsFor(1))
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one that says %q", err, test.says)
			}
			if beside, _ := os.ReadDir(filepath.Dir(dir)); len(beside) != 1 {
				t.Errorf("something was written beside the folder: %v", beside)
			}
		})
	}
}

// TestA27UnzipBoundsTheDirectory holds memory down: the directory of an archive is read before its entries can be counted.
func TestA27UnzipBoundsTheDirectory(t *testing.T) {
	t.Parallel()
	var many []zipEntry
	for i := range 2_000 {
		many = append(many, zipEntry{name: fmt.Sprintf("%0300d", i)})
	}
	_, err := unzipTo(t, zipOf(t, many...), LimitsFor(1))
	if err == nil || !strings.Contains(err.Error(), "too many entries") {
		t.Error(err)
	}
}

func FuzzUnzip(f *testing.F) {
	f.Add(zipOf(f, zipEntry{name: "a/b", data: "x"}, zipEntry{name: "c/", mode: fs.ModeDir | 0o755}))
	f.Add(zipOf(f, zipEntry{name: "../x", data: "x"}))
	f.Add(zipOf(f, zipEntry{name: "a", data: "b", mode: fs.ModeSymlink | 0o777}))
	f.Add(zipOf(f, zipEntry{name: "a", data: strings.Repeat("x", 5000), change: func(h *zip.FileHeader) { h.UncompressedSize64 = 10 }}))
	f.Add(zipOf(f, zipEntry{name: "A"}, zipEntry{name: "a"}))
	f.Add([]byte("PK\x05\x06" + strings.Repeat("\x00", 18)))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := Limits{Files: 8}
		dir, err := unzipTo(t, data, l)
		if beside, _ := os.ReadDir(filepath.Dir(dir)); len(beside) != 1 {
			t.Errorf("something was written beside the folder: %v", beside)
		}
		files := readFolder(t, dir) // fails at anything but files and folders
		if len(files) > l.Files {
			t.Errorf("%d files", len(files))
		}
		if err != nil {
			return
		}
		folded := map[string]bool{}
		for name := range files {
			if key := strings.ToLower(name); folded[key] {
				t.Errorf("%s twice", name)
			} else {
				folded[key] = true
			}
		}
	})
}
