package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/assay-ci/assay/internal/diffscope"
	"github.com/assay-ci/assay/internal/trace"
	"github.com/jedib0t/go-pretty/v6/text"
)

// What a person is shown of each text, in lines, and of each line, in characters; --full shows all.
const (
	maxSaidLines    = 40
	maxThoughtLines = 6
	maxOutputLines  = 10
	maxViewLine     = 400
	maxViewInput    = 160
)

// A viewer shows a trace as a conversation. Nearly all of its text was written by strangers: every line of it passes
// through clean.
type viewer struct {
	screen
	out  *bufio.Writer
	full bool
}

// viewTrace shows events as a conversation, then says how many lines could not be read.
func viewTrace(s screen, events iter.Seq2[trace.Event, error], full bool) error {
	v := &viewer{screen: s, out: bufio.NewWriter(s.w), full: full}
	var broken []error
	v.turns(trace.Turns(func(yield func(trace.Event) bool) {
		for e, err := range events {
			if err != nil {
				broken = append(broken, err)
			} else if e.Raw = nil; !yield(e) {
				return
			}
		}
	}), "")
	for _, err := range broken {
		v.line("", red, "(unreadable line: "+clean(err.Error())+")")
	}
	return v.out.Flush()
}

// clean makes a line of foreign text safe: what a terminal would obey or hide is shown as an escape.
func clean(line string) string {
	return strings.ReplaceAll(diffscope.Visible(line, "\t"), "\t", "    ")
}

// line prints one line that is clean already.
func (v *viewer) line(indent string, c color, line string) {
	if c != "" {
		line = v.paint(c, line)
	}
	fmt.Fprintln(v.out, indent+line)
}

// block prints a foreign text, at most limit lines of it: more of its beginning than of its end. A line that is wider than
// the screen goes on below itself.
func (v *viewer) block(indent string, c color, foreign string, limit int) {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(foreign, "\r\n", "\n"), "\n"), "\n")
	head, tail := len(lines), len(lines)
	if !v.full && len(lines) > limit+1 {
		head, tail = limit-limit/3, len(lines)-limit/3
	}
	for i, line := range lines {
		if i >= head && i < tail {
			if i == head {
				v.line(indent, dim, fmt.Sprintf("… %d more lines; --full shows them", tail-head))
			}
			continue
		}
		for _, part := range strings.Split(text.WrapText(v.cut(clean(line), maxViewLine), max(minimumWidth/2, v.width-width(indent))), "\n") {
			v.line(indent, c, part)
		}
	}
}

// cut shortens a clean line to n characters, unless all is to be shown.
func (v *viewer) cut(line string, n int) string {
	if runes := []rune(line); !v.full && len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return line
}

func (v *viewer) turns(turns []*trace.Turn, indent string) {
	for i, t := range turns {
		if i > 0 && indent == "" {
			fmt.Fprintln(v.out)
		}
		v.turn(t, indent)
	}
}

// turn prints who spoke, when and at what cost, and then what was said and done. The machinery has no head line.
func (v *viewer) turn(t *trace.Turn, indent string) {
	inner := indent
	if t.Speaker != trace.SpeakerMachinery {
		inner += "  "
		fmt.Fprintln(v.out, indent+v.paint(bold, speakerName(t))+v.paint(dim, "  "+strings.Join(turnFacts(t), " · ")))
	}
	for _, it := range t.Items {
		v.item(it, inner)
	}
}

func speakerName(t *trace.Turn) string {
	name := string(t.Speaker)
	if t.Parent != "" {
		name = "sub-" + name
	}
	if t.Number > 0 {
		name += fmt.Sprintf(" %d", t.Number)
	}
	return name
}

