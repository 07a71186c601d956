package githubtest

import (
	"embed"
	"path"
	"strings"
	"testing"
)

//go:embed testdata/webhooks/*.json
var webhooks embed.FS

// Webhooks are GitHub's examples of the payloads of our events, by name: EVENT, EVENT-ACTION or, where one more is kept,
// EVENT-ACTION-N. Among them are no example from a fork, of a comment on a pull request, of Dependabot and of a schedule:
// GitHub publishes none.
func Webhooks(tb testing.TB) map[string][]byte {
	tb.Helper()
	const folder = "testdata/webhooks"
	entries, err := webhooks.ReadDir(folder)
	if err != nil {
		tb.Fatal(err)
	}
	payloads := map[string][]byte{}
	for _, entry := range entries {
		data, err := webhooks.ReadFile(path.Join(folder, entry.Name()))
		if err != nil {
			tb.Fatal(err)
		}
		payloads[strings.TrimSuffix(entry.Name(), ".json")] = data
	}
	return payloads
}
