package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const key = `sk-live/9f+Zq'8"\T w$&x=`

func TestForms(t *testing.T) {
	t.Parallel()
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b[1 : len(b)-1]) }
	each := func(format string) string {
		var b strings.Builder
		for i := range len(key) {
			fmt.Fprintf(&b, format, key[i])
		}
		return b.String()
	}
	tests := map[string]string{
		"raw":                      key,
		"broken over lines":        key[:5] + "\r\n" + key[5:9] + "\n" + key[9:],
		"json":                     quoted(key),
		"json in json":             quoted(quoted(key)),
		"json in json in json":     quoted(quoted(quoted(key))),
		"json with a break":        quoted(key[:7] + "\n" + key[7:]),
		"all of it as \\u":         each(`\u%04x`),
		"all of it as \\u, upper":  each(`\u%04X`),
		"all of it as \\x":         each(`\x%02x`),
		"all of it as %":           each("%%%02x"),
		"query":                    url.QueryEscape(key),
		"path":                     url.PathEscape(key),
		"path, lower":              strings.ToLower(url.PathEscape("+/=")) + url.PathEscape(key),
		"shell, single quotes":     `'` + strings.ReplaceAll(key, `'`, `'\''`) + `'`,
		"shell, in json":           quoted(`'` + strings.ReplaceAll(key, `'`, `'\''`) + `'`),
		"shell, both quotes":       `'` + strings.ReplaceAll(key, `'`, `'"'"'`) + `'`,
		"shell, double quotes":     strings.NewReplacer(`"`, `\"`, `\`, `\\`, `$`, `\$`).Replace(key),
		"html":                     html.EscapeString(key),
		"hex":                      hex.EncodeToString([]byte(key)),
		"hex, upper":               strings.ToUpper(hex.EncodeToString([]byte(key))),
		"reversed":                 backwards(key),
		"base64 std 0":             base64.StdEncoding.EncodeToString([]byte(key + "b")),
		"base64 std 1":             base64.StdEncoding.EncodeToString([]byte("a" + key + "b")),
		"base64 std 2":             base64.StdEncoding.EncodeToString([]byte("aa" + key + "b")),
		"base64 url 1":             base64.URLEncoding.EncodeToString([]byte("a" + key + "b")),
		"base64 over lines":        base64.StdEncoding.EncodeToString([]byte("abcd" + key))[:16] + "\n" + base64.StdEncoding.EncodeToString([]byte("abcd" + key))[16:],
		"base64 as html":           strings.ReplaceAll(base64.StdEncoding.EncodeToString([]byte("a"+key)), "+", "&#43;"),
		"after a backslash":        `C:\` + key,
		"after an escaped newline": `{"x":"line\n` + quoted(key),
		"after a broken escape":    `\u12` + key + `%4` + key,
	}
	r := New([]Secret{{Name: "KEY", Value: key}})
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.String("before " + text + " after")
			if !strings.Contains(got, "[redacted:KEY]") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%s became %s", text, got)
			}
			if len(got) > len("before  after")+2*len("[redacted:KEY]")+14 {
				t.Errorf("%s left much behind: %s", text, got)
			}
			for i := range len("before " + text + " after") {
				if cut := written(r, "before "+text+" after", i); cut != got {
					t.Fatalf("cut at %d it became %q, whole it became %q", i, cut, got)
				}
			}
		})
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	pem := "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n"
	r := New([]Secret{
		{Name: "SHORT", Value: "1234567"}, {Name: "EMPTY"}, {Name: "BROKEN", Value: "\n\n\nabc\n\n\n\n\n"},
		{Name: "A", Value: "aaaabbbb"}, {Name: "B", Value: "bbbbcccc"}, {Name: "LONG", Value: "aaaabbbbdddd"},
		{Name: "od]d\nname", Value: "oddsecret"}, {Name: "PEM", Value: pem}, {Name: "RUN", Value: "zzzzzzzz"},
		{Name: "N", Value: `no"escape<`},
	})
	tests := []struct{ name, in, out string }{
		{"nothing", "a text without any", "a text without any"},
		{"a short value is no secret", "1234567 abc", "1234567 abc"},
		{"one beside the other", "oddsecretoddsecret", "[redacted:od_d_name][redacted:od_d_name]"},
		{"the longer one gives its name", "xaaaabbbbddddx", "x[redacted:LONG]x"},
		{"overlapping ones are one", "aaaabbbbcccc", "[redacted:A]"},
		{"a mark can do no harm", "<oddsecret>", "<[redacted:od_d_name]>"},
		{"lines keep their numbers", "1\naaaa\r\nbbbb\n4", "1\n[redacted:A]\n\n4"},
		{"blank lines part texts", "aaaa" + strings.Repeat("\n", 9) + "bbbb", "aaaa" + strings.Repeat("\n", 9) + "bbbb"},
		{"a key as a whole", "<" + pem + ">", "<[redacted:PEM]\n\n\n\n>"},
		{"a key in a patch", "+" + strings.ReplaceAll(pem, "\n", "\n+"), "+-----BEGIN KEY-----\n+[redacted:PEM]\n+[redacted:PEM]\n+-----END KEY-----\n+"},
		{"one that overlaps itself", "<" + strings.Repeat("z", 100_000) + ">", "<[redacted:RUN]>"},
		{"backslashes without end", "aaaa" + strings.Repeat(`\`, 1000) + "bbbb", "aaaa" + strings.Repeat(`\`, 1000) + "bbbb"},
		{"a beginning before a cut", "<aaaabbbbdd…", "<[redacted:LONG]…"},
		{"a beginning before a cut in brackets", "<aaaabbbbdd\n[… 9 bytes left out …]", "<[redacted:LONG]\n[… 9 bytes left out …]"},
		{"a beginning before another sign", "<oddsecre— oddsecre[0] oddsecre[”", "<oddsecre— oddsecre[0] oddsecre[”"},
		{"too little before a cut", "<oddsecr…", "<oddsecr…"},
		{"one that begins like an escape", `{"x":"a\\no\"escape\u003c"}`, `{"x":"a\\n[redacted:N]"}`},
		{"bytes that are no text", "\xff\xfe\x00aaaabbbb\x80", "\xff\xfe\x00[redacted:A]\x80"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.out, r.String(tt.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWriterHoldsBackOnlyWhatMayBeASecret(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := New([]Secret{{Name: "K", Value: "opensesame"}}).Writer(&out, nil)
	steps := []struct{ in, sum string }{
		{"hello op", "hello "}, {"en the door", "hello open the door"}, {" opensesam", "hello open the door "},
		{"e", "hello open the door "}, {" opens", "hello open the door [redacted:K] "},
	}
	for _, s := range steps {
		if n, err := w.Write([]byte(s.in)); n != len(s.in) || err != nil {
			t.Fatal(n, err)
		}
		if out.String() != s.sum {
			t.Errorf("after %q there is %q, not %q", s.in, out.String(), s.sum)
		}
	}
	if err := w.Close(); err != nil || !strings.HasSuffix(out.String(), " opens") {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestWriterTellsOfAFullDisk(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left")
	w := New([]Secret{{Name: "K", Value: "opensesame"}}).Writer(writerFunc(func([]byte) (int, error) { return 0, full }), nil)
	if _, err := w.Write([]byte("text")); !errors.Is(err, full) {
		t.Error(err)
	}
	if err := w.Close(); !errors.Is(err, full) {
		t.Error(err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestWithoutSecrets(t *testing.T) {
	t.Parallel()
	for _, r := range []*Redactor{nil, New(nil), New([]Secret{{Name: "S", Value: "short"}})} {
		var out bytes.Buffer
		w := r.Writer(&out, nil)
		if _, err := w.Write([]byte("text")); err != nil || w.Close() != nil || out.String() != "text" {
			t.Error(out.String(), err)
		}
		if r.String("text") != "text" || string(r.Bytes([]byte("text"))) != "text" {
			t.Error("a text was changed")
		}
	}
}

// TestNoFormSurvives hides random secrets in random text and asks the standard library for their forms.
func TestNoFormSurvives(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[ -~é\t]{8,40}`).Filter(func(s string) bool { return !TooShort(s) }).Draw(t, "secret")
		r := New([]Secret{{Name: "S", Value: secret}})
		before, after := rapid.StringMatching(`[ -~\n]{0,40}`).Draw(t, "before"), rapid.StringMatching(`[ -~\n]{0,40}`).Draw(t, "after")
		within := before + secret + after
		if out := r.String(within); strings.Contains(out, secret) {
			t.Fatalf("raw: %q", out)
		}
		var back string
		quoted, _ := json.Marshal(within)
		if err := json.Unmarshal(r.Bytes(quoted), &back); err == nil && strings.Contains(back, secret) {
			t.Fatalf("json: %q", back)
		}
		if out, err := url.QueryUnescape(r.String(url.QueryEscape(within))); err != nil || strings.Contains(out, secret) {
			t.Fatalf("percent: %q, %v", out, err)
		}
		if out := html.UnescapeString(r.String(html.EscapeString(within))); strings.Contains(out, secret) {
			t.Fatalf("html: %q", out)
		}
		if out := r.String(hex.EncodeToString([]byte(within))); strings.Contains(out, hex.EncodeToString([]byte(secret))) {
			t.Fatalf("hex: %q", out)
		}
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			whole := enc.EncodeToString([]byte(within))
			middle := whole[(len(before)*8+5)/6 : (len(before)+len(secret))*8/6]
			if out := r.String(whole); strings.Contains(out, middle) {
				t.Fatalf("base64: %q", out)
			}
		}
	})
}

