package diffscope

import (
	"path"
	"slices"
	"strings"
)

// A testWords is the words that tests are written with in one language. A word counts when it does not continue another
// one, on either side. It may start with ^, for the start of a line, and end in *, for anything behind it.
type testWords struct {
	skip   []string // leave a test out, or expect it to fail
	focus  []string // leave all other tests out
	assert []string // check something
	test   []string // start a test

	comment string // starts one that ends with its line
	quotes  string // start and end a string
}

// testWordsOf returns the words for a file by its name, or nil.
func testWordsOf(name string) *testWords {
	switch path.Ext(name) {
	case ".go":
		return &goTests
	case ".py", ".pyi":
		return &pythonTests
	case ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts":
		return &scriptTests
	case ".java", ".kt", ".kts", ".groovy", ".scala":
		return &javaTests
	case ".rs":
		return &rustTests
	case ".rb":
		return &rubyTests
	case ".cs":
		return &sharpTests
	case ".swift":
		return &swiftTests
	case ".php":
		return &phpTests
	case ".c", ".cc", ".cpp", ".cxx":
		return &cppTests
	}
	return nil
}

var goTests = testWords{
	skip: []string{
		"t.Skip", "t.Skipf", "t.SkipNow", "b.Skip", "b.Skipf", "b.SkipNow", "f.Skip", "f.Skipf", "f.SkipNow",
		"tb.Skip", "tb.Skipf", "tb.SkipNow", ".T().Skip*", "^//go:build*",
	},
	assert: []string{
		"t.Error", "t.Errorf", "t.Fatal", "t.Fatalf", "t.Fail", "t.FailNow", "b.Error*", "b.Fatal*", "f.Error*", "f.Fatal*",
		"tb.Error*", "tb.Fatal*", "require.*", "assert.*", "is.*", "c.Assert", "c.Check", "qt.*", "Expect", "Ω",
	},
	test:    []string{"^func Test*", "^func Fuzz*", "^func Example*", "^func Benchmark*", "t.Run"},
	comment: "//",
	quotes:  "\"'`",
}

var pythonTests = testWords{
	skip: []string{
		"pytest.mark.skip*", "pytest.mark.xfail", "pytest.skip", "pytest.xfail", "pytest.importorskip", "mark.skip*",
		"mark.xfail",
		"unittest.skip*", "unittest.SkipTest", "unittest.expectedFailure", "self.skipTest", "raise SkipTest",
		"^@skip*", "^@xfail", "^@expectedFailure", "^__test__ = False", "^collect_ignore*",
	},
	assert: []string{
		"^assert", "self.assert*", "self.fail*", "pytest.raises", "pytest.warns", "pytest.fail", ".assert_*",
		"assert_*", ".testing.assert*",
	},
	test:    []string{"^def test*", "^async def test*"},
	comment: "#",
	quotes:  "\"'",
}

var scriptTests = testWords{
	skip: []string{
		"it.skip", "test.skip", "describe.skip", "context.skip", "suite.skip", "test.describe.skip", "it.skipIf",
		"test.skipIf",
		"describe.skipIf", "xit(", "xit.*", "xtest(", "xtest.*", "xdescribe(", "xdescribe.*", "xcontext(",
		"xspecify(", "it.todo",
		"test.todo", "describe.todo", "it.failing", "test.failing", "it.fails", "test.fails", "test.fail", "test.fixme",
		"this.skip(", "t.skip(", "skip: true", "todo: true", "^pending(",
	},
	focus: []string{
		"it.only", "test.only", "describe.only", "context.only", "suite.only", "specify.only", "test.describe.only",
		"fit(", "fit.*", "fdescribe(", "fdescribe.*", "fcontext(", "only: true",
	},
	assert: []string{
		"expect(", "expect.*", "assert(", "assert.*", ".should.*", "should(", "t.is", "t.true", "t.false",
		"t.deepEqual", "t.throws*",
	},
	test: []string{
		"it(", "it.each*", "it.concurrent*", "it.only", "it.skip", "it.skipIf", "it.todo", "it.failing", "it.fails",
		"xit(", "fit(",
		"test(", "test.each*", "test.concurrent*", "test.only", "test.skip", "test.skipIf", "test.todo",
		"test.failing", "test.fails",
		"xtest(", "specify(", "Deno.test", "test.fixme",
	},
	comment: "//",
	quotes:  "\"'`",
}

