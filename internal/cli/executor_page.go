package cli

import (
	"fmt"
	"strings"

	"github.com/assay-ci/assay/internal/executor"
	"github.com/assay-ci/assay/internal/suite"
)

// aboutExecutor is what its row says of an executor, in the order in which a newcomer asks.
func aboutExecutor(k executor.Kind) []section {
	return []section{
		{"How it is run", []string{k.Runs}},
		{"What is enforced", k.Holds},
		{"What is not", []string{k.Isolation}},
	}
}

// executorText is what assay explain says of an executor beside its settings.
func executorText(k executor.Kind) string {
	var b strings.Builder
	for _, s := range aboutExecutor(k) {
		fmt.Fprintf(&b, "\n  %s\n", s.title)
		for _, line := range s.lines {
			b.WriteString(wrapped(line, "    - ", "      "))
		}
	}
	if len(suite.Describe(k.Params)) > 0 {
		b.WriteString("\n  Settings\n")
	}
	return b.String()
}
