package cli

import (
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/assay-ci/assay/internal/run"
	"github.com/assay-ci/assay/internal/suite"
)

// Files without a gate are decided under that of a suite which says nothing, but for the trials that nobody could run again.
func TestPlainGate(t *testing.T) {
	t.Parallel()
	s, err := suite.Load(fstest.MapFS{
		"suite.yaml":        {Data: []byte("name: x\nmatrix: {harnesses: [{id: echo, type: echo}]}\n")},
		"one/case.yaml":     {Data: []byte("id: one\nprompt: x\nsource: {path: fixture}\nassertions: [{id: a, type: files, present: [x]}]\n")},
		"one/fixture/a.txt": {Data: []byte("x")},
	}, ".", run.Owned)
	if err != nil {
		t.Fatal(err)
	}
	want := manifestGate(s.Gate)
	want.Confirm = nil
	if !reflect.DeepEqual(plainGate, want) {
		t.Errorf("%+v, want %+v", plainGate, want)
	}
}