// turnFacts tell when a turn was, and what it used as far as that is known.
func turnFacts(t *trace.Turn) []string {
	facts := []string{seconds(t.At)}
	if seconds(t.End) != seconds(t.At) {
		facts[0] += " to " + seconds(t.End)
	}
	if u := t.Usage(); u != nil {
		if used := usageText(*u); used != "" {
			facts = append(facts, used)
		}
	}
	return facts
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// item prints one thing of a turn. What tells a person nothing is printed only with --full.
func (v *viewer) item(it *trace.Item, indent string) {
	switch it.Kind {
	case trace.KindUserMessage, trace.KindAssistantText:
		v.block(indent, "", it.Text, maxSaidLines)
	case trace.KindThinking:
		v.block(indent, dim, "(thinks) "+it.Text, maxThoughtLines)
	case trace.KindToolCall:
		v.call(it, indent)
	case trace.KindToolResult:
		v.result(indent, &it.Event)
	case trace.KindPermissionRequest, trace.KindQuestion:
		v.asks(it, indent)
	case trace.KindPlan:
		for _, p := range it.Plan {
			v.block(indent, "", fmt.Sprintf("[%s] %s", p.Status, p.Text), 1)
		}
	case trace.KindError, trace.KindRetry:
		v.fault(it, indent)
	case trace.KindStop:
		v.stop(it, indent)
	case trace.KindUsage:
		if it.Usage != nil && it.Usage.Scope == "session" && usageText(*it.Usage) != "" {
			v.line(indent, dim, "used in all: "+usageText(*it.Usage))
		} else if v.full {
			v.line(indent, dim, v.oneLine(it.Event))
		}
	case trace.KindModelCall:
		if v.full || it.Call != nil && it.Call.HTTP >= 400 {
			v.line(indent, dim, v.oneLine(it.Event))
		}
	case trace.KindSubagent:
		if v.full || it.Text != "progress" {
			v.line(indent, dim, v.oneLine(it.Event))
		}
	case trace.KindSessionStart, trace.KindPermissionResponse, trace.KindAnswer:
		v.line(indent, dim, v.oneLine(it.Event))
	default:
		if v.full {
			v.line(indent, dim, v.oneLine(it.Event))
		}
	}
}

// oneLine tells an event by its kind and its text.
func (v *viewer) oneLine(e trace.Event) string {
	return strings.TrimSpace(clean(string(e.Kind)) + "  " + v.cut(clean(eventText(e)), maxViewLine))
}

// call prints a tool call with all that belongs to it.
func (v *viewer) call(it *trace.Item, indent string) {
	if it.Tool == nil {
		v.line(indent, dim, v.oneLine(it.Event))
		return
	}
	head := "▸ " + v.paint(bold, v.cut(clean(it.Tool.Name), 80))
	if input := toolInput(*it.Tool, v.full); input != "" {
		head += " " + v.cut(clean(input), maxViewInput)
	}
	fmt.Fprintln(v.out, indent+head)
	v.asks(it, indent+"    ")
	v.turns(it.Turns, indent+"    ")
	if it.Result == nil {
		v.line(indent+"    ", yellow, "(no result was seen)")
		return
	}
	v.result(indent+"    ", it.Result)
}

// toolInput is what a tool was called with: in short the paths or the one text that matters, else all of it.
func toolInput(t trace.Tool, full bool) string {
	if full {
		return string(t.Input)
	}
	switch {
	case t.Kind == trace.ToolAsk: // the questions stand below
		return ""
	case len(t.Paths) > 0:
		return strings.Join(t.Paths, " ")
	}
	var input map[string]any
	if json.Unmarshal(t.Input, &input) == nil {
		for _, key := range []string{"command", "cmd", "pattern", "query", "url", "prompt", "path"} {
			if value, ok := input[key].(string); ok {
				return value
			}
		}
	}
	return string(t.Input)
}

// result prints how a tool call ended and what it gave.
func (v *viewer) result(indent string, e *trace.Event) {
	if e.Tool == nil {
		v.line(indent, dim, v.oneLine(*e))
		return
	}
	status, c := clean(string(e.Tool.Status)), green
	switch e.Tool.Status {
	case trace.StatusOK:
	case "": // ATIF does not tell
		status, c = "result", dim
	default:
		c = red
	}
	if e.Tool.Exit != nil && *e.Tool.Exit != 0 {
		status += fmt.Sprintf(", exit %d", *e.Tool.Exit)
	}
	if e.Tool.Duration >= 100*time.Millisecond {
		status += ", " + seconds(e.Tool.Duration)
	}
	v.line(indent, c, status)
	if e.Tool.Output != "" {
		v.block(indent+"  ", "", e.Tool.Output, maxOutputLines)
	}
	if e.Tool.Diff != "" && v.full {
		v.block(indent+"  ", dim, e.Tool.Diff, maxOutputLines)
	}
}

// asks prints what was asked, and the replies.
func (v *viewer) asks(it *trace.Item, indent string) {
	for _, x := range it.Asks {
		switch {
		case x.Ask.Kind == trace.KindQuestion:
			for _, q := range x.Ask.Ask.Questions {
				v.block(indent, yellow, "? "+q.Text, maxOutputLines)
			}
		case it.Kind == trace.KindToolCall && len(it.Tool.Input) > 0 && !v.full: // its input stands above
			v.line(indent, yellow, "? may it")
		default:
			v.line(indent, yellow, "? may it "+v.cut(clean(strings.TrimSpace(x.Ask.Ask.Name+" "+x.Ask.Ask.Input)), maxViewInput))
		}
		if x.Reply == nil || x.Reply.Ask == nil {
			v.line(indent, yellow, "  (no reply was seen)")
			continue
		}
		v.block(indent, "", "→ "+replyText(*x.Reply.Ask), maxOutputLines)
	}
}

// replyText tells a reply and whose it was.
func replyText(a trace.Ask) string {
	reply := a.Outcome
	if len(a.Answers) > 0 {
		reply = strings.TrimSpace(reply + ": " + strings.Join(a.Answers, "; "))
	}
	if a.By != "" {
		reply += ", by " + a.By
	}
	if a.Reason != "" {
		reply += " (" + a.Reason + ")"
	}
	return reply
}

func (v *viewer) fault(it *trace.Item, indent string) {
	c := red
	if it.Err == nil || it.Err.Class == trace.ClassWarning || it.Kind == trace.KindRetry {
		c = yellow
	}
	v.block(indent, c, "! "+faultText(it.Event), maxOutputLines)
}

// faultText tells what went wrong.
func faultText(e trace.Event) string {
	parts := []string{string(e.Kind), e.Text}
	if e.Err != nil {
		parts[0] = string(e.Err.Class)
		if e.Err.HTTP != 0 {
			parts = append(parts, fmt.Sprintf("HTTP %d", e.Err.HTTP))
		}
		parts = append(parts, e.Err.Detail)
	}
	return joinTexts(parts...)
}

func (v *viewer) stop(it *trace.Item, indent string) {
	if it.Stop == nil {
		v.line(indent, dim, v.oneLine(it.Event))
		return
	}
	c := green
	if it.Stop.Reason != trace.StopEndTurn {
		c = red
	}
	parts := []string{"stopped at " + seconds(it.At) + ":", string(it.Stop.Reason), string(it.Stop.Class), it.Stop.Detail}
	v.block(indent, c, joinTexts(parts...), maxOutputLines)
}
