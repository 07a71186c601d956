package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inputsOf is an environment with these inputs.
func inputsOf(in map[string]string) func(string) string {
	return func(name string) string {
		return in[strings.ToLower(strings.TrimPrefix(name, "INPUT_"))]
	}
}

// embedded lets options be compared.
var embedded = cmp.AllowUnexported(actionOptions{})

// TestInputDefaults holds an action that sets nothing to what the command line does by itself.
func TestInputDefaults(t *testing.T) {
	t.Parallel()
	nothing, err := readInputs(inputsOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for _, in := range inputs {
		if !strings.Contains(in.def, "${{") {
			defaults[in.name] = in.def
		}
	}
	given, err := readInputs(inputsOf(defaults))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(nothing, given, embedded); diff != "" {
		t.Errorf("action.yml has another default than the flags: %s", diff)
	}
}

func TestReadInputs(t *testing.T) {
	t.Parallel()
	o, err := readInputs(inputsOf(map[string]string{
		"mode": "merge", "case": "tz-*\n  other \n\n", "model": "a,b", "trials": "3", "fresh": "True", "max-cost-usd": "2.5", "shards": "7",
		"baseline": "release:v1", "baseline-max-age": "36h", "margin-pp": "1", "fail-on": "regressed\ninvalid", "trust": "untrusted",
		"comment": "changes", "comment-key": "nightly", "status": "check", "annotations": "off", "step-summary": "false",
		"upload-artifact": "false", "retention-days": "5", "pr-number": "12", "head-sha": headSHA, "run-id": "99", "on-missing-permission": "fail",
		"github-token": "t",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want, err := readInputs(inputsOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	margin := 1.0
	want.Mode, want.Shards = modeMerge, "7"
	want.Select.Cases, want.Select.Models, want.Select.Trials = []string{"tz-*", "other"}, []string{"a", "b"}, 3
	want.Fresh, want.MaxCostUSD, want.Baseline, want.Trust = true, 2.5, "release:v1", untrusted
	want.Stored.MaxAge = 36 * time.Hour
	want.Gate = gateOptions{MarginPP: &margin, FailOn: []string{"regressed", "invalid"}}
	want.Places.Comment, want.Places.Key, want.Places.Status, want.Places.Annotations = "changes", "nightly", "check", "off"
	want.Places.PR, want.Places.Commit, want.Places.Run, want.Places.Missing, want.Places.Token = 12, headSHA, 99, "fail", "t"
	want.Places.Summary = false
	want.Upload.Artifact, want.Upload.RetentionDays = "false", 5
	if diff := cmp.Diff(want, o, embedded); diff != "" {
		t.Error(diff)
	}
}

// TestInputFaults holds each wrong input to be named with what it may be, and all of them at once.
func TestInputFaults(t *testing.T) {
	t.Parallel()
	wrong := []struct{ name, value, says string }{
		{"mode", "all", "it may be auto, plan, run, merge, publish, gate or command"},
		{"fresh", "yes", "it may be true or false"},
		{"step-summary", "1", "it may be true or false"},
		{"trials", "many", "it may be a whole number"},
		{"jobs", "1.5", "it may be a whole number"},
		{"max-cost-usd", "$5", "it may be a number"},
		{"margin-pp", "2 %", "not a number"},
		{"shards", "257", "it may be auto or a number from 1 to 256"},
		{"shards", "0", "it may be auto or a number from 1 to 256"},
		{"executor", "vm", "it may be host"},
		{"baseline", "yesterday", "give auto, paired, merge-base, none"},
		{"baseline-max-age", "-1d", "a number of days or hours"},
		{"baseline-max-age", "0h", "a number of days or hours"},
		{"trust", "none", "it may be auto, full or untrusted"},
		{"comment", "never", "it may be always, changes, regressed or off"},
		{"status", "true", "it may be both, status, check or off"},
		{"annotations", "log", "it may be check, review or off"},
		{"upload-artifact", "yes", "it may be auto, true or false"},
		{"head-sha", "abc123", "a commit, 40 hex digits"},
		{"run-id", "x", "it may be a whole number"},
		{"on-missing-permission", "ignore", "it may be warn or fail"},
	}
	all := map[string]string{}
	for _, w := range wrong {
		all[w.name] = w.value
		_, err := readInputs(inputsOf(map[string]string{w.name: w.value}))
		if err == nil || !strings.Contains(err.Error(), "input "+w.name+" is ") || !strings.Contains(err.Error(), w.says) {
			t.Errorf("%s: %q: %v", w.name, w.value, err)
		}
	}
	_, err := readInputs(inputsOf(all))
	if got := len(strings.Split(err.Error(), "\n")); got != len(all) {
		t.Errorf("%d faults are told, there are %d:\n%v", got, len(all), err)
	}
}
