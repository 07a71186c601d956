package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/redact"
	"github.com/assay-ci/assay/internal/trace"
	"github.com/google/go-cmp/cmp"
)

func clock() time.Time { return time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC) }

func open(t *testing.T, dir string) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), dir, clock)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func cell(name string, trial int) plan.Cell {
	c := plan.Cell{Case: name, Harness: "h", Model: "m", Condition: "c", Trial: trial}
	c.Key = sum(fmt.Appendf(nil, "%s%d", name, trial))
	c.GradeKey = sum([]byte(c.Key))
	return c
}

// commit writes one whole cell with a trace.
func commit(t *testing.T, l *Ledger, c plan.Cell, status Status, text string) {
	t.Helper()
	e, err := l.Begin(c, "test", false)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(e.Create("trace.jsonl"), text)
	e.Create("agent.log") // stays empty: no file
	fmt.Fprint(e.Create("assertions/correct.log"), "ok\n")
	if err := e.Commit(Result{Cell: c, Status: status, Scores: []Score{}}); err != nil {
		t.Fatal(err)
	}
}

func TestCommitAndLookup(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	c := cell("a", 1)
	if _, ok, err := l.Lookup(c); ok || err != nil {
		t.Fatalf("an empty ledger holds a cell: %v %v", ok, err)
	}
	commit(t, l, c, Passed, "hello\n")
	got, ok, err := l.Lookup(c)
	if err != nil || !ok {
		t.Fatalf("Lookup: %v %v", ok, err)
	}
	if got.Attempt != 1 || got.Status != Passed || got.Cell != c {
		t.Errorf("got %+v", got)
	}
	want := []string{"assertions/correct.log", "result.json", "trace.jsonl"}
	if diff := cmp.Diff(want, files(t, filepath.Join(dir, Dir(c)))); diff != "" {
		t.Errorf("files of the cell (-want +got):\n%s", diff)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// A second attempt keeps the files of the first, apart.
func TestSecondAttemptKeepsTheFirst(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	c := cell("a", 1)
	commit(t, l, c, Errored, "first\n")
	l.Close()
	l = open(t, dir)
	commit(t, l, c, Passed, "second\n")
	defer l.Close()
	got, ok, err := l.Lookup(c)
	if !ok || err != nil || got.Attempt != 2 {
		t.Fatalf("attempt %d, %v %v", got.Attempt, ok, err)
	}
	want := []string{"assertions/correct.log", "attempt-1/assertions/correct.log", "attempt-1/trace.jsonl", "result.json", "trace.jsonl"}
	if diff := cmp.Diff(want, files(t, filepath.Join(dir, Dir(c)))); diff != "" {
		t.Errorf("files of the cell (-want +got):\n%s", diff)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, Dir(c), "attempt-1", "trace.jsonl")); string(b) != "first\n" {
		t.Errorf("first attempt's trace is %q", b)
	}
}

func TestAbandonKeepsEvidenceAndSpend(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	c := cell("a", 1)
	e, err := l.Begin(c, "test", true)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(e.Create("trace.jsonl"), "half")
	usd := 0.25
	if err := e.Abandon("errored", Result{Status: Errored, Class: trace.ClassModelAPI, Agent: Agent{Usage: &trace.Usage{CostUSD: &usd}}}); err != nil {
		t.Fatal(err)
	}
	if l.Spent() != usd {
		t.Errorf("spent %v, want %v", l.Spent(), usd)
	}
	l.Close()
	l = open(t, dir)
	defer l.Close()
	if l.Spent() != usd {
		t.Errorf("after reopening: spent %v, want %v", l.Spent(), usd)
	}
	if _, ok, _ := l.Lookup(c); ok {
		t.Error("an abandoned attempt counts as a cell")
	}
	e, err = l.Begin(c, "again", false)
	if err != nil {
		t.Fatal(err)
	}
	if e.Attempt() != 2 {
		t.Errorf("next attempt is %d, want 2", e.Attempt())
	}
}

// Whatever byte a record is cut at, and whichever byte of it is wrong, the cell alone is run again.
func TestDamagedRecords(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	defer l.Close()
	bad, good := cell("bad", 1), cell("good", 1)
	commit(t, l, bad, Passed, "x\n")
	commit(t, l, good, Failed, "y\n")
	name := filepath.Join(dir, Dir(bad), recordName)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(filepath.Join(dir, Dir(good), recordName))
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{"zeroed": make([]byte, len(whole)), "a sibling's": other}
	for n := 0; n < len(whole); n += 7 {
		damaged[fmt.Sprintf("cut at %d", n)] = whole[:n]
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x20
		damaged[fmt.Sprintf("flipped at %d", n)] = flipped
	}
	for what, data := range damaged {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := l.Lookup(bad); ok || err != nil {
			t.Errorf("%s: the record is used (%v, %v)", what, ok, err)
		}
		if _, ok, _ := l.Lookup(good); !ok {
			t.Fatalf("%s: it cost another cell", what)
		}
	}
	kept, err := filepath.Glob(name + ".bad-*")
	if err != nil || len(kept) != len(damaged) {
		t.Errorf("%d damaged records were kept, want %d", len(kept), len(damaged))
	}
	if err := os.WriteFile(name, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := l.Lookup(bad); !ok || err != nil {
		t.Errorf("the whole record is refused: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, Dir(bad), "trace.jsonl"), []byte("forged\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := l.Lookup(bad); ok {
		t.Error("a record beside a forged trace is used")
	}
}

func TestReadPassesOverDamage(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	defer l.Close()
	cells := []plan.Cell{cell("a", 1), cell("b", 1), cell("c", 1)}
	commit(t, l, cells[0], Passed, "")
	commit(t, l, cells[2], Failed, "")
	if err := os.MkdirAll(filepath.Join(dir, Dir(cells[1])), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, Dir(cells[1]), recordName), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r, err := range Read(dir, cells) {
		if err != nil {
			got = append(got, "damaged")
			continue
		}
		got = append(got, r.Case+" "+string(r.Status))
	}
	if diff := cmp.Diff([]string{"a passed", "damaged", "c failed"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJournalSurvivesATornLine(t *testing.T) {
	name := filepath.Join(t.TempDir(), journalName)
	j, _, _, err := openJournal(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := j.write(Note{What: "attempt", Cell: "x", Attempt: i + 1}, true); err != nil {
			t.Fatal(err)
		}
	}
	j.close()
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) {
		if err := os.WriteFile(name, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		j, notes, bad, err := openJournal(name)
		if err != nil {
			t.Fatal(err)
		}
		if want := bytes.Count(whole[:cut], []byte("\n")); len(notes) != want || bad != 0 {
			t.Fatalf("cut at %d: %d notes and %d bad, want %d and 0", cut, len(notes), bad, want)
		}
		if err := j.write(Note{What: "more"}, false); err != nil {
			t.Fatal(err)
		}
		j.close()
		data, _ := os.ReadFile(name)
		if notes, bad := readNotes(data); bad != 0 || notes[len(notes)-1].What != "more" {
			t.Fatalf("cut at %d: the next note is not readable", cut)
		}
	}
	flipped := bytes.Clone(whole)
	flipped[len(whole)/2] ^= 1
	if notes, bad := readNotes(flipped); len(notes) != 2 || bad != 1 {
		t.Errorf("a bad line in the middle: %d notes, %d bad; want 2, 1", len(notes), bad)
	}
}

// limitFiles makes every file of this process full at n bytes, until the function that it returns is called.
func limitFiles(t *testing.T, n int64) (lift func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	small := was
	small.Cur = uint64(n)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	return func() {
		signal.Reset(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
			t.Fatal(err)
		}
	}
}

// A disk that fills up in the middle of a line must not cost the next line.
func TestJournalTakesBackHalfALine(t *testing.T) {
	// The limit holds for all files of a process, those of the test runner too: a process of its own takes it.
	const alone = "ASSAY_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestJournalTakesBackHalfALine$")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	name := filepath.Join(t.TempDir(), journalName)
	j, _, _, err := openJournal(name)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	if err := j.write(Note{What: "whole"}, false); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	lift := limitFiles(t, info.Size()+10)
	torn := j.write(Note{What: "torn"}, false)
	lift()
	if torn == nil {
		t.Fatal("the file was not limited")
	}
	if err := j.write(Note{What: "next"}, false); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if notes, bad := readNotes(data); bad != 0 || len(notes) != 2 || notes[1].What != "next" {
		t.Errorf("after half a line: %d notes, %d bad: %q", len(notes), bad, data)
	}
}

// A cell one of whose files did not reach the disk has no record.
func TestNoRecordOfHalfAFile(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	defer l.Close()
	c := cell("a", 1)
	e, err := l.Begin(c, "test", false)
	if err != nil {
		t.Fatal(err)
	}
	lift := limitFiles(t, 32<<10)
	e.Create("trace.jsonl").Write(make([]byte, 64<<10)) // the error comes again
	err = e.Commit(Result{Cell: c, Status: Passed, Scores: []Score{}})
	lift()
	if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), "trace.jsonl") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, Dir(c), recordName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a record: %v", err)
	}
}

func FuzzReadNotes(f *testing.F) {
	f.Add([]byte("00000000 {}\n"))
	f.Add([]byte("\n\n \n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		notes, bad := readNotes(data)
		if lines := bytes.Count(data, []byte("\n")) + 1; len(notes)+bad > lines {
			t.Errorf("%d notes from %d lines", len(notes)+bad, lines)
		}
	})
}

func FuzzDecode(f *testing.F) {
	whole, err := encode(Result{Cell: cell("a", 1), Status: Passed, Scores: []Score{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"schema":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decode(data, parseWhole)
		if err != nil {
			return
		}
		again, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(again, parseWhole); err != nil {
			t.Errorf("a record that was read cannot be written and read again: %v", err)
		}
	})
}

// TestNumbersAreThoseOfTheWholeRecord: with every field set, what is passed over is what ReadNumbers says, and nothing else.
func TestNumbersAreThoseOfTheWholeRecord(t *testing.T) {
	var r Result
	fill(reflect.ValueOf(&r).Elem())
	data, err := encode(r)
	if err != nil {
		t.Fatal(err)
	}
	want, err := decode(data, parseWhole)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(data, parseNumbers)
	if err != nil {
		t.Fatal(err)
	}
	r.Schema, r.Sum = Schema, want.Sum
	if diff := cmp.Diff(r, want); diff != "" {
		t.Errorf("the whole record (-written +read):\n%s", diff)
	}
	want = Result{
		Schema: want.Schema, Cell: want.Cell, Attempt: want.Attempt, Status: want.Status, Class: want.Class, Reason: want.Reason,
		DiffScope: &diffscope.Scope{Counts: want.DiffScope.Counts},
		Agent:     Agent{Turns: want.Agent.Turns, Usage: want.Agent.Usage}, Took: want.Took, Sum: want.Sum,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("its numbers (-want +got):\n%s", diff)
	}
}

// fill sets everything below v to something.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 9, 21, 14, 13, 20, 0, time.UTC)))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic(v.Kind())
	}
}

// The second writer is told who the first one is.
func TestOneWriter(t *testing.T) {
	if testing.Short() {
		t.Skip("waits ten seconds for the lock")
	}
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir)
	defer l.Close()
	_, err := Open(t.Context(), dir, clock)
	var locked *Locked
	if !errors.As(err, &locked) || !strings.Contains(locked.Holder, fmt.Sprint("process ", os.Getpid())) {
		t.Errorf("the second writer got %v", err)
	}
}

func TestConcurrentCells(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	defer l.Close()
	var wg sync.WaitGroup
	var cells []plan.Cell
	for i := range 40 {
		c := cell(fmt.Sprint("case", i%5), i)
		cells = append(cells, c)
		wg.Go(func() { commit(t, l, c, Passed, "x\n") })
	}
	wg.Wait()
	n := 0
	for _, err := range Read(dir, cells) {
		if err != nil {
			t.Error(err)
		}
		n++
	}
	if n != len(cells) {
		t.Errorf("%d cells are in the ledger, want %d", n, len(cells))
	}
	var strangers []plan.Cell
	for r, err := range ReadAll(dir, nil, cells[:39]) {
		if err != nil {
			t.Error(err)
		}
		strangers = append(strangers, r.Cell)
	}
	if diff := cmp.Diff(cells[39:], strangers); diff != "" {
		t.Errorf("strangers (-want +got):\n%s", diff)
	}
}

func TestManifestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	defer l.Close()
	if _, err := ReadManifest(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no manifest: %v", err)
	}
	for _, cells := range [][]plan.Cell{{}, {cell("a", 1)}, {cell("a", 1), cell("b", 2)}} {
		want := Manifest{Schema: Schema, Suite: `with "cells": [] in its name`, Cells: cells, Created: clock()}
		if err := l.PutManifest(want); err != nil {
			t.Fatal(err)
		}
		got, err := ReadManifest(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestA32NoTwoCellsShareAFolder(t *testing.T) {
	seen := map[string]string{}
	for _, model := range []string{"m", "M", "qwen3:8b", "org/model", "../x", "..", "", "a b", "a-b", "ä", strings.Repeat("x", 300), `a\b`, "m|x"} {
		c := plan.Cell{Case: "c", Harness: "h", Model: model, Condition: "k", Trial: 1, Key: strings.Repeat("0", 64)}
		dir := Dir(c)
		folded := strings.ToLower(dir)
		if twin, ok := seen[folded]; ok {
			t.Errorf("%q and %q share %s", model, twin, dir)
		}
		seen[folded] = model
		if !filepath.IsLocal(dir) || strings.ContainsAny(dir, `\:"<>|*? `) || strings.Count(dir, "/") != 3 {
			t.Errorf("%q gives %q", model, dir)
		}
	}
	// Names that read the same when they are put together are of other cells, and so in other folders.
	one := Dir(plan.Cell{Case: "a", Harness: "b-c", Model: "d", Condition: "k", Trial: 1, Key: strings.Repeat("0", 64)})
	for _, twin := range []plan.Cell{
		{Case: "a-b", Harness: "c", Model: "d", Condition: "k"}, {Case: "a", Harness: "b", Model: "c-d", Condition: "k"},
		{Case: "a", Harness: "b/c", Model: "d", Condition: "k"}, {Case: "a", Harness: "b-c~d", Model: "k", Condition: ""},
	} {
		twin.Trial, twin.Key = 1, strings.Repeat("0", 64)
		if Dir(twin) == one {
			t.Errorf("%+v lies in %s", twin, one)
		}
	}
}

func TestRecordNeedsNoTime(t *testing.T) {
	a, err := encode(Result{Cell: cell("a", 1), Status: Passed})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := encode(Result{Cell: cell("a", 1), Status: Passed})
	if !bytes.Equal(a, b) {
		t.Error("equal results have different bytes")
	}
	if !json.Valid(a) {
		t.Error("a record is not JSON")
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		out = append(out, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRedact takes a secret out of every file that a ledger writes, also one that is written in pieces and read before it
// is whole. The digests are those of what was kept.
func TestRedact(t *testing.T) {
	t.Parallel()
	const secret = "canary-51f0aa7c"
	dir := t.TempDir()
	l := open(t, dir)
	l.Redact(redact.New([]redact.Secret{{Name: "A_KEY", Value: secret}}))
	e, err := l.Begin(cell("a", 1), "because of "+secret, true)
	if err != nil {
		t.Fatal(err)
	}
	f := e.Create("agent.log")
	for _, piece := range []string{"it is can", "ary-51f", "0aa7c, not can"} {
		if n, err := f.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	read, err := e.Open("agent.log")
	if err != nil {
		t.Fatal(err)
	}
	sofar, err := io.ReadAll(read)
	if want := "it is [redacted:A_KEY], not can"; string(sofar) != want || err != nil {
		t.Errorf("so far it holds %q, %v; want %q", sofar, err, want)
	}
	read.Close()
	f.Write([]byte("did, ca"))
	res := Result{Cell: cell("a", 1), Status: Failed, Detail: `he said "` + secret + `"`, Agent: Agent{FinalText: secret}}
	if err := e.Commit(res); err != nil {
		t.Fatal(err)
	}
	if err := l.PutReport("report.md", []byte("# "+secret)); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, ok, err := open(t, dir).Lookup(cell("a", 1)) // checks the digests
	if err != nil || !ok || got.Detail != `he said "[redacted:A_KEY]"` || got.Agent.FinalText != "[redacted:A_KEY]" {
		t.Errorf("%+v, %v, %v", got, ok, err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		b, err := os.ReadFile(name)
		if strings.Contains(string(b), "canary") {
			t.Errorf("%s holds it: %s", name, b)
		}
		return err
	})
	if err != nil || files < 4 {
		t.Errorf("looked at %d files: %v", files, err)
	}
}
