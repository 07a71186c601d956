package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// A screen is where a person, or a program, reads what a command prints.
type screen struct {
	w          io.Writer
	isTerminal bool
	hasColor   bool
	width      int // in characters
}

// The widths of a screen.
const (
	plainWidth   = 160 // of a file or a pipe
	commonWidth  = 80  // of a terminal that does not say
	minimumWidth = 40
)

// screenOf looks at the standard output of a call. Colors are off where NO_COLOR or TERM=dumb say so.
func screenOf(x IO) screen {
	f, isTerminal := terminal(x.Out)
	if !isTerminal {
		return screen{w: x.Out, width: plainWidth}
	}
	s := screen{w: x.Out, isTerminal: true, width: commonWidth}
	s.hasColor = x.getenv("NO_COLOR") == "" && x.getenv("TERM") != "dumb"
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.width = max(width, minimumWidth)
	}
	return s
}

// terminal tells whether a stream is a terminal, and which file that is.
func terminal(w io.Writer) (*os.File, bool) {
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// A color is one of the 16 that every terminal has, or a weight.
type color string

const (
	bold   color = "1"
	dim    color = "2"
	red    color = "31"
	green  color = "32"
	yellow color = "33"
)

// paint colors text where the screen has colors.
func (s screen) paint(c color, text string) string {
	if !s.hasColor || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}