var javaTests = testWords{
	skip: []string{
		"@Disabled*", "@Ignore", "@Ignored", "@Test(enabled = false", "Assume.*", "Assumptions.*", "assumeTrue",
		"assumeFalse",
		"assumeThat", "throw SkipException", "new SkipException",
	},
	assert: []string{
		"assert*", "Assert.*", "Assertions.*", "Truth.*", "verify", "fail", "should", "shouldBe*", "shouldNot*",
		"shouldThrow*",
		"expect", "expectThat", ".andExpect", ".isEqualTo", "StepVerifier.*",
	},
	test:    []string{"@Test", "@ParameterizedTest", "@RepeatedTest", "@TestFactory", "@TestTemplate", "@Property"},
	comment: "//",
	quotes:  "\"'",
}

var rustTests = testWords{
	skip:   []string{"#[ignore", "ignore)]", "#[cfg(any())", "#[cfg_attr(any(), test"},
	assert: []string{"assert*", "debug_assert*", "prop_assert*", "panic!*", ".unwrap_err", ".expect_err"},
	test: []string{
		"#[test", "#[tokio::test*", "#[async_std::test*", "#[rstest*", "#[test_case*", "#[quickcheck*", "proptest!*",
	},
	comment: "//",
	quotes:  "\"",
}

var rubyTests = testWords{
	skip: []string{
		"^skip", "^pending", "^xit", "^xdescribe", "^xcontext", "^xspecify", "^xexample", ":skip", "skip:",
		"pending:", "^omit",
	},
	focus: []string{"^fit", "^fdescribe", "^fcontext", "^fspecify", ":focus", "focus: true"},
	assert: []string{
		"expect(", "expect {*", "expect do", "is_expected", "assert", "assert_*", "refute", "refute_*", ".should",
		".should_not", ".must_*", ".wont_*",
	},
	test:    []string{"^it", "^xit", "^fit", "^specify", "^test", "^def test_*", "^example", "^scenario"},
	comment: "#",
	quotes:  "\"'",
}

var sharpTests = testWords{
	skip: []string{
		"[Ignore", ", Ignore(", "[Explicit", "Skip = \"*", "Skip=\"*", "Skip = @*", "Skip = $*", "Assert.Ignore",
		"Assert.Inconclusive", "Assert.Skip*",
		"Skip.If*", "Skip.When",
	},
	assert:  []string{"Assert.*", "CollectionAssert.*", "StringAssert.*", ".Should*", ".Verify*", "Expect(*"},
	test:    []string{"[Fact", "[Theory", "[Test", "[TestCase*", "[TestMethod", "[DataTestMethod", "[SkippableFact"},
	comment: "//",
	quotes:  "\"'",
}

var swiftTests = testWords{
	skip:    []string{"XCTSkip*", "XCTExpectFailure", "@Test(.disabled*", "withKnownIssue"},
	assert:  []string{"XCTAssert*", "XCTFail", "XCTUnwrap", "#expect", "#require"},
	test:    []string{"func test*", "@Test"},
	comment: "//",
	quotes:  "\"",
}

var phpTests = testWords{
	skip: []string{
		"markTestSkipped*", "->markTestSkipped*", "->markTestIncomplete", "::markTestSkipped*", "->skip(", "->todo(",
		"#[RequiresPhp*",
	},
	focus:   []string{"->only("},
	assert:  []string{"->assert*", "::assert*", "expect(", "->expect*", "->fail("},
	test:    []string{"function test*", "#[Test", "#[DataProvider*", "^it(", "^test("},
	comment: "//",
	quotes:  "\"'",
}

