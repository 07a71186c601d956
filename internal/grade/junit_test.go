package grade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJUnit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, xml, want, err string }{
		{"suite as root", junitPasses, "2 passed, 0 failed, 0 skipped", ""},
		{"every outcome", `<?xml version="1.0" encoding="UTF-8"?>
<testsuites failures="1" errors="1"><testsuite name="s" failures="1" errors="1" skipped="1" time="NaN">
<properties><property name="a" value="b"/></properties>
<testcase name="a" classname="c" time="Inf"/>
<testcase name="b"><failure message="m">text &amp; <![CDATA[<failure/>]]></failure></testcase>
<testcase name="d"><error/></testcase>
<testcase name="e"><skipped/></testcase>
<system-out>&lt;testcase/&gt;</system-out></testsuite></testsuites>`, "1 passed, 2 failed, 1 skipped; failed: b, d", ""},
		{"skipped and failed is failed", `<testsuite><testcase name="a"><skipped/><failure/></testcase><testcase name="b"><failure/><skipped/></testcase></testsuite>`,
			"0 passed, 2 failed, 0 skipped; failed: a, b", ""},
		{"passes after reruns", `<testsuite><testcase name="a"><flakyFailure/></testcase></testsuite>`, "1 passed, 0 failed, 0 skipped", ""},
		{"disabled as GoogleTest says it", `<testsuites><testsuite><testcase name="a" status="notrun" result="suppressed"/><testcase name="b" status="run" result="completed"/></testsuite></testsuites>`,
			"1 passed, 0 failed, 1 skipped", ""},
		{"nested suites", `<testsuite name="o" failures="1"><testsuite name="i" failures="1"><testcase name="a"><failure/></testcase></testsuite></testsuite>`,
			"0 passed, 1 failed, 0 skipped; failed: a", ""},
		{"suite that lists no failure", `<testsuites failures="1"><testsuite name="s" errors="1"><testcase name="a"/></testsuite></testsuites>`,
			"1 passed, 1 failed, 0 skipped; failed: s", ""},
		{"error of a suite", `<testsuite name="s"><error>no import</error><testcase name="a"/></testsuite>`, "1 passed, 1 failed, 0 skipped; failed: s", ""},
		{"no cases", `<testsuites/>`, "0 passed, 0 failed, 0 skipped", ""},
		{"empty counts", `<testsuite failures="" errors="0"><testcase name="a"/></testsuite>`, "1 passed, 0 failed, 0 skipped", ""},
		{"empty", "", "0 passed, 0 failed, 0 skipped", "it is empty"},
		{"comment only", "<!-- a -->", "0 passed, 0 failed, 0 skipped", "it is empty"},
		{"other root", `<project><testcase name="a"/></project>`, "0 passed, 0 failed, 0 skipped", "the root element is <project>"},
		{"case without suite", `<testcase name="a"/>`, "0 passed, 0 failed, 0 skipped", "the root element is <testcase>"},
		{"case in a case", `<testsuite><testcase name="a"><testcase name="b"/></testcase></testsuite>`, "0 passed, 0 failed, 0 skipped", "a test case lies in another"},
		{"negative count", `<testsuite failures="-1"/>`, "0 passed, 0 failed, 0 skipped", "failures is not a count: -1"},
		{"huge count", `<testsuite errors="99999999999999999999"/>`, "0 passed, 0 failed, 0 skipped", "errors is not a count: 99999999999999999999"},
		{"two roots", junitPasses + `<other><failure/></other>`, "2 passed, 0 failed, 0 skipped", "more follows the root element"},
		{"cut off", `<testsuite><testcase name="a"/>`, "1 passed, 0 failed, 0 skipped", "XML syntax error on line 1: unexpected EOF"},
		{"entities are not expanded", `<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite name="&b;"/>`, "0 passed, 0 failed, 0 skipped",
			"XML syntax error on line 1: invalid character entity &b;"},
		{"nested too deep", `<testsuite>` + strings.Repeat("<a>", 100), "0 passed, 0 failed, 0 skipped", "elements are nested more than 64 deep"},
		{"other encoding", `<?xml version="1.0" encoding="UTF-16"?><testsuite/>`, "0 passed, 0 failed, 0 skipped",
			`xml: encoding "UTF-16" declared but Decoder.CharsetReader is nil`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found := newTally(nil)
			message := ""
			if err := readJUnit(strings.NewReader(tt.xml), found); err != nil {
				message = err.Error()
			}
			if diff := cmp.Diff([]string{tt.want, tt.err}, []string{summary(found), message}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestJUnitNames(t *testing.T) {
	t.Parallel()
	found := newTally([]string{"adds", "calc.adds", "other.adds", "none"})
	err := readJUnit(strings.NewReader(`<testsuite><testcase classname="calc" name="adds"/><testcase classname="other" name="adds"><skipped/></testcase></testsuite>`), found)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]outcome{"adds": testSkipped, "calc.adds": testPassed, "other.adds": testSkipped, "none": testUnseen}
	if diff := cmp.Diff(want, found.named); diff != "" {
		t.Error(diff)
	}
}

func FuzzJUnit(f *testing.F) {
	f.Add(junitPasses)
	f.Add(`<testsuites errors="2"><testsuite name="s" failures="1"><error/><testcase name="a"><failure/></testcase></testsuite></testsuites>`)
	f.Add(`<testsuite><testcase><testcase/></testcase></testsuite>`)
	f.Add(`<a:testsuites xmlns:a="b"><a:testcase/></a:testsuites><testcase><failure/></testcase>`)
	f.Fuzz(func(t *testing.T, xml string) {
		found := newTally([]string{"a"})
		err := readJUnit(strings.NewReader(xml), found)
		if err == nil && !strings.Contains(xml, "testsuite") {
			t.Errorf("%q was taken for JUnit", xml)
		}
		if n := found.passed + found.failed + found.skipped; n > strings.Count(xml, "<") {
			t.Errorf("%s from %d elements", summary(found), strings.Count(xml, "<"))
		}
		if len(found.failing) > maxRows || len(found.named) != 1 {
			t.Errorf("lists grew: %s", summary(found))
		}
	})
}
