package cli

import (
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/harness"
	"github.com/assay-ci/assay/internal/suite"
)

// A section is one heading of what there is to know about a harness, with whole sentences below it.
type section struct {
	title string
	lines []string
}

// aboutHarness is what its row says of a harness, in the order in which a newcomer asks.
func aboutHarness(k harness.Kind) []section {
	sections := []section{
		{"How it is run", []string{k.About.Runs}},
		{"What is recorded", []string{k.About.Records}},
		{"What its agent cannot tell", k.About.Silent},
		{"What a condition can give it", []string{takes(k)}},
		{"What it asks", []string{asks(k)}},
		{"What ends it", []string{k.About.Limits}},
	}
	if k.About.Install != "" {
		sections = append(sections, section{"How to install it", []string{"`" + k.About.Install + "`, the version that the tests are written for."}})
	}
	for _, p := range profiles(k) {
		sections = append(sections, section{"agent: " + p.Name, aboutProfile(p)})
	}
	return sections
}

func takes(k harness.Kind) string {
	list := append([]string(nil), k.Takes...)
	for i, key := range list {
		list[i] = "`" + key + "`"
	}
	text := "`files`, `env`, `prompt_prefix`, " + strings.Join(list, ", ") + "."
	switch {
	case k.Simulated:
		return text + " No model is told of them."
	case calls(k):
		return text + " The gateway looks whether the model was really told of them, but for `files` and `env`."
	}
	return text + " Nobody can see whether a model was told of them."
}

func asks(k harness.Kind) string {
	switch {
	case len(k.Asks) == 0:
		return "Nothing. Policies other than `auto-approve` are refused."
	case len(k.Asks) == 1:
		return "Permissions, of the policy of `interaction`."
	}
	return "Permissions and questions, of the policy of `interaction`."
}

// calls tells whether the agents of a kind call their models through the gateway.
func calls(k harness.Kind) bool {
	for _, f := range suite.Describe(k.Params) {
		if f.Name == "model_script" {
			return true
		}
	}
	return false
}

func profiles(k harness.Kind) []harness.Profile {
	if k.About.Profiles == nil {
		return nil
	}
	return k.About.Profiles()
}

func aboutProfile(p harness.Profile) []string {
	run := "It is run as `" + p.Runs + "`"
	if p.Mode != "" {
		run += ", in its session mode `" + p.Mode + "`"
	}
	return append([]string{run + ". Install: `" + p.Install + "`."}, p.Silent...)
}

// harnessText is what assay explain says of a harness beside its settings.
func harnessText(k harness.Kind) string {
	var b strings.Builder
	for _, s := range aboutHarness(k) {
		fmt.Fprintf(&b, "\n  %s\n", s.title)
		for _, line := range s.lines {
			b.WriteString(wrapped(line, "    - ", "      "))
		}
	}
	fmt.Fprintf(&b, "\n  For example\n      %s\n", k.About.Example)
	if len(suite.Describe(k.Params)) > 0 {
		b.WriteString("\n  Settings\n")
	}
	return b.String()
}

// textWidth is how wide a page for a terminal is.
const textWidth = 100

// wrapped folds a sentence into lines, of which the first begins with first and the others with rest.
func wrapped(text, first, rest string) string {
	var b strings.Builder
	line := first
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			line += word
		case len(line)+1+len(word) > textWidth:
			b.WriteString(line + "\n")
			line = rest + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}
