package diffscope

import (
	"bytes"
	"fmt"

	"github.com/sourcegraph/go-diff/diff"
)

// maxHunks bounds the patch that Spans reads, in bytes. GitHub leaves the patch of a larger file out.
const maxHunks = 1 << 20

// Spans are the runs of lines, counted from 1 and both ends included, that a patch of one file holds on its right side:
// added lines and the unchanged ones around them. The patch has no file header, as in GitHub's list of a pull request's
// files. What the hunks hold counts, and not what their headers say, for GitHub may cut a patch short.
func Spans(patch string) ([][2]int, error) {
	if patch == "" {
		return nil, nil
	}
	if len(patch) > maxHunks {
		return nil, fmt.Errorf("read hunks: larger than %d bytes", maxHunks)
	}
	hunks, err := diff.ParseHunks([]byte(patch))
	if err != nil {
		return nil, fmt.Errorf("read hunks: %w", err)
	}
	var spans [][2]int
	for _, h := range hunks {
		from, to := int(h.NewStartLine), int(h.NewStartLine)
		for line := range bytes.Lines(h.Body) {
			if line[0] != '-' {
				to++
			}
		}
		if from >= 1 && to > from {
			spans = append(spans, [2]int{from, to - 1})
		}
	}
	return spans, nil
}
