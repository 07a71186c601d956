package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/grade"
	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/responder"
	"github.com/assay-ci/assay/internal/sandbox"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/spf13/cobra"
)

// kinds gathers the tables of all rooms that own kinds.
func kinds() suite.Kinds {
	var k suite.Kinds
	for _, r := range harness.Kinds {
		k.Harnesses = append(k.Harnesses, suite.Kind{Name: r.Name, Doc: r.Doc, Params: r.Params})
	}
	for _, r := range grade.Kinds {
		k.Assertions = append(k.Assertions, suite.Kind{Name: r.Name, Doc: r.Doc, Params: r.Params})
	}
	for _, r := range sandbox.Kinds {
		k.Environments = append(k.Environments, suite.Kind{Name: r.Name, Doc: r.Doc, Params: r.Params})
	}
	for _, r := range responder.Kinds {
		k.Policies = append(k.Policies, suite.Kind{Name: r.Name, Doc: r.Doc, Params: r.Params})
	}
	for _, r := range executor.Kinds {
		k.Executors = append(k.Executors, suite.Kind{Name: r.Name, Doc: r.Doc, Params: r.Params})
	}
	return k
}

// groups are the kinds under the name of what they are.
func groups() []struct {
	what string
	list []suite.Kind
} {
	k := kinds()
	return []struct {
		what string
		list []suite.Kind
	}{
		{"harness", k.Harnesses}, {"assertion", k.Assertions}, {"environment", k.Environments}, {"policy", k.Policies},
		{"executor", k.Executors},
	}
}

func newExplain(x IO) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [KIND]",
		Short: "say what a harness, an assertion, an environment, a policy or an executor does and which settings it takes",
		Example: `assay explain
assay explain diff_scope`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				listKinds(x)
				return nil
			}
			var known []string
			var pages []string
			for _, g := range groups() {
				for _, k := range g.list {
					known = append(known, k.Name)
					if k.Name == args[0] {
						pages = append(pages, kindPage(g.what, k))
					}
				}
			}
			if pages == nil {
				slices.Sort(known)
				return usage(fmt.Errorf("there is no kind %q; there are %s", args[0], strings.Join(slices.Compact(known), ", ")))
			}
			_, err := io.WriteString(x.Out, strings.Join(pages, "\n"))
			return err
		},
	}
}

func listKinds(x IO) {
	for _, g := range groups() {
		fmt.Fprintf(x.Out, "%s\n", g.what)
		for _, k := range g.list {
			fmt.Fprintf(x.Out, "  %-14s %s\n", k.Name, k.Doc)
		}
	}
}

// kindPage explains one kind and its settings.
func kindPage(what string, k suite.Kind) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s): %s\n", k.Name, what, k.Doc)
	if i := slices.IndexFunc(harness.Kinds, func(h harness.Kind) bool { return h.Name == k.Name }); what == "harness" && i >= 0 {
		b.WriteString(harnessText(harness.Kinds[i]))
	}
	if i := slices.IndexFunc(executor.Kinds, func(e executor.Kind) bool { return e.Name == k.Name }); what == "executor" && i >= 0 {
		b.WriteString(executorText(executor.Kinds[i]))
	}
	for _, f := range suite.Describe(k.Params) {
		fmt.Fprintf(&b, "\n  %s  %s\n", f.Name, f.Type)
		for _, line := range []string{f.Doc, limits(f)} {
			if line != "" {
				fmt.Fprintf(&b, "      %s\n", line)
			}
		}
	}
	return b.String()
}

// limits says in words what a setting must be, and what it is when it is not written.
func limits(f suite.Field) string {
	var parts []string
	for _, rule := range strings.Split(f.Rule, ", ") {
		name, arg, _ := strings.Cut(rule, " ")
		switch name {
		case "required":
			parts = append(parts, "required")
		case "min":
			parts = append(parts, "at least "+arg)
		case "max":
			parts = append(parts, "at most "+arg)
		case "above":
			parts = append(parts, "above "+arg)
		case "oneof":
			parts = append(parts, "one of "+strings.ReplaceAll(arg, " ", ", "))
		case "off":
			parts = append(parts, "or off")
		}
	}
	if f.Default != "" {
		parts = append(parts, "default "+f.Default)
	}
	return strings.Join(parts, "; ")
}

func newSchema(x IO) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "print the JSON Schema of suite.yaml and case.yaml, for editors",
		Example: "assay schema",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b, err := suite.Schema(kinds())
			if err != nil {
				return err
			}
			_, err = x.Out.Write(b)
			return err
		},
	}
}
