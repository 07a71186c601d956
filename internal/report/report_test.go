package report

import (
	"os"
	"testing"

	"github.com/assay-ci/assay/internal/bench"
)

// demo is the benchmark that bench's own tests hold golden.
func demo(t testing.TB) bench.Benchmark {
	t.Helper()
	f, err := os.Open("../bench/testdata/benchmark.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := bench.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
func TestTmp(t *testing.T) {
	b := demo(t)
	for _, f := range Faces {
		data, err := f.Render(b)
		if err != nil {
			t.Fatal(err)
		}
		os.WriteFile("/tmp/face-"+f.File, data, 0o644)
	}
	println(Headline(b))
}
