package cli

import (
	"slices"
	"strings"

	"github.com/assay-ci/assay/internal/report"
	"github.com/assay-ci/assay/internal/suite"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A completer offers words for what is being typed.
type completer = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// complete tells the shells, which assay completion teaches, what may stand where: names of the suite and cells of the
// results are read when they are asked for. What cannot be read offers nothing.
func complete(root *cobra.Command) {
	of := map[string]func(*suite.Suite) []string{"case": caseIDs, "harness": harnessIDs, "model": modelNames, "condition": conditionIDs}
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			list := of[f.Name]
			switch value := f.Value.(type) {
			case *word:
				offer(c, f.Name, value.allowed)
			default:
				if list != nil {
					register(c, f.Name, func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
						return beginning(namesOfSuite(suiteArg(args), list), typed), cobra.ShellCompDirectiveNoFileComp
					})
				}
			}
		})
		switch c.Name() {
		case "trace":
			c.ValidArgsFunction = completeCell
		case "explain":
			c.ValidArgsFunction = func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				return beginning(kindNames(), typed), cobra.ShellCompDirectiveNoFileComp
			}
		case "report":
			faces := slices.Clone(report.RowFormats)
			for _, f := range report.Faces {
				faces = append(faces, f.Name)
			}
			offer(c, "format", faces)
		}
	}
}

// offer completes a flag by fixed words.
func offer(c *cobra.Command, flag string, allowed []string) {
	register(c, flag, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return beginning(allowed, typed), cobra.ShellCompDirectiveNoFileComp
	})
}

func register(c *cobra.Command, flag string, by completer) {
	if err := c.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // the flag is there, and is registered once
	}
}

// beginning keeps what begins as typed, each word once. A word that is more than one line would be more than one word.
func beginning(list []string, typed string) []string {
	var fit []string
	for _, s := range list {
		if strings.HasPrefix(s, typed) && s == clean(s) {
			fit = append(fit, s)
		}
	}
	slices.Sort(fit)
	return slices.Compact(fit)
}

// completeCell completes DIR by the shell's own means, and CELL by the cells that the results in DIR were planned for.
func completeCell(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	m, err := manifestOf(args[0])
	if err != nil || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range m.Cells {
		names = append(names, cellID(c))
	}
	return beginning(names, typed), cobra.ShellCompDirectiveNoFileComp
}

// namesOfSuite reads names out of a suite, also out of one with faults.
func namesOfSuite(arg string, list func(*suite.Suite) []string) []string {
	p, err := openProject(arg)
	if err != nil {
		return nil
	}
	s, _ := suite.Load(p.fsys, p.file, nil) // its faults are for assay check to tell
	if s == nil {
		return nil
	}
	return list(s)
}

func caseIDs(s *suite.Suite) (names []string) {
	for _, c := range s.Cases {
		names = append(names, c.ID)
	}
	return names
}

func harnessIDs(s *suite.Suite) (names []string) {
	for _, h := range s.Harnesses {
		names = append(names, h.ID)
	}
	return names
}

func modelNames(s *suite.Suite) (names []string) {
	for _, h := range s.Harnesses {
		names = append(names, h.Models...)
	}
	return names
}

func conditionIDs(s *suite.Suite) (names []string) {
	for _, c := range s.Conditions {
		names = append(names, c.ID)
	}
	return names
}

func kindNames() (names []string) {
	for _, g := range groups() {
		for _, k := range g.list {
			names = append(names, k.Name)
		}
	}
	return names
}
