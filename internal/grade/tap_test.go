package grade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tapNested = `TAP version 14
# Subtest: calc
    # Subtest: adds
    ok 1 - adds
      ---
      duration_ms: 0.1
      text: |
        not ok 9 - only text
        ...
      ...
    ok 2 - later # SKIP
    not ok 3 - todo # TODO some day
    1..3
ok 1 - calc
  ---
  type: 'suite'
  ...
ok 2 - top
1..2
# tests 4
`

func TestTAP(t *testing.T) {
	t.Parallel()
	const noPlan = "no plan was printed, so the tests may have stopped half way"
	for _, tt := range []struct{ name, output, want string }{
		{"empty", "", "0 passed, 0 failed, 0 skipped"},
		{"not TAP", "okay\nnothing ok\n 1..3\n1..x\nOK (3 tests)\nnot okay\n", "0 passed, 0 failed, 0 skipped"},
		{"plan first", "1..1\nok\n", "1 passed, 0 failed, 0 skipped"},
		{"plan last", tapPasses, "2 passed, 0 failed, 0 skipped"},
		{"nested", tapNested, "2 passed, 0 failed, 2 skipped"},
		{"failure", "not ok 1 - a\nnot ok\nok - b\n1..3\n", "1 passed, 2 failed, 0 skipped; failed: a, "},
		{"version only", "TAP version 13\n", "0 passed, 0 failed, 0 skipped; " + noPlan},
		{"no plan", "ok 1\n", "1 passed, 0 failed, 0 skipped; " + noPlan},
		{"short of the plan", "1..3\nok 1\nok 2\n", "2 passed, 0 failed, 0 skipped; the plan is 1..3, and 2 were reported"},
		{"past the plan", "1..1\nok 1\nok 2\n", "2 passed, 0 failed, 0 skipped; the plan is 1..1, and 2 were reported"},
		{"two plans", "1..2\nok 1\n1..1\n", "1 passed, 0 failed, 0 skipped; two plans were printed, 1..2 and 1..1"},
		{"plan out of range", "1..99999999999999999999\nok\n", "1 passed, 0 failed, 0 skipped; the plan is not a number: 1..99999999999999999999"},
		{"all skipped", "1..0 # skip no database\n", "0 passed, 0 failed, 0 skipped"},
		{"bail out", "1..2\nok 1\nBail out! no\x1bdatabase\n", "1 passed, 0 failed, 0 skipped; bailed out: \"no\\x1bdatabase\""},
		{"skip and todo", "ok 1 # skip\nok 2 a # SKIPPED why\nok 3 # todo\nnot ok 4 # TODO\nok 5 #skip\n1..5\n", "0 passed, 0 failed, 5 skipped"},
		{"not ok with skip is a failure", "not ok 1 - a # SKIP\n1..1\n", "0 passed, 1 failed, 0 skipped; failed: a"},
		{"escaped hash", `ok 1 - a \# SKIP` + "\n1..1\n", "1 passed, 0 failed, 0 skipped"},
		{"escaped backslash", `ok 1 - a \\# SKIP` + "\n1..1\n", "0 passed, 0 failed, 1 skipped"},
		{"YAML without end", "ok 1\n  ---\n  a: b\nok 2\n1..2\n", "1 passed, 0 failed, 0 skipped; " + noPlan},
		{"YAML that belongs to nothing", "ok 1\n# c\n  ---\nok 2\n1..2\n", "2 passed, 0 failed, 0 skipped"},
		{"empty suite", "    1..0\nok 1 - suite\n1..1\n", "0 passed, 0 failed, 0 skipped"},
		{"parent fails by itself", "    ok 1 - a\n    1..1\nnot ok 1 - hook\n1..1\n", "1 passed, 1 failed, 0 skipped; failed: hook"},
		{"parent hides a failure", "    not ok 1 - a\n    1..1\nok 1 - p\n1..1\n", "0 passed, 1 failed, 0 skipped; failed: a"},
		{"failure two levels down is one", "        not ok 1 - a\n    not ok 1 - b\nnot ok 1 - c\n1..1\n", "0 passed, 1 failed, 0 skipped; failed: a"},
		{"short of the plan of sub-tests", "    ok 1 - a\n    1..2\nok 1 - p\n1..1\n", "1 passed, 0 failed, 0 skipped; the plan of sub-tests is 1..2, and 1 were reported"},
		{"sub-tests without a test", "1..1\nok 1\n    ok 1 - a\n", "2 passed, 0 failed, 0 skipped; sub-tests were reported without their test"},
		{"levels left out", "        ok 1 - a\nok 1 - p\n1..1\n", "2 passed, 0 failed, 0 skipped; sub-tests were reported without their test"},
		{"too deep", strings.Repeat("    ", maxDepth) + "ok 1\nok 1\n1..1\n", "1 passed, 0 failed, 0 skipped; sub-tests are nested more than 64 deep"},
		{"odd indentation is text", "ok 1\n   not ok 2\n\tnot ok 3\n1..1\n", "1 passed, 0 failed, 0 skipped"},
		{"carriage returns", "1..1\r\nok 1 - a\r\n", "1 passed, 0 failed, 0 skipped"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, summary(readStdout("tap", tt.output))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTAPNames(t *testing.T) {
	t.Parallel()
	found := readStdout("tap", tapNested+`ok 3 - 12 monkeys \# \\ x`+"\nok 4 no dash\n", "adds", "calc", "later", "todo", "top", `12 monkeys # \ x`, "no dash", "never")
	want := map[string]outcome{
		"adds": testPassed, "calc": testPassed, "later": testSkipped, "todo": testSkipped, "top": testPassed,
		`12 monkeys # \ x`: testPassed, "no dash": testPassed, "never": testUnseen,
	}
	if diff := cmp.Diff(want, found.named); diff != "" {
		t.Error(diff)
	}
}

func FuzzTAP(f *testing.F) {
	f.Add([]byte(tapPasses))
	f.Add([]byte(tapNested))
	f.Add([]byte("1..0 # skip\nBail out!\n"))
	f.Add([]byte("        ok 1 - a # SKIP\n    1..2\nnot ok\n\\#\nok \\"))
	f.Fuzz(func(t *testing.T, output []byte) { fuzzStdout(t, "tap", output) })
}
