package diffscope

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func copiesBetween(t testing.TB, before, after Tree, scope Paths) []Rename {
	t.Helper()
	patch, _ := compare(t, before, after, scope)
	found, err := copies(t.Context(), before, after, patch)
	must(t, err)
	return found
}

// with is the folder with files laid over it; the content "gone" removes one.
func (f folder) with(g folder) folder {
	all := maps.Clone(f)
	maps.Copy(all, g)
	maps.DeleteFunc(all, func(_, content string) bool { return content == "gone" })
	return all
}

func TestCopies(t *testing.T) {
	t.Parallel()
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	before := folder{"a/util.go": ten, "b/util.go": ten, "c/other.go": "other\n", "edited.go": lines("a", "b", "c", "d"), "empty": "", "link": "-> a", "bin": "\x00\n1\n2\n3\n"}
	for _, test := range []struct {
		rule  string
		laid  folder
		scope Paths
		want  []Rename
	}{
		{"nothing created", folder{"a/util.go": "x\n"}, Paths{}, nil},
		{"the first of the same name", folder{"z/util.go": ten}, Paths{}, []Rename{{"a/util.go", "z/util.go", 1}}},
		{"the first of any name", folder{"z.go": ten}, Paths{}, []Rename{{"a/util.go", "z.go", 1}}},
		{"the same name before the first", folder{"c/x": "gone", "y/other.go": "other\n"}, Paths{}, []Rename{{"c/other.go", "y/other.go", 1}}},
		{"what is gone is no source", folder{"a/util.go": "gone", "z1": ten, "z2": ten}, Paths{}, []Rename{{"b/util.go", "z2", 1}}},
		{"a source that changed since", folder{"c/other.go": "new\n", "z": "other\n"}, Paths{}, []Rename{{"c/other.go", "z", 1}}},
		{"a source that became a link", folder{"c/other.go": "-> x", "z": "other\n"}, Paths{}, nil},
		{"a rename is no copy", folder{"c/other.go": "gone", "z": "other\n"}, Paths{}, nil},
		{"empty files repeat nothing", folder{"z": ""}, Paths{}, nil},
		{"a link repeats nothing", folder{"z": "-> a"}, Paths{}, nil},
		{"binary files, whole", folder{"z": "\x00\n1\n2\n3\n"}, Paths{}, []Rename{{"bin", "z", 1}}},
		{"not by lines", folder{"bin": "\x00\n1\n2\n4\n", "z": "\x00\n1\n2\n5\n"}, Paths{}, nil},
		{"an executable repeats a file", folder{"src": "#!\n"}, Paths{}, nil},
		{"similar to a modified file as it was", folder{"edited.go": "x\n", "z": lines("d", "c", "x", "y")}, Paths{}, []Rename{{"edited.go", "z", 0.5}}},
		{"below the half", folder{"edited.go": "x\n", "z": lines("d", "x", "y", "z")}, Paths{}, nil},
		{"similar to an untouched file", folder{"z": lines("a", "b", "c", "x")}, Paths{}, nil},
		{"the most similar", folder{"edited.go": "x\n", "c/other.go": "x\n", "z": lines("other", "a", "b", "c", "d")}, Paths{}, []Rename{{"edited.go", "z", 0.8}}},
		{"equally similar: the same name", folder{"a/util.go": "x\n", "b/util.go": "x\n", "c/util.go": ten + "11\n"}, Paths{}, []Rename{{"a/util.go", "c/util.go", 10.0 / 11}}},
		{"many copies of one source", folder{"z1": ten, "y": ten}, Paths{}, []Rename{{"a/util.go", "y", 1}, {"a/util.go", "z1", 1}}},
		{"ignored files are out of scope", folder{"z": ten}, Paths{Ignore: []string{"z"}}, nil},
		{"a source outside the scope", folder{"edited.go": "x\n", "z": lines("a", "b", "c")}, Paths{Files: []string{"a"}}, []Rename{{"edited.go", "z", 0.75}}},
		{"bytes that are no UTF-8", folder{"\xff": ten}, Paths{}, []Rename{{"a/util.go", `\xff`, 1}}},
	} {
		got := copiesBetween(t, before.tree(t), before.with(test.laid).tree(t), test.scope)
		if diff := cmp.Diff(append([]Rename{}, test.want...), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.rule, diff)
		}
	}
}

// TestCopiesSameName: of equally similar sources the one of the same name wins over an earlier one, and the most similar over
// all.
func TestCopiesSameName(t *testing.T) {
	t.Parallel()
	before := folder{"a/first.go": lines("1", "2", "3"), "b/same.go": lines("1", "2", "3"), "c/later.go": lines("1", "2", "3")}
	after := before.with(folder{"a/first.go": "x\n", "b/same.go": "x\n", "c/later.go": "x\n", "new/same.go": lines("1", "2", "3", "4")})
	want := []Rename{{"b/same.go", "new/same.go", 0.75}}
	before["d/closer.go"], after["d/closer.go"] = lines("2", "7", "8"), "x\n"
	after["new/other.go"] = lines("1", "2", "7", "8")
	before["f/aa"], before["f/bb"] = "whole\n", "whole\n"
	after["f/aa"], after["f/bb"], after["new/bb"] = "whole\n", "whole\n", "whole\n"
	want = append([]Rename{{"f/bb", "new/bb", 1}}, want...)
	want = slices.Insert(want, 1, Rename{"d/closer.go", "new/other.go", 0.75})
	if diff := cmp.Diff(want, copiesBetween(t, before.tree(t), after.tree(t), Paths{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCopiesBounds: at most 1,000 pairs are compared by their lines, each file up to 1 MiB.
func TestCopiesBounds(t *testing.T) {
	t.Parallel()
	before, laid := folder{"source": lines("1", "2", "3")}, folder{"source": "x\n"}
	for i := range 1100 {
		laid[fmt.Sprintf("copy%04d", i)] = lines("1", "2", "3", fmt.Sprint("end ", i))
	}
	if n := len(copiesBetween(t, before.tree(t), before.with(laid).tree(t), Paths{})); n != 1000 {
		t.Errorf("%d copies, want 1000", n)
	}
	big := strings.Repeat("line\n", 1<<20/5+1)
	before = folder{"source": big}
	if got := copiesBetween(t, before.tree(t), folder{"source": "x\n", "copy": big + "y\n"}.tree(t), Paths{}); len(got) != 0 {
		t.Errorf("a file above 1 MiB was compared by its lines: %v", got)
	}
	if got := copiesBetween(t, before.tree(t), folder{"source": "x\n", "copy": big}.tree(t), Paths{}); len(got) != 1 {
		t.Errorf("a whole copy above 1 MiB was not found: %v", got)
	}
}

func TestCopiesStop(t *testing.T) {
	t.Parallel()
	before, after := folder{"a": "1\n"}.tree(t), folder{"a": "1\n", "b": "1\n"}.tree(t)
	patch, _ := compare(t, before, after, Paths{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := copies(ctx, before, after, patch); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was canceled", err)
	}
}
