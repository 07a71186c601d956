package lru_test

import (
	"strings"
	"testing"

	"example.com/service/lru"
)

// Each step is a key to put (upper case) or to get (lower case); the wish is the order in which keys were evicted.
func TestEvictionOrder(t *testing.T) {
	for _, test := range []struct{ name, steps, want string }{
		{"in order of arrival", "ABCDE", "AB"},
		{"a get keeps", "ABCaD", "B"},
		{"a second put keeps", "ABCAD", "B"},
		{"put and get take turns", "ABCAbDE", "CA"},
		{"a second put of the newest changes nothing", "ABCCD", "A"},
		{"every put again", "ABCABCD", "A"},
		{"every put again backwards", "ABCCBAD", "C"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var gone strings.Builder
			c := lru.New[string, int](3, func(key string, _ int) { gone.WriteString(key) })
			for n, step := range strings.Split(test.steps, "") {
				if key := strings.ToUpper(step); key == step {
					c.Put(key, n)
				} else {
					c.Get(key)
				}
			}
			if gone.String() != test.want {
				t.Errorf("steps %s evicted %q, want %q", test.steps, gone.String(), test.want)
			}
		})
	}
}
