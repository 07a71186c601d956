package result

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"github.com/assay-ci/assay/internal/plan"
)

// Merge joins the ledgers of the shards of one plan into l: each planned cell is taken from the first folder that holds
// it scored, else from the first that holds it at all. A planned cell that no folder holds becomes skipped, reason
// shard_lost. Ledgers of another plan are refused.
func Merge(l *Ledger, dirs []string) error {
	var whole Manifest
	for i, dir := range dirs {
		m, err := ReadManifest(dir)
		if err != nil {
			return err
		}
		if i > 0 && (m.Digest != whole.Digest || !reflect.DeepEqual(m.Cells, whole.Cells)) {
			return fmt.Errorf("%s holds results of another plan than %s", dir, dirs[0])
		}
		if i == 0 || m.Created.Before(whole.Created) {
			whole = m
		}
	}
	whole.Shard = ""
	if err := l.PutManifest(whole); err != nil {
		return err
	}
	journals := make([]*witness, len(dirs))
	for i, dir := range dirs {
		var err error
		if journals[i], err = readWitness(dir); err != nil {
			return err
		}
	}
	for _, c := range whole.Cells {
		if err := l.mergeCell(c, dirs, journals); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) mergeCell(c plan.Cell, dirs []string, journals []*witness) error {
	var best Result
	var from string
	for i, dir := range dirs {
		r, err := readWhole(filepath.Join(dir, filepath.FromSlash(Dir(c))))
		if err == nil {
			err = journals[i].check(Dir(c), r)
		}
		if err == nil && r.Key == c.Key && (from == "" || !best.Status.Scored() && r.Status.Scored()) {
			best, from = r, dir
		}
	}
	if from == "" {
		best = Result{Cell: c, Status: Skipped, Reason: ShardLost, Detail: "the shard that planned it did not come back", Scores: []Score{}}
	}
	e, err := l.Begin(c, "merge", false)
	if err != nil {
		return err
	}
	for name := range best.Files {
		if err := copyInto(e.Create(name), filepath.Join(from, filepath.FromSlash(Dir(c)), filepath.FromSlash(name))); err != nil {
			return errors.Join(err, e.Abandon("interrupted", Result{}))
		}
	}
	return e.Commit(best)
}

func copyInto(w io.Writer, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