// TestCutsDoNotMatter writes texts made of pieces of secrets in random portions.
func TestCutsDoNotMatter(t *testing.T) {
	t.Parallel()
	secrets := []Secret{{"A", "abababab"}, {"B", "babbabba\nab"}, {"C", `ab\b%61ba`}, {"D", "bbbbbbbbbbbb"}}
	r := New(secrets)
	pieces := []string{"ab", "ba", "b", "a", `\`, `\n`, "\n", "%61", "%6", `\u0062`, `\u00`, "abababab", "YWJhYmFiYWI=", "x", `ab\\b%2561ba`}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 60).Draw(t, "text"), "")
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(text)), 0, 8).Draw(t, "cuts")
		if whole, cut := r.String(text), written(r, text, cuts...); cut != whole {
			t.Fatalf("%q\nwhole %q\ncut   %q", text, whole, cut)
		}
	})
}

// written passes a text through a Writer, cut at some places.
func written(r *Redactor, text string, cuts ...int) string {
	var out bytes.Buffer
	w := r.Writer(&out, nil)
	from := 0
	for _, c := range append(cuts, len(text)) {
		if c > from {
			w.Write([]byte(text[from:c]))
			from = c
		}
	}
	w.Close()
	return out.String()
}

func FuzzRedact(f *testing.F) {
	f.Add("opensesame", `x opensesame \u006fpensesame %6fpensesame`, 5)
	f.Add(`a\b'c"d %41`, `a\\b'c\"d %2541 b3BlbnNlc2FtZQ==`, 9)
	f.Add("line one of it\nline two of it, longer\n", "+line one of it\r\n+line two of it, longer", 3)
	f.Fuzz(func(t *testing.T, secret, text string, cut int) {
		if len(secret) > 200 || cut < 0 || cut > len(text) {
			return
		}
		r := New([]Secret{{Name: "S", Value: secret}})
		whole := r.String(text)
		if !TooShort(secret) && strings.Contains(whole, secret) && !strings.Contains("[redacted:S]", secret) {
			// What is left of a text may, together with a mark, spell a secret again only if the secret contains a bracket.
			if !strings.ContainsAny(secret, "[]:") {
				t.Errorf("%q survives in %q", secret, whole)
			}
		}
		if got := written(r, text, cut); got != whole {
			t.Errorf("cut at %d: %q, whole: %q", cut, got, whole)
		}
		if a, b := strings.Count(text, "\n"), strings.Count(whole, "\n"); a != b {
			t.Errorf("%d lines became %d", a, b)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	var secrets []Secret
	for i := range 10 {
		secrets = append(secrets, Secret{fmt.Sprint("K", i), fmt.Sprintf("sk-%d-%s", i, hex.EncodeToString(bytes.Repeat([]byte{byte(i*37 + 11), byte(i)}, 12)))})
	}
	r := New(secrets)
	texts := map[string][]byte{
		"log":    bytes.Repeat([]byte("2026-11-21T06:12:32Z info the agent read calc.py and ran `go test ./...`: ok 0.52s\n"), 12_000),
		"json":   bytes.Repeat([]byte(`{"type":"text","text":"func main() {\n\tfmt.Println(\"hello\", \"%41\")\n}\n"}`+"\n"), 13_000),
		"base64": []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("some file that was sent whole"), 26_000))),
		"keys":   bytes.Repeat([]byte(secrets[3].Value+" "), 19_000),
	}
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				w := r.Writer(writerFunc(func(p []byte) (int, error) { return len(p), nil }), nil)
				w.Write(text)
				w.Close()
			}
		})
	}
	b.Run("New", func(b *testing.B) {
		for b.Loop() {
			New(secrets)
		}
		b.ReportMetric(float64(len(r.forms.states)), "states")
	})
}

