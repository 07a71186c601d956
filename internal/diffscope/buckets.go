package diffscope

// A classifier puts the paths of a change into buckets.
type classifier struct {
	before         Tree
	attributes     *attributes // of the tree before
	attributeSteps int
}

func newClassifier(before Tree) *classifier { return &classifier{before: before} }

func (k *classifier) bucket(c *change) (Bucket, error) { return Code, nil }

// A verdict is what an attribute says.
type verdict int8

const (
	unspecified verdict = iota
	yes
	no
)
