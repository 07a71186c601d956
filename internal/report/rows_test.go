package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/assay-ci/assay/internal/result"
)

// rows are a full cell, one of which nothing is known, and one with hostile text.
func rows() iter.Seq2[result.Result, error] {
	return func(yield func(result.Result, error) bool) {
		_, full := exampleCell()
		hostile := full
		hostile.Detail, hostile.Agent.Model = "=HYPERLINK(\"x\")\r\n\x1b[2J", "@SUM(1)"
		_ = yield(full, nil) && yield(result.Result{Cell: full.Cell}, nil) && yield(hostile, nil)
	}
}

func TestRows(t *testing.T) {
	for _, format := range RowFormats {
		var out bytes.Buffer
		if err := WriteRows(&out, format, rows()); err != nil {
			t.Fatal(err)
		}
		golden(t, "rows."+format, out.Bytes())
		if format == "csv" {
			lines, err := csv.NewReader(&out).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			for _, field := range lines[3] {
				if strings.HasPrefix(field, "=") || strings.HasPrefix(field, "@") {
					t.Errorf("a spreadsheet would run %q", field)
				}
			}
			continue
		}
		for dec := json.NewDecoder(&out); dec.More(); {
			var row map[string]any
			if err := dec.Decode(&row); err != nil {
				t.Fatal(err)
			}
			if len(row) != len(Columns()) {
				t.Errorf("a row has %d columns, want %d", len(row), len(Columns()))
			}
		}
	}
}

// docs/exports.md tells every column, from the table.
func TestColumnsAreDocumented(t *testing.T) {
	const name, begin, end = "../../docs/exports.md", "-update -->\n", "<!-- end of columns -->"
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| column | what it says |\n|---|---|\n")
	for _, c := range Columns() {
		fmt.Fprintf(&table, "| %s | %s |\n", c.Name, c.Doc)
	}
	head, rest, _ := strings.Cut(string(page), begin)
	_, tail, _ := strings.Cut(rest, end)
	want := head + begin + table.String() + end + tail
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s is stale, run the test with -update", name)
	}
}
