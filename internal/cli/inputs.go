package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// An input of the action. It sets the flag of the same name, so a workflow and a command line fill the same options
// through the same checks, and its text in action.yml is the flag's.
type input struct {
	name string
	def  string // as action.yml has it; empty leaves the flag as it is
}

// inputs are those of action.yml, in its order.
var inputs = []input{
	{"mode", "auto"},
	{"suite", "evals"},
	{"working-directory", "."},
	{"case", ""},
	{"harness", ""},
	{"model", ""},
	{"condition", ""},
	{"trials", ""},
	{"jobs", ""},
	{"shard", ""},
	{"shards", "auto"},
	{"executor", ""},
	{"image", ""},
	{"network", ""},
	{"isolation", ""},
	{"out", "assay-results"},
	{"fresh", "false"},
	{"max-cost-usd", ""},
	{"baseline", "auto"},
	{"baseline-artifact", "assay-baseline"},
	{"baseline-max-age", "14d"},
	{"margin-pp", ""},
	{"min-coverage", ""},
	{"min-pass-rate", ""},
	{"fail-on", ""},
	{"trust", "auto"},
	{"comment", "always"},
	{"comment-key", "${{ github.workflow }}"},
	{"status", "both"},
	{"status-name", "assay"},
	{"annotations", "check"},
	{"step-summary", "true"},
	{"upload-artifact", "auto"},
	{"artifact-name", "assay"},
	{"retention-days", ""},
	{"pr-number", ""},
	{"head-sha", ""},
	{"run-id", ""},
	{"on-missing-permission", "warn"},
	{"github-token", "${{ github.token }}"},
}

// actionOptions are all that a workflow can say to the action.
type actionOptions struct {
	runOptions
	Mode   string
	Dir    string // to work in, below the workspace
	Shards string
	Stored storedOptions
	Places placeOptions
	Upload uploadOptions
}

// storedOptions say which stored results may be compared with.
type storedOptions struct {
	Artifact string
	MaxAge   time.Duration
}

// uploadOptions say what becomes of the results folder.
type uploadOptions struct {
	Artifact      string // auto, true or false
	Name          string
	RetentionDays int // 0: as the repository says
}

// flags declares the options; setting a flag sets its field.
func (o *actionOptions) flags() *pflag.FlagSet {
	holder := &cobra.Command{}
	f := holder.Flags()
	runFlags(holder, &o.runOptions)
	shardsFlag(holder, &o.Shards)
	placeFlags(holder, &o.Places)
	f.StringVar(&o.Places.Token, "github-token", "", "token for all that is written on GitHub or read from there; empty: touch nothing on GitHub")
	words(f, &o.Mode, "mode", "what this job does; auto chooses by the event and by what the results folder holds", modeNames()...)
	f.StringVar(&o.Suite, "suite", "evals", "folder of the suite, below working-directory")
	f.StringVar(&o.Dir, "working-directory", ".", "folder to work in, below the workspace")
	f.StringVar(&o.Stored.Artifact, "baseline-artifact", "assay-baseline", "name of the artifact that runs of the default branch leave for others to compare with")
	o.Stored.MaxAge = 14 * 24 * time.Hour
	f.Var((*age)(&o.Stored.MaxAge), "baseline-max-age", "age, such as 14d or 36h, above which stored results are not compared with")
	words(f, &o.Upload.Artifact, "upload-artifact", "upload the results from here; auto does so where the artifact service is within reach", "auto", "true", "false")
	f.StringVar(&o.Upload.Name, "artifact-name", "assay", "name of the uploaded artifact, and of the one that mode publish reads")
	f.IntVar(&o.Upload.RetentionDays, "retention-days", 0, "days that the artifact is kept; empty: as the repository says")
	return f
}

// readInputs fills the options from the environment of the action, and returns everything that is wrong with it.
func readInputs(getenv func(string) string) (actionOptions, error) {
	var o actionOptions
	f := o.flags()
	var faults []error
	for _, in := range inputs {
		text := strings.TrimSpace(getenv("INPUT_" + strings.ToUpper(in.name)))
		if text == "" {
			continue
		}
		if err := setInput(f.Lookup(in.name), text); err != nil {
			faults = append(faults, fmt.Errorf("input %s is %q; %w", in.name, text, err))
		}
	}
	return o, errors.Join(faults...)
}

// setInput sets a flag from the text of an input, which is YAML to its author: true and false are what they are in YAML,
// and a list has one item a line. A comma parts items too, as it does in a flag.
func setInput(flag *pflag.Flag, text string) error {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.Replace(listItems(text))
	}
	kind := flag.Value.Type()
	if kind == "bool" && !yamlBool.MatchString(text) {
		return errors.New("it may be true or false")
	}
	err := flag.Value.Set(text)
	if err != nil && strings.HasPrefix(kind, "int") {
		return errors.New("it may be a whole number")
	}
	if err != nil && kind == "float64" {
		return errors.New("it may be a number")
	}
	return err
}

// listItems are the items of a list, without empty ones.
func listItems(text string) []string {
	items := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' })
	for i := range items {
		items[i] = strings.TrimSpace(items[i])
	}
	return slices.DeleteFunc(items, func(s string) bool { return s == "" })
}

// yamlBool are the booleans of YAML 1.2's core schema.
var yamlBool = regexp.MustCompile(`^(true|True|TRUE|false|False|FALSE)$`)

// A word is a flag that takes one of a few words. The first is its default.
type word struct {
	value   *string
	allowed []string
}

var _ pflag.Value = (*word)(nil)

// words declares such a flag; its text names the words.
func words(f *pflag.FlagSet, value *string, name, text string, allowed ...string) {
	*value = allowed[0]
	f.Var(&word{value, allowed}, name, text+": "+orList(allowed))
}

func (w *word) String() string {
	if w.value == nil {
		return ""
	}
	return *w.value
}

func (w *word) Type() string { return "word" }

func (w *word) Set(s string) error {
	if !slices.Contains(w.allowed, s) {
		return fmt.Errorf("it may be %s", orList(w.allowed))
	}
	*w.value = s
	return nil
}

// orList is "a, b or c".
func orList(list []string) string {
	list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "" })
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// An age is a duration that may be written in days.
type age time.Duration

func (a *age) String() string {
	if d := time.Duration(*a); d%(24*time.Hour) != 0 {
		return d.String()
	}
	return fmt.Sprintf("%dd", time.Duration(*a)/(24*time.Hour))
}

func (a *age) Type() string { return "age" }

func (a *age) Set(s string) error {
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d <= 0 {
		return errors.New("it may be a number of days or hours, such as 14d or 36h")
	}
	*a = age(d)
	return nil
}

// A checked flag takes any text that its check finds nothing wrong with.
type checked struct {
	value *string
	check func(string) error
}

var _ pflag.Value = (*checked)(nil)

func (c *checked) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

func (c *checked) Type() string { return "text" }

func (c *checked) Set(s string) error {
	if err := c.check(s); err != nil {
		return err
	}
	*c.value = s
	return nil
}

// form is a check that holds a text against a regular expression.
func form(expression, help string) func(string) error {
	match := regexp.MustCompile(expression).MatchString
	return func(s string) error {
		if !match(s) {
			return errors.New("it may be " + help)
		}
		return nil
	}
}

// executorNames are the executors there are, none of them named first: as the suite says.
func executorNames() []string {
	names := []string{""}
	for _, k := range executor.Kinds {
		names = append(names, k.Name)
	}
	return names
}
