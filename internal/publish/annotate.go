package publish

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// mostCommands is how many annotations of one level GitHub takes from the log of a step; it drops the rest without a word.
// One is left for what publishing itself has to say.
const mostCommands = 9

// annotate is the place "annotations": those of the check run, or without one commands in the log. What the check run does
// not take goes to the log as well.
func annotate(ctx context.Context, d *delivery) error {
	if d.check == nil {
		logNotes(d)
		return nil
	}
	err := d.check.annotate(ctx)
	if err != nil {
		logNotes(d)
	}
	return err
}

// logNotes writes notes as workflow commands, worst first.
func logNotes(d *delivery) {
	written := map[string]int{}
	for _, n := range worstFirst(d.notes) {
		name := command(n.Level)
		if written[name]++; written[name] <= mostCommands {
			d.local.Log(logCommand(name, n))
		}
	}
	for _, name := range []string{"error", "warning", "notice"} {
		if more := written[name] - mostCommands; more > 0 {
			d.local.Log(fmt.Sprintf("%d more annotations of level %s are not shown; GitHub takes no more from a log", more, name))
		}
	}
}

// logCommand is a note as a workflow command.
func logCommand(name string, n Note) string {
	var properties []string
	add := func(key, value string) {
		if value != "" && value != "0" {
			properties = append(properties, key+"="+escapeProperty(value))
		}
	}
	add("file", n.Path)
	if n.Path != "" {
		add("line", fmt.Sprint(n.Line))
		add("endLine", fmt.Sprint(n.EndLine))
	}
	add("title", n.Title)
	if len(properties) > 0 {
		name += " " + strings.Join(properties, ",")
	}
	return "::" + name + "::" + escapeData(n.Text)
}

// escapeData is foreign text as the message of a workflow command.
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// escapeProperty is foreign text as the value of a property of a workflow command.
func escapeProperty(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

var levels = []string{"failure", "warning", "notice"}

// level is a note's level as a check run takes it. An unknown one is a notice.
func level(s string) string {
	if slices.Contains(levels, s) {
		return s
	}
	return "notice"
}

// command is a note's level as the log takes it.
func command(s string) string {
	if l := level(s); l != "failure" {
		return l
	}
	return "error"
}

// worstFirst orders notes by level, and leaves those of one level in their order.
func worstFirst(notes []Note) []Note {
	out := slices.Clone(notes)
	slices.SortStableFunc(out, func(a, b Note) int {
		return slices.Index(levels, level(a.Level)) - slices.Index(levels, level(b.Level))
	})
	return out
}
