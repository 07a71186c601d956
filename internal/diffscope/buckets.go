package diffscope

// A classifier puts the paths of a change into buckets.
type classifier struct {
	before         Tree
	attributes     *attributes // of the tree before; nil until the first path is asked for
	attributeSteps int
	ruleBytes      int
}

func newClassifier(before Tree) *classifier { return &classifier{before: before} }

// bucket is the one that a path is in. The attributes that the tree before gives it win over the rules on its name. A
// lockfile is one wherever linguist, and an attribute, take it for generated.
func (k *classifier) bucket(c *change) (Bucket, error) {
	if k.attributes == nil {
		var err error
		if k.attributes, err = readAttributes(k.before); err != nil {
			return "", err
		}
	}
	a := k.attributesOf(c.path)
	switch {
	case a.vendored.or(func() bool { return k.matches(vendoredPaths(), c.path) }):
		return Vendored, nil
	case isLockfile(c.path):
		return Lockfile, nil
	}
	generated, err := k.isGenerated(c, a.generated)
	switch {
	case err != nil:
		return "", err
	case generated:
		return Generated, nil
	case k.matches(testPaths(), c.path):
		return Test, nil
	case a.docs.or(func() bool { return isProse(c.path) || k.matches(docsPaths(), c.path) }):
		return Docs, nil
	}
	return Code, nil
}

// isGenerated goes by the attribute, then by the name, and then by what the file held before. What the agent wrote into it
// is not asked: a header that forbids editing does not turn code into generated code.
func (k *classifier) isGenerated(c *change, attribute verdict) (bool, error) {
	if attribute != unspecified {
		return attribute == yes, nil
	}
	if k.matches(generatedPaths(), c.path) {
		return true, nil
	}
	if c.old == nil || !c.old.isFile() || c.old.blob == nil {
		return false, nil
	}
	head, err := c.old.blob.start(sampled)
	if err != nil {
		return false, err
	}
	tail, err := ending(c.old.blob, sampled)
	return err == nil && looksGenerated(c.path, head, tail), err
}

// ending returns the last n bytes of a content, or all when there are fewer.
func ending(b *blob, n int) (string, error) {
	if b.disk == nil {
		return b.text[max(0, len(b.text)-n):], nil
	}
	end := make([]byte, min(int64(n), b.size()))
	_, err := b.disk.ReadAt(end, b.size()-int64(len(end)))
	return string(end), err
}

// A verdict is what an attribute says.
type verdict int8

const (
	unspecified verdict = iota
	yes
	no
)

// or is the verdict, or what the rule says when there is none.
func (v verdict) or(rule func() bool) bool { return v == yes || v == unspecified && rule() }
