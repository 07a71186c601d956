package suite

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// A Block is a kind and its raw settings. The room that owns the kind decodes them; the zero Block has no settings.
type Block struct {
	Kind string
	At   Pos

	kindKey string   // the key that names the kind: type or policy
	owned   []string // keys of node that belong to the suite: id, weight, models and the like
	node    *node    // the whole mapping
	file    *source
}

// settings is the mapping without the keys that the suite owns.
func (b Block) settings() *node {
	switch {
	case b.node == nil:
		return &node{kind: isMapping}
	case b.node.kind != isMapping:
		return b.node // a file of settings that is no mapping; decoding says so
	}
	out := &node{kind: isMapping, line: b.node.line, col: b.node.col}
	for i, key := range b.node.keys {
		if !slices.Contains(b.owned, key.text) {
			out.keys, out.items = append(out.keys, key), append(out.items, b.node.items[i])
		}
	}
	return out
}

// Decode fills the struct that into points to, by the tags that [Describe] and the schemas read as well. It is strict:
// the error is Problems with every unknown key, missing key and wrong value. Keys that the suite owns are not seen.
func (b Block) Decode(into any) error {
	d := decoder{src: b.file}
	d.value(b.settings(), reflect.ValueOf(into).Elem(), "", nil)
	if b.node == nil { // nothing was written: there is no place to show, so the kind is said
		for i, p := range d.problems {
			d.problems[i].Msg = of(b.Kind) + p.Msg
		}
	}
	return d.problems.err()
}

// Fault is a problem at the value of key, such as run or steps[2].run; at the block when it has no such key.
func (b Block) Fault(key, msg, hint string) error {
	n := b.node.at(key)
	if n == nil {
		n = b.node
	}
	return b.file.problem(n, msg, hint)
}

// UnknownKind is the fault of a kind that nobody owns; known are the kinds that there are.
func (b Block) UnknownKind(known []string) error {
	key := b.kindKey
	if key == "" {
		key = "type"
	}
	return b.Fault(key, fmt.Sprintf("unknown %s %s", key, quote(b.Kind)), didYouMean(b.Kind, known))
}

// Canonical is the kind and the settings as JSON with sorted keys, for digests: comments, formatting and the order of
// keys do not matter.
func (b Block) Canonical() []byte {
	out, err := json.Marshal(struct {
		Kind     string `json:"kind"`
		Settings any    `json:"settings"`
	}{b.Kind, free(b.settings())})
	if err != nil {
		panic(err) // free gives only what JSON can hold
	}
	return out
}
