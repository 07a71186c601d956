package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// An Admission says whether a case can tell good work from none: what three agents without a model did on it, and whether
// its graders agree with themselves. It holds for the digests that it names and no others.
type Admission struct {
	Case        string      `json:"case"`
	AgentDigest string      `json:"agent_digest"`
	GradeDigest string      `json:"grade_digest"`
	Rules       string      `json:"grading_rules"`
	State       string      `json:"state"` // admitted, failed or unproven
	Why         []string    `json:"why"`   // of failed and unproven
	Null        Caught      `json:"null"`
	Noise       Caught      `json:"noise"`
	Reference   Caught      `json:"reference"` // trials that an assertion failed: it should be none
	Assertions  []Exercised `json:"assertions"`
}

// The states of an admission.
const (
	Admitted    = "admitted"
	NotAdmitted = "failed"
	Unproven    = "unproven"  // nothing speaks against the case, and something that could speak for it is missing
	NoRecord    = "no_record" // nobody has tried, or the case has changed since; never in a file
)

// Caught counts trials of one agent, and those that failed by an assertion which could show it.
type Caught struct {
	Caught int `json:"caught"`
	N      int `json:"n"`
}

// An Exercised assertion was tried on the work of the three agents, and many times on one frozen tree.
type Exercised struct {
	ID        string  `json:"id"`
	Gate      bool    `json:"gate"`
	Guard     bool    `json:"guard"`
	Session   bool    `json:"session"` // about how an agent works, which a patch cannot show: its counts say nothing
	Judged    bool    `json:"judged"`  // by a model
	Null      Tallied `json:"null"`
	Noise     Tallied `json:"noise"`
	Reference Tallied `json:"reference"`
	Frozen    Tallied `json:"frozen"`             // gradings of one tree that the reference made
	Evidence  string  `json:"evidence,omitempty"` // of the first reference that it failed
}

// Tallied counts gradings. Those that are neither passed nor failed could not tell.
type Tallied struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`
	N      int `json:"n"`
}

// Add counts one grading.
func (t *Tallied) Add(passed *bool) {
	t.N++
	switch {
	case passed == nil:
	case *passed:
		t.Passed++
	default:
		t.Failed++
	}
}

// Flaky tells whether gradings of one tree disagree.
func (t Tallied) Flaky() bool { return t.Passed+t.Failed > 0 && t.Passed != t.N && t.Failed != t.N }

// Of finds an assertion of the case.
func (a Admission) Of(id string) (Exercised, bool) {
	i := slices.IndexFunc(a.Assertions, func(x Exercised) bool { return x.ID == id })
	if i < 0 {
		return Exercised{}, false
	}
	return a.Assertions[i], true
}

// AdmissionFile is the name of the file of admissions, beside the suite.yaml that they belong to.
const AdmissionFile = "admission.json"

// maxAdmissions bounds what is read of such a file.
const maxAdmissions = 16 << 20

type admissionFile struct {
	Schema     int         `json:"schema"`
	Admissions []Admission `json:"admissions"`
}

// ReadAdmissions reads a file of admissions.
func ReadAdmissions(r io.Reader) ([]Admission, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxAdmissions+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxAdmissions {
		return nil, fmt.Errorf("it has more than %d MiB", maxAdmissions>>20)
	}
	var f admissionFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if f.Schema != Schema {
		return nil, fmt.Errorf("schema %d, this version reads %d", f.Schema, Schema)
	}
	seen := map[string]bool{}
	for _, a := range f.Admissions {
		if !slices.Contains([]string{Admitted, NotAdmitted, Unproven}, a.State) || seen[a.Case] {
			return nil, errors.New("a case is there twice, or in a state that there is not")
		}
		seen[a.Case] = true
	}
	return f.Admissions, nil
}

// MarshalAdmissions is the content of a file of admissions: the same for the same cases, whatever the time or the machine.
func MarshalAdmissions(list []Admission) ([]byte, error) {
	data, err := json.MarshalIndent(admissionFile{Schema, list}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}
