package diffscope

import (
	"flag"
	"io"
	"testing"
)

var (
	stagesBefore = flag.String("before", "", "the folder that BenchmarkStages takes for the one before")
	stagesAfter  = flag.String("after", "", "the folder that BenchmarkStages takes for the one after")
)

// BenchmarkStages measures what a cell pays for one pair of folders, stage by stage. bin/bench diff makes the folders, runs
// this once a round, and holds it against its bars.
func BenchmarkStages(b *testing.B) {
	if *stagesBefore == "" || *stagesAfter == "" {
		b.Skip("needs -before and -after; make bench gives them")
	}
	before := take(b, *stagesBefore)
	after := again(b, before, *stagesAfter)
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			take(b, *stagesBefore)
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			again(b, before, *stagesAfter)
		}
	})
	b.Run("diff", func(b *testing.B) {
		for b.Loop() {
			patch, scope := compare(b, before, after, Paths{})
			writePatch(b, patch)
			b.ReportMetric(float64(scope.FilesTouched), "files")
			b.ReportMetric(float64(scope.LinesAdded), "added")
			b.ReportMetric(float64(scope.LinesRemoved), "removed")
		}
	})
	b.Run("cell", func(b *testing.B) {
		for b.Loop() {
			before := take(b, *stagesBefore)
			patch, _ := compare(b, before, again(b, before, *stagesAfter), Paths{})
			writePatch(b, patch)
		}
	})
}

func writePatch(b *testing.B, patch Patch) {
	b.Helper()
	_, err := patch.WriteTo(io.Discard)
	must(b, err)
}
