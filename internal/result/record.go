package result

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/plan"
	"github.com/assay-ci/assay/internal/trace"
	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// recordName is the file whose presence makes a cell exist.
const recordName = "result.json"

// maxRecord bounds what is read of one record.
const maxRecord = 64 << 20

// A record ends in its own sum, taken over the bytes of the record with the sum empty. So every byte is covered, also
// those that parsing would forgive.
const (
	sumStart = `"sum":"`
	sumEnd   = `"}` + "\n"
	sumLen   = 2 * sha256.Size
)

// asWritten reads what encoding/json wrote. Reading 100,000 records is most of the time of a report, and it takes a third of
// what encoding/json takes.
var asWritten = jsonv1.FormatDurationAsNano(true)

// encode gives the bytes of a record, its sum filled in.
func encode(r Result) ([]byte, error) {
	r.Schema, r.Sum = Schema, ""
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	head := bytes.TrimSuffix(b, []byte(sumEnd))
	return slices.Concat(head, []byte(sum(b)), []byte(sumEnd)), nil
}

// A parser reads the text of a record, or as much of it as somebody wants.
type parser func(data []byte) (Result, error)

// parseWhole reads all of a record.
func parseWhole(data []byte) (r Result, err error) {
	err = jsonv2.Unmarshal(data, &r, asWritten)
	return r, err
}

// parseNumbers reads what [ReadNumbers] gives, in a third of the time of parseWhole.
func parseNumbers(data []byte) (Result, error) {
	var r struct {
		Schema int `json:"schema"`
		plan.Cell
		Attempt   int         `json:"attempt"`
		Status    Status      `json:"status"`
		Class     trace.Class `json:"class"`
		Reason    Reason      `json:"reason"`
		DiffScope *struct {
			diffscope.Counts
		} `json:"diff_scope"`
		Agent struct {
			Turns *int         `json:"turns"`
			Usage *trace.Usage `json:"usage"`
		} `json:"agent"`
		Took Durations `json:"took"`
		Sum  string    `json:"sum"`
	}
	err := jsonv2.Unmarshal(data, &r, asWritten)
	out := Result{
		Schema: r.Schema, Cell: r.Cell, Attempt: r.Attempt, Status: r.Status, Class: r.Class, Reason: r.Reason,
		Agent: Agent{Turns: r.Agent.Turns, Usage: r.Agent.Usage}, Took: r.Took, Sum: r.Sum,
	}
	if r.DiffScope != nil {
		out.DiffScope = &diffscope.Scope{Counts: r.DiffScope.Counts}
	}
	return out, err
}

// decode reads a record and checks its sum.
func decode(data []byte, parse parser) (Result, error) {
	at := len(data) - len(sumEnd) - sumLen
	if at < 0 || !bytes.HasSuffix(data[:at], []byte(sumStart)) || !bytes.HasSuffix(data, []byte(sumEnd)) {
		return Result{}, errors.New("the record is not whole")
	}
	if sum(data[:at], []byte(sumEnd)) != string(data[at:at+sumLen]) {
		return Result{}, errors.New("the record does not match its own sum")
	}
	r, err := parse(data)
	if err != nil {
		return Result{}, err
	}
	if r.Schema != Schema {
		return Result{}, fmt.Errorf("schema %d, this version reads %d", r.Schema, Schema)
	}
	return r, nil
}

// errNoRecord says that a folder holds no record, so that its cell did not happen.
var errNoRecord = errors.New("no record")

// readRecord reads the record in dir and checks its sum.
func readRecord(dir string, parse parser) (Result, error) {
	data, err := readCapped(filepath.Join(dir, recordName), maxRecord)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Result{}, errNoRecord
	}
	if err != nil {
		return Result{}, err
	}
	return decode(data, parse)
}

// readWhole reads the record in dir and checks the files that it names as well.
func readWhole(dir string) (Result, error) {
	r, err := readRecord(dir, parseWhole)
	if err != nil {
		return Result{}, err
	}
	for name, want := range r.Files {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return Result{}, fmt.Errorf("names a file outside its folder: %q", name)
		}
		got, err := sumFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return Result{}, err
		}
		if got != want {
			return Result{}, fmt.Errorf("%s does not match its sum", name)
		}
	}
	return r, nil
}

// openFile opens a regular file for reading, and tells its size. A ledger may come from elsewhere, and an agent of the same user
// could reach it: a FIFO at the place of a file must not be waited for, and a link not be followed.
func openFile(name string) (f *os.File, size int64, err error) {
	f, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, 0, errors.Join(fmt.Errorf("%s is not a regular file", name), err, f.Close())
	}
	return f, info.Size(), nil
}

// readCapped reads a file as long as it was when it was opened.
func readCapped(name string, limit int64) ([]byte, error) {
	f, size, err := openFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	data := make([]byte, size)
	n, err := io.ReadFull(f, data)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // it was cut since
	}
	return data[:n], err
}

// sum is the sha256 of the parts, one after the other, in hex.
func sum(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func sumFile(name string) (string, error) {
	f, size, err := openFile(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	// Both ends are hidden behind their plain interface, or io would take 32 KiB of its own for each small file.
	buf := make([]byte, min(max(size+1, 512), 256<<10))
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, buf); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Dir is the folder of a cell below the ledger, slash separated: cells/<case>/<arm>/t<n>-<key8>. Names that a file system
// or an artifact store could refuse are folded, with a digest to keep them apart.
func Dir(c plan.Cell) string {
	arm := fold(c.Harness) + "~" + fold(c.Model) + "~" + fold(c.Condition)
	return "cells/" + fold(c.Case) + "/" + arm + "/t" + strconv.Itoa(c.Trial) + "-" + c.Key[:min(len(c.Key), 8)]
}

func fold(name string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}, name)
	plain = plain[:min(len(plain), 64)]
	if plain == name && !strings.HasPrefix(plain, ".") && plain != "" {
		return plain
	}
	return strings.TrimLeft(plain, ".") + "-" + sum([]byte(name))[:6]
}