var cppTests = testWords{
	skip: []string{"GTEST_SKIP", "DISABLED_*", "SKIP(", "[!shouldfail]", "[!mayfail]"},
	assert: []string{
		"EXPECT_*", "ASSERT_*", "REQUIRE*", "CHECK*", "BOOST_CHECK*", "BOOST_TEST*", "BOOST_REQUIRE*", "assert(",
	},
	test: []string{
		"^TEST(", "^TEST_F(", "^TEST_P(", "^TYPED_TEST(", "^TEST_CASE*", "^SCENARIO(", "^BOOST_AUTO_TEST_CASE",
		"^SECTION(",
	},
	comment: "//",
	quotes:  "\"",
}

// A hit is a word as people write it, and the index of its line.
type hit struct {
	line int
	word string
}

// find returns the lines that have a word of a list outside of comments and strings, each with the first such word of the
// list. It goes from word to word through the text, so that lines without any cost little.
func (w *testWords) find(list []string, text string) []hit {
	var hits []hit
	next := make([]int, len(list)) // where the text has each word next
	for i, word := range list {
		next[i] = indexFrom(text, word, 0)
	}
	line, at := 0, 0
	for len(list) > 0 {
		first := slices.Min(next)
		if first == len(text) {
			break
		}
		line += strings.Count(text[at:first], "\n")
		start := at + strings.LastIndexByte(text[at:first], '\n') + 1
		at = indexFrom(text, "\n", first)
		code, found := w.code(text[start:at]), false
		for i, word := range list {
			if next[i] >= at {
				continue
			}
			if next[i] = indexFrom(text, word, at); !found && hasWord(code, word) {
				hits, found = append(hits, hit{line, plainWord(word)}), true
			}
		}
	}
	return hits
}

// indexFrom returns where a word is next in a text, or the end of the text.
func indexFrom(text, word string, from int) int {
	if i := strings.Index(text[from:], plainWord(word)); i >= 0 {
		return from + i
	}
	return len(text)
}

// plainWord is a word without its marks.
func plainWord(word string) string { return strings.Trim(word, "^*") }

// code is a line without blanks around it, without its comment, and with its strings emptied. It sees this line alone: what
// belongs to a string or comment of many lines is taken for code, unless it starts as the lines of a comment do.
func (w *testWords) code(line string) string {
	line = strings.TrimSpace(line)
	switch {
	case strings.HasPrefix(line, "//go:build"):
		return line // a comment that the compiler obeys
	case w.comment == "//" && (strings.HasPrefix(line, "/*") || strings.HasPrefix(line, "* ") || line == "*"):
		return ""
	}
	first := strings.IndexAny(line, w.quotes+w.comment[:1])
	if first < 0 {
		return line
	}
	var code strings.Builder
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c != quote:
		case quote != 0:
			quote = 0
			code.WriteByte(c)
		case strings.HasPrefix(line[i:], w.comment):
			return strings.TrimSpace(code.String())
		default:
			if strings.IndexByte(w.quotes, c) >= 0 {
				quote = c
			}
			code.WriteByte(c)
		}
	}
	return code.String()
}

// hasWord tells whether code has a word of [testWords].
func hasWord(code, word string) bool {
	word, atStart := strings.CutPrefix(word, "^")
	word, open := strings.CutSuffix(word, "*")
	if atStart {
		return strings.HasPrefix(code, word) && (open || ends(word, code[len(word):]))
	}
	for at := 0; ; {
		i := strings.Index(code[at:], word)
		if i < 0 {
			return false
		}
		at += i + len(word)
		if starts(code[:at-len(word)], word) && (open || ends(word, code[at:])) {
			return true
		}
	}
}

// starts tells whether a word does not continue what is before it.
func starts(before, word string) bool {
	if before == "" || !isWordByte(word[0]) {
		return true
	}
	last := before[len(before)-1]
	return !isWordByte(last) && last != '.'
}

// ends tells whether what follows does not continue a word.
func ends(word, after string) bool {
	return after == "" || !isWordByte(word[len(word)-1]) || !isWordByte(after[0])
}

func isWordByte(c byte) bool { return isAlphanumeric(c) || c == '_' || c == '$' || c >= 0x80 }
