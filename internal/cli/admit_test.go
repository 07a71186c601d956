package cli

import (
	"slices"
	"testing"

	"github.com/assay-ci/assay/internal/result"
	"github.com/assay-ci/assay/internal/suite"
)

// The demo cases are admitted as they are now: whoever changes one tries it again with assay check evals --admit.
func TestEvalsAreAdmitted(t *testing.T) {
	t.Parallel()
	p, err := openProject(repository + "/evals")
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.load(suite.Base{})
	if err != nil {
		t.Fatal(err)
	}
	w := work{project: p, suite: s}
	list, err := readAdmissions(p.fsys, w.admissionFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.Cases {
		if !slices.ContainsFunc(list, func(a result.Admission) bool { return a.State == result.Admitted && holds(a, c) }) {
			t.Errorf("case %s has no record of admission that holds", c.ID)
		}
	}
}
