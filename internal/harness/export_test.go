package harness

import (
	"io"
	"net/http"
)

// SetTransport lets a test answer the requests of an openai harness.
func SetTransport(h Harness, rt http.RoundTripper) { h.(*openai).client.Transport = rt }

// ReadChatAnswer reads an answer and tells its text, the number of its tool calls and why it ended.
func ReadChatAnswer(r io.Reader) (text string, calls int, finish string, err error) {
	a, err := readChatAnswer(r)
	return a.text, len(a.calls), a.finish, err
}
