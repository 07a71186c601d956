package executor

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Harbor runs a line of shell as root and gives its whole output at the end, with both streams in one. So a line of ours
// does in the place what a supervisor does on a host: it runs the command as another user, keeps its streams apart and within
// bounds, ends what the command left behind, and reports. The command can neither read nor write what the line prints.

const (
	farRun   = "/assay/run" // of what belongs to our lines; only root enters it
	farUser  = "65532"      // whom commands run as
	inlineIO = 192 << 10    // bytes of a stream that come with the report; longer ones are fetched
	maxLine  = 96 << 10     // bytes of a line; a system takes no argument of more than 128 KiB
)

// ourPath is where our lines find their tools, whatever the image says.
const ourPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// shellQuote makes one word of s for a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = shellQuote(w)
	}
	return strings.Join(quoted, " ")
}

// A farCommand is a command of a place as our line runs it.
type farCommand struct {
	id        string // unguessable; names its folder below farRun
	dir       string // absolute
	argv, env []string
	stdin     string // a file of the place; empty: at its end at once
	limit     int64  // bytes of a stream that are kept
}

// settings of runScript come before it, so that it holds nothing to be quoted.
func (c farCommand) script() string {
	stdin := c.stdin
	if stdin == "" {
		stdin = "/dev/null"
	}
	mark := tokenName + "=" + c.id
	env := append(c.env[:len(c.env):len(c.env)], mark)
	return fmt.Sprintf("%s d=%s/%s in=%s dir=%s limit=%d most=%d user=%s mark=%s\nset -- %s\nenv=(%s)\n%s",
		ourPath, farRun, c.id, shellQuote(stdin), shellQuote(c.dir), c.limit, inlineIO, farUser, mark,
		shellWords(c.argv), shellWords(env), runScript)
}

// asUser makes the beginning of a command line that runs as the user of commands, without the powers of root. It is no
// function: bash would keep a process of its own above the command, and tell of its signals on the command's stderr.
const asUser = `as=(setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs)
`

// runScript runs "$@" with the environment env. What it left behind is ended: all that runs as its user when no other command
// is alive in the place, and else what carries its mark or is of its group.
const runScript = asUser + `set -m
LC_ALL=C
mkdir -p -m 700 ` + farRun + ` && mkdir -m 700 "$d" && mkfifo "$d/1" "$d/2" || exit 1
exec 2>"$d/said"
lock() { until mkdir ` + farRun + `/lock; do sleep 0.01; done; }
lock; : >"$d/alive"; rmdir ` + farRun + `/lock
keep() { { head -c "$limit" >"$d/$2"; wc -c >"$d/$2.more"; } <"$d/$1"; }
keep 1 out & k1=$!
keep 2 err & k2=$!
"${as[@]}" bash -c 'cd -- "$1" 2>/dev/null || { echo "assay: folder $1: it cannot be entered" >&2; exit 126; }; shift; exec env -i "$@"' \
  bash "$dir" "${env[@]}" "$@" <"$in" >"$d/1" 2>"$d/2" &
p=$!
echo "$p" >"$d/pid"
wait "$p"; code=$?
echo "$code" >"$d/code"
signal=-
if [ "$code" -gt 128 ] && grep -q " $p " "$d/said"; then signal=SIG$(kill -l "$code"); fi
kept() { ! kill -0 "$k1" && ! kill -0 "$k2"; }
for i in {1..25}; do kept && break; sleep 0.02; done
left() {
  if [ "$all" ]; then
    stat -c '%u %n' /proc/[0-9]* | sed -n "s|^$user /proc/||p"
  else
    kill -0 -- "-$p" && echo "-$p"
    "${as[@]}" grep -lszx -- "$mark" /proc/[0-9]*/environ | sed 's|^/proc/||; s|/.*||'
  fi | while read -r s; do
    line=$(</proc/"$s"/stat)
    line=${line##*) }
    [ "${line:0:1}" = Z ] || echo "$s"
  done
}
swept=0; survivors=
lock; rm "$d/alive"
all=1; for o in ` + farRun + `/*/alive; do [ -e "$o" ] && all=; done
for i in {1..75}; do
  list=$(left)
  [ "$i" = 1 ] && { swept=$(wc -w <<<"$list"); [ "$all" ] && "${as[@]}" bash -c 'kill -KILL -1'; }
  [ "$list" ] || break
  if [ "$all" ]; then "${as[@]}" bash -c 'kill -KILL -1'; else kill -KILL -- $list; fi
  sleep 0.02
done
for s in $list; do survivors+=$(tr '\0\n' '  ' <"/proc/$s/cmdline" | head -c 200 | base64 -w 0),; done
rmdir ` + farRun + `/lock
for i in {1..25}; do kept && break; sleep 0.02; done
short=0; kept || { short=1; kill -KILL -- -"$k1" -"$k2"; }
stopped=0; [ -e "$d/stopped" ] && stopped=1
size() { stat -c %s "$1" || echo 0; }
o=$(size "$d/out") e=$(size "$d/err")
om=$(cat "$d/out.more") em=$(cat "$d/err.more")
printf 'assay %s %s %s %s %s %s %s %s %s,%s\n' "$code" "$signal" "$stopped" "$swept" "$short" "$o" "${om:-0}" "$e" "${em:-0}" "$survivors"
if [ "$o" -le "$most" ] && [ "$e" -le "$most" ]; then base64 -w 0 "$d/out"; echo; base64 -w 0 "$d/err"; echo; rm -rf "$d"; fi
`

