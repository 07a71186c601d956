package diffscope

import (
	"iter"
	"strings"

	"github.com/assay-ci/assay/internal/diffscope/linguist"
)

// A classifier puts the paths of a change into buckets.
type classifier struct {
	before Tree
	kinds  *linguist.Classifier // by the attributes of the tree before; nil until the first path is asked for
}

func newClassifier(before Tree) *classifier { return &classifier{before: before} }

// bucket is the one that a path is in. The attributes that the tree before gives it win over the rules on its name. A
// lockfile is one wherever linguist, and an attribute, take it for generated.
func (k *classifier) bucket(c *change) (Bucket, error) {
	if k.kinds == nil {
		var err error
		if k.kinds, err = linguist.New(k.before.attributesFiles()); err != nil {
			return "", err
		}
	}
	f := k.kinds.File(c.path)
	switch {
	case f.IsVendored():
		return Vendored, nil
	case linguist.IsLockfile(c.path):
		return Lockfile, nil
	}
	generated, err := f.IsGenerated(c.sampleBefore)
	switch {
	case err != nil:
		return "", err
	case generated:
		return Generated, nil
	case f.IsTest():
		return Test, nil
	case f.IsDocs():
		return Docs, nil
	}
	return Code, nil
}

// attributesFiles are the .gitattributes files of a tree.
func (t Tree) attributesFiles() iter.Seq[linguist.AttributesFile] {
	return func(yield func(linguist.AttributesFile) bool) {
		for i := range t.entries {
			e := &t.entries[i]
			folder, isAttributes := strings.CutSuffix(e.path, ".gitattributes")
			if !isAttributes || folder != "" && !strings.HasSuffix(folder, "/") || !e.isFile() || e.blob == nil {
				continue
			}
			if !yield(linguist.AttributesFile{Folder: folder, Size: e.size, Load: e.blob.load}) {
				return
			}
		}
	}
}

// sampleBefore returns the start and the end of what a file held before. What the agent wrote into it is not asked: a header
// that forbids editing does not turn code into generated code.
func (c *change) sampleBefore() (head, tail string, err error) {
	if c.old == nil || !c.old.isFile() || c.old.blob == nil {
		return "", "", nil
	}
	if head, err = c.old.blob.start(linguist.Sampled); err != nil {
		return "", "", err
	}
	tail, err = ending(c.old.blob, linguist.Sampled)
	return head, tail, err
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