// BenchmarkSpeed is what make bench reads: three secrets are taken out of 4 MiB of a log, and of a trace, as they are; beside
// it each secret is only looked for as it is, in a text that is there as a whole, which is the least that a mask can do. Other
// programs may run as well, so the speed is that of the time that a processor spent.
func BenchmarkSpeed(b *testing.B) {
	var secrets []Secret
	for i, prefix := range []string{"sk-ant-api03-", "ghs_", "AIzaSy"} {
		secrets = append(secrets, Secret{fmt.Sprint("K", i), prefix + randomText(uint64(i), 40)})
	}
	r := New(secrets)
	texts := map[string][]byte{"log": logText(4<<20, false), "trace": logText(4<<20, true)}
	for _, name := range []string{"log", "trace"} {
		text := texts[name]
		b.Run(name, func(b *testing.B) {
			defer reportSpeed(b, len(text))()
			for b.Loop() {
				w := r.Writer(io.Discard, nil)
				for p := range slices.Chunk(text, 64<<10) {
					w.Write(p)
				}
				w.Close()
			}
		})
	}
	b.Run("bare", func(b *testing.B) {
		defer reportSpeed(b, len(texts["log"]))()
		for b.Loop() {
			for _, s := range secrets {
				if bytes.Contains(texts["log"], []byte(s.Value)) {
					b.Fatal("the log has a secret")
				}
			}
		}
	})
}

