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

// The sizes of a screen.
const (
	plainWidth   = 160 // of a file or a pipe
	commonWidth  = 80  // of a terminal that does not say
	commonHeight = 24  // in lines
	minimumWidth = 40
)

// screenOf looks at the standard output of a call. A terminal has colors unless NO_COLOR, CLICOLOR=0 or TERM=dumb say that
// it has none; another place has them where CLICOLOR_FORCE says so and NO_COLOR does not.
func screenOf(x IO) screen {
	forced := x.getenv("CLICOLOR_FORCE") != "" && x.getenv("CLICOLOR_FORCE") != "0"
	plain := x.getenv("NO_COLOR") != ""
	f, isTerminal := terminal(x.Out)
	if !isTerminal {
		return screen{w: x.Out, width: plainWidth, hasColor: forced && !plain}
	}
	s := screen{w: x.Out, isTerminal: true}
	s.hasColor = !plain && (forced || x.getenv("TERM") != "dumb" && x.getenv("CLICOLOR") != "0")
	s.width, _ = sizeOf(f)
	return s
}

// sizeOf is how many characters and lines a terminal has.
func sizeOf(f *os.File) (wide, high int) {
	wide, high, err := term.GetSize(int(f.Fd()))
	if err != nil || wide <= 0 || high <= 0 {
		return commonWidth, commonHeight
	}
	return max(wide, minimumWidth), high
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
	if !s.hasColor || c == "" || strings.TrimSpace(text) == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}
