package publish

import (
	"context"
	"strings"

	"github.com/assay-ci/assay/internal/report"
)

// summaryBudget is how many bytes a job summary may have. GitHub drops all of it when it is over 1,048,576.
const summaryBudget = 1_000_000

// writeSummary is the place "summary". It is appended once, so a page that is not final is not written.
func writeSummary(_ context.Context, d *delivery) error {
	if !d.settings.Summary || d.local.Summary == nil || d.page.State == report.Running {
		return nil
	}
	d.page.Lost = append(d.page.Lost[:len(d.page.Lost):len(d.page.Lost)], sentences(d.outcome.Lost)...)
	if err := d.local.Summary(d.page.Summary(summaryBudget)); err != nil {
		return err
	}
	d.carried = true
	return nil
}

// writeLog is the place "log": the last one, when something was lost and no other place took the page.
func writeLog(_ context.Context, d *delivery) error {
	if d.carried || len(d.outcome.Lost) == 0 || d.page.State == report.Running {
		return nil
	}
	for line := range strings.Lines(string(d.page.Comment(report.CommentBudget))) {
		d.local.Log("│ " + noCommand(line))
	}
	return nil
}

// noCommand is foreign text as the rest of a line of the log. The runner takes ##[ for a command wherever it stands, and ::
// at the start of a line.
func noCommand(s string) string {
	return strings.NewReplacer("\r", " ", "\n", " ", "##[", "## [").Replace(strings.TrimSpace(s))
}