// stopScript ends a command that runs: TERM to its group, and KILL after a while.
func stopScript(id string, grace time.Duration) string {
	return fmt.Sprintf("%s d=%s/%s rounds=%d\n%s", ourPath, farRun, id, grace/(100*time.Millisecond), `
exec 2>/dev/null
for i in {1..100}; do [ -s "$d/pid" ] && break; sleep 0.02; done
p=$(cat "$d/pid") || exit 0
[ -e "$d/code" ] && exit 0
: >"$d/stopped"
kill -TERM -- -"$p" || exit 0
for ((i = 0; i < rounds; i++)); do kill -0 -- -"$p" || exit 0; sleep 0.1; done
kill -KILL -- -"$p"
`)
}

// A farReport is what runScript says of a command. A shell cannot tell the exit code 143 from an end by TERM, nor 130 from INT
// and 141 from PIPE: they are codes, unless we sent the TERM. Other signals it tells.
type farReport struct {
	code      int
	signal    string
	stopped   bool // it still ran when it was told to stop
	swept     int
	short     bool // a stream was held open from elsewhere
	out, err  farStream
	survivors []string
}

// A farStream is one stream of a command.
type farStream struct {
	kept, more int64  // bytes: in its file, and beyond the limit
	data       []byte // of its file, when that is short
	inline     bool   // it is
}

var errNoReport = errors.New("the place does not say how the command ended")

// parseReport understands what runScript printed. Nobody but root of the place can have printed it, and that is not the user
// of any command; still, nothing here trusts it further than its form.
func parseReport(out string) (farReport, error) {
	head, rest, _ := strings.Cut(out, "\n")
	fields := strings.Fields(head)
	if len(fields) != 10 || fields[0] != "assay" {
		return farReport{}, fmt.Errorf("%w: %q", errNoReport, shorten(out, 200))
	}
	var r farReport
	var numbers [8]int64
	last, survivors, _ := strings.Cut(fields[9], ",")
	for i, f := range []string{fields[1], fields[3], fields[4], fields[5], fields[6], fields[7], fields[8], last} {
		n, err := strconv.ParseInt(f, 10, 62)
		if err != nil || n < 0 {
			return r, fmt.Errorf("%w: %q", errNoReport, shorten(out, 200))
		}
		numbers[i] = n
	}
	r.code, r.stopped, r.swept, r.short = int(numbers[0]), numbers[1] == 1, int(numbers[2]), numbers[3] == 1
	r.out, r.err = farStream{kept: numbers[4], more: numbers[5]}, farStream{kept: numbers[6], more: numbers[7]}
	switch {
	case fields[2] != "-":
		r.signal, r.code = fields[2], -1
	case r.stopped && r.code == 128+int(syscall.SIGTERM):
		r.signal, r.code = "SIGTERM", -1
	}
	for s := range strings.SplitSeq(survivors, ",") {
		if name, err := base64.StdEncoding.DecodeString(s); err == nil && len(name) > 0 {
			r.survivors = append(r.survivors, string(bytes.TrimSpace(name)))
		}
	}
	if r.out.kept > inlineIO || r.err.kept > inlineIO {
		return r, nil
	}
	first, second, _ := strings.Cut(rest, "\n")
	if !r.out.decode(first) || !r.err.decode(second) {
		return r, fmt.Errorf("%w: its output is not whole", errNoReport)
	}
	return r, nil
}

func (s *farStream) decode(text string) bool {
	data, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	s.data, s.inline = data, true
	return err == nil && int64(len(data)) == s.kept
}

// probeScript looks around in a new place, before anything else ran there, and makes its folders. It prints the PATH of the
// image, the interfaces, and the number of routes of others than lo.
const probeScript = `path=$PATH; ` + ourPath + `; user=` + farUser + `
` + asUser + `for t in setpriv env tar head wc stat grep base64 mkfifo sed tr xargs; do type "$t" >/dev/null 2>&1 || { echo "lacks $t"; exit 0; }; done
[ "$(id -u)" = 0 ] || { echo "lacks root"; exit 0; }
[ "$("${as[@]}" id -u)" = "$user" ] || { echo "lacks setpriv"; exit 0; }
mkdir -p -m 755 ` + InsideRoot + `/work ` + InsideRoot + `/home ` + InsideRoot + `/tmp && mkdir -p -m 700 ` + farRun + ` || { echo "lacks /assay"; exit 0; }
chown "$user:$user" ` + InsideRoot + `/* || { echo "lacks chown"; exit 0; }
lo=$(cat /proc/net/dev | tail -n +3 | sed 's/:.*//' | tr -d ' ' | tr '\n' ',')
n=$({ tail -n +2 /proc/net/route; grep -v ' lo$' /proc/net/ipv6_route; } 2>/dev/null | grep -c .)
printf 'has\n%s\n%s\n%s\n' "$path" "$lo" "$n"
`

// A farLook is what probeScript found.
type farLook struct {
	path       string
	interfaces []string
	routes     int
}

func parseLook(out string) (farLook, error) {
	lines := strings.Split(out, "\n")
	if what, ok := strings.CutPrefix(lines[0], "lacks "); ok {
		return farLook{}, fmt.Errorf("places of this image cannot be used: %s is missing; it needs root, bash, tar and setpriv (util-linux)", shorten(what, 100))
	}
	if len(lines) < 4 || lines[0] != "has" {
		return farLook{}, fmt.Errorf("places of this image cannot be used: bash did not run there: %q", shorten(out, 200))
	}
	routes, err := strconv.Atoi(lines[3])
	if err != nil {
		return farLook{}, fmt.Errorf("what a place can reach is not known: %q", shorten(out, 200))
	}
	look := farLook{path: lines[1], routes: routes, interfaces: []string{}}
	for name := range strings.SplitSeq(lines[2], ",") {
		if name != "" {
			look.interfaces = append(look.interfaces, name)
		}
	}
	return look, nil
}
