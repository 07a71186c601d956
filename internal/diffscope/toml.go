package diffscope

import (
	"errors"

	"github.com/pelletier/go-toml/v2/unstable"
)

// The bounds on the path of a TOML value. Real manifests have a handful of keys in one.
const (
	maxTOMLKeys = 16
	maxTOMLPath = 1024 // bytes of all keys together
)

var errTOMLPath = errors.New("a key is nested too deep, or is too long")

// eachTOML calls value for every table header and for everything that a TOML text sets. A path is the keys down to it, those
// of its table first; it is only valid during the call. The elements of a list have the path of the list. The text of a
// table is empty, that of anything else is as written, for strings without quotes.
//
// It goes through the text once. The library's Unmarshal looks for keys that are set twice, in a time that is the square of
// their number: about a minute for 1 MiB that somebody wrote for it.
func eachTOML(text string, value func(path []string, text string)) error {
	w := tomlWalker{value: value}
	var p unstable.Parser
	p.Reset([]byte(text))
	for p.NextExpression() {
		if err := w.expression(p.Expression()); err != nil {
			return err
		}
	}
	return p.Error()
}

// A tomlWalker keeps the path of where it is.
type tomlWalker struct {
	path  []string
	bytes int // of all keys in path
	table int // how many keys of path are those of the table
	value func(path []string, text string)
}

func (w *tomlWalker) expression(n *unstable.Node) error {
	switch n.Kind {
	case unstable.Table, unstable.ArrayTable:
		w.leave(0)
		if err := w.enter(n.Key()); err != nil {
			return err
		}
		w.table = len(w.path)
		w.value(w.path, "")
	case unstable.KeyValue:
		defer w.leave(w.table)
		return w.keyValue(n)
	}
	return nil
}

func (w *tomlWalker) keyValue(n *unstable.Node) error {
	if err := w.enter(n.Key()); err != nil {
		return err
	}
	return w.visit(n.Value())
}

// visit tells of a value and of all in it.
func (w *tomlWalker) visit(n *unstable.Node) error {
	if n.Kind != unstable.Array && n.Kind != unstable.InlineTable {
		w.value(w.path, string(n.Data))
		return nil
	}
	if n.Kind == unstable.InlineTable {
		w.value(w.path, "")
	}
	depth := len(w.path)
	for children := n.Children(); children.Next(); {
		child, err := children.Node(), error(nil)
		if child.Kind == unstable.KeyValue {
			err = w.keyValue(child)
		} else {
			err = w.visit(child)
		}
		if err != nil {
			return err
		}
		w.leave(depth)
	}
	return nil
}

func (w *tomlWalker) enter(keys unstable.Iterator) error {
	for keys.Next() {
		key := keys.Node().Data
		w.bytes += len(key)
		if len(w.path) == maxTOMLKeys || w.bytes > maxTOMLPath {
			return errTOMLPath
		}
		w.path = append(w.path, string(key))
	}
	return nil
}

// leave shortens the path.
func (w *tomlWalker) leave(depth int) {
	for _, key := range w.path[depth:] {
		w.bytes -= len(key)
	}
	w.path = w.path[:depth]
}
