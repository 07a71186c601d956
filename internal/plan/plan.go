// Package plan turns a suite into the list of cells to run: [Expand] gives every case × harness × model × condition ×
// trial with its key, in an order that is random but fixed by a seed, and [Part] cuts the list for several machines.
//
// It is pure: equal input gives equal bytes, whatever the machine, the path or the time.
package plan

// A Cell is one run of one agent on one case.
type Cell struct {
	Case      string `json:"case"`
	Harness   string `json:"harness"`
	Model     string `json:"model"`
	Condition string `json:"condition"`
	Trial     int    `json:"trial"`           // from 1
	Key       string `json:"key"`             // digest of all that may change what the agent does
	GradeKey  string `json:"grade_key"`       // digest of all that may change how it is graded, Key included
	Phase     string `json:"phase,omitempty"` // "" (screen) or one of Phases
}

// The phases of cells that are added to a plan once its own cells have shown something.
const (
	Drift   = "drift"   // first trials of a base version, to see whether stored results of it still hold
	Rerun   = "rerun"   // all its other trials, when they do not, or would convict
	Confirm = "confirm" // fresh trials of the worst cases
)

// Phases are those of added cells, in the order in which they run.
var Phases = []string{Drift, Rerun, Confirm}

// Arm names the cell's arm: harness, model and condition.
func (c Cell) Arm() Arm { return Arm{c.Harness, c.Model, c.Condition} }

// An Arm is all cells that share harness, model and condition.
type Arm struct {
	Harness   string `json:"harness"`
	Model     string `json:"model"`
	Condition string `json:"condition"`
}

// String is harness/model/condition.
func (a Arm) String() string { return a.Harness + "/" + a.Model + "/" + a.Condition }
