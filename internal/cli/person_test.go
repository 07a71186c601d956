package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// What is printed while a question stands on the screen comes after its answer, and a line that nobody waited for is gone.
func TestNothingIsPrintedIntoAQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, keyboard := io.Pipe()
		var screen bytes.Buffer
		p := newPerson(in, &screen)
		fmt.Fprintln(keyboard, "too early")
		synctest.Wait()
		go func() {
			time.Sleep(time.Second)
			fmt.Fprintln(p, "[1/2] passed")
		}()
		go func() {
			time.Sleep(2 * time.Second)
			fmt.Fprintln(keyboard, "allow")
		}()
		line, err := p.ask(t.Context(), "Allow? ")
		synctest.Wait()
		if want := "\nAllow? [1/2] passed\n"; line != "allow" || err != nil || screen.String() != want {
			t.Errorf("%q, %v; the screen shows %q, want %q", line, err, screen.String(), want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if line, err := p.ask(ctx, "Allow? "); err == nil {
			t.Errorf("nobody answered %q", line)
		}
		keyboard.Close()
		if line, err := p.ask(t.Context(), "Allow? "); err == nil {
			t.Errorf("nobody can answer %q", line)
		}
	})
}