// reportSpeed begins to count the time of processors; what it returns reports the speed at which so many bytes were read in
// each iteration, in MB a second of them.
func reportSpeed(b *testing.B, size int) func() {
	started := processorTime(b)
	return func() {
		b.ReportMetric(float64(size)*float64(b.N)/1e6/(processorTime(b)-started).Seconds(), "MB/cpu-s")
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func randomText(seed uint64, n int) string {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"[rng.IntN(64)]
	}
	return string(b)
}

// logText makes lines as agents print them: words of the same letters as in English, numbers, paths and times. As a trace
// they are strings of JSON.
func logText(size int, trace bool) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	const letters = "eeeeeeeeeeeetttttttttaaaaaaaaooooooooiiiiiiinnnnnnnsssssshhhhhhrrrrrrddddllllcccuuummmwwwfffggyyppbbvkjxqz"
	var b, line bytes.Buffer
	for b.Len() < size {
		line.Reset()
		fmt.Fprintf(&line, "2026-11-21T%02d:%02d:%02dZ ", rng.IntN(24), rng.IntN(60), rng.IntN(60))
		for range 4 + rng.IntN(16) {
			switch rng.IntN(12) {
			case 0:
				fmt.Fprintf(&line, "%d ", rng.IntN(100_000))
			case 1:
				line.WriteString("internal/redact/")
			case 2:
				line.WriteString("\n\t\"")
			}
			for range 1 + rng.IntN(9) {
				line.WriteByte(letters[rng.IntN(len(letters))])
			}
			line.WriteByte(' ')
		}
		if !trace {
			b.Write(line.Bytes())
			b.WriteByte('\n')
			continue
		}
		text, _ := json.Marshal(map[string]any{"type": "tool_result", "at": rng.IntN(1 << 30), "tool": map[string]string{"output": line.String()}})
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.Bytes()
}
