package cli

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// TestActionFile holds action.yml, and the tables of its documentation, to the tables of inputs and outputs. -update writes
// them anew.
func TestActionFile(t *testing.T) {
	const docs = repository + "/docs/github/README.md"
	page, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(repository + "/action.yml")
	if err != nil && !*update {
		t.Fatal(err)
	}
	text := between(t, string(page), "inputs", inputTable())
	for name, file := range map[string]struct{ got, want string }{
		docs:                       {string(page), between(t, text, "outputs", outputTable())},
		repository + "/action.yml": {string(written), actionFile(imageOf(string(written)))},
	} {
		if *update {
			must(os.WriteFile(name, []byte(file.want), 0o644))
		} else if diff := cmp.Diff(file.want, file.got); diff != "" {
			t.Errorf("%s is stale; write it anew with go test ./internal/cli -run TestActionFile -update\n%s", name, diff)
		}
	}
}

// imageOf keeps the image of a release, which is known by its digest only after it was built.
func imageOf(written string) string {
	if m := regexp.MustCompile(`(?m)^  image: (docker://\S+@sha256:[0-9a-f]{64})$`).FindStringSubmatch(written); m != nil {
		return m[1]
	}
	return "Dockerfile"
}

// actionFile is action.yml.
func actionFile(image string) string {
	var b strings.Builder
	b.WriteString(`# Made from the tables of the program by go test ./internal/cli -run TestActionFile -update. Do not edit.
name: Assay
description: Regression tests for coding agents on the pull request
author: assay-ci
branding:
  icon: check-square
  color: purple
inputs:
`)
	for _, in := range inputs {
		fmt.Fprintf(&b, "  %s:\n    description: %s\n    required: false\n    default: %s\n", in.name, strconv.Quote(inputDoc(in)), strconv.Quote(in.def))
	}
	b.WriteString("outputs:\n")
	for _, out := range outputs {
		fmt.Fprintf(&b, "  %s:\n    description: %s\n", out.name, strconv.Quote(out.doc))
	}
	fmt.Fprintf(&b, `runs:
  using: docker
  # On main the image is built from the checkout, for uses: ./ to work. The commit of a release names it by its digest.
  image: %s
`, image)
	return b.String()
}

// inputDoc is the text of an input: that of its flag.
func inputDoc(in input) string {
	var o actionOptions
	flag := o.flags().Lookup(in.name)
	_, text := pflag.UnquoteUsage(flag)
	if _, list := flag.Value.(pflag.SliceValue); list {
		text += "; one a line"
	}
	return text
}

func inputTable() string {
	var b strings.Builder
	b.WriteString("| input | default | what it is |\n| :-- | :-- | :-- |\n")
	for _, in := range inputs {
		def := ""
		if in.def != "" {
			def = "`" + in.def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", in.name, def, cell(inputDoc(in)))
	}
	return b.String()
}

func outputTable() string {
	var b strings.Builder
	b.WriteString("| output | what it is |\n| :-- | :-- |\n")
	for _, out := range outputs {
		fmt.Fprintf(&b, "| `%s` | %s |\n", out.name, cell(out.doc))
	}
	return b.String()
}

// between puts a table between the markers of that name.
func between(t *testing.T, page, name, table string) string {
	t.Helper()
	from, to := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	head, rest, ok := strings.Cut(page, from)
	_, tail, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatalf("docs/github/README.md has no place for the table of %s", name)
	}
	return head + from + "\n" + table + "\n" + to + tail
}

// TestTables holds every input to a flag of its name with a text, and every output to a text; no name stands twice.
func TestTables(t *testing.T) {
	t.Parallel()
	var o actionOptions
	flags := o.flags()
	seen := map[string]bool{}
	for _, in := range inputs {
		flag := flags.Lookup(in.name)
		if flag == nil || flag.Usage == "" || seen[in.name] {
			t.Errorf("input %s has no flag, no text or a twin", in.name)
		}
		seen[in.name] = true
	}
	clear(seen)
	for _, out := range outputs {
		if out.doc == "" || out.value == nil || seen[out.name] {
			t.Errorf("output %s has no text, no value or a twin", out.name)
		}
		seen[out.name] = true
		if out.name != "exit-code" && out.value(outcome{}) != "" {
			t.Errorf("output %s of nothing is %q; unknown is empty", out.name, out.value(outcome{}))
		}
	}
}
