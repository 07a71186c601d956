//go:build negative

package suite

import (
	"testing"

	"gopkg.in/yaml.v3"
)

// TestA27WithoutTheControl: whoever writes out what the aliases of the bomb stand for has no end of it.
func TestA27WithoutTheControl(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(bomb()), &doc); err != nil {
		t.Fatal(err)
	}
	const enough = 10 * maxNodes
	n := 0
	var expand func(*yaml.Node)
	expand = func(y *yaml.Node) {
		if y.Kind == yaml.AliasNode {
			y = y.Alias
		}
		for n++; len(y.Content) > 0 && n < enough; {
			for _, child := range y.Content {
				expand(child)
			}
			break
		}
	}
	expand(&doc)
	if n < enough {
		t.Errorf("%d values: the attack of A27 shows nothing", n)
	}
}
