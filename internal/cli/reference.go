package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/assay-ci/assay/internal/diffscope"
)

// maxReference is how large a reference may be, in bytes.
const maxReference = 64 << 20

// againstReferences sets a change against the patches in files; nil when there are none.
func againstReferences(before diffscope.Tree, s diffscope.Scope, paths diffscope.Paths, files []string) (*diffscope.Excess, error) {
	if len(files) == 0 {
		return nil, nil
	}
	var patches [][]byte
	for _, name := range files {
		patch, err := readPatch(name)
		if err != nil {
			return nil, usage(err)
		}
		patches = append(patches, patch)
	}
	e, err := diffscope.Reference(before, s, paths, patches...)
	var bad *diffscope.PatchError
	switch {
	case errors.As(err, &bad) && bad.Line > 0:
		return nil, usage(fmt.Errorf("%s:%d: %w", files[bad.Patch-1], bad.Line, bad.Err))
	case errors.As(err, &bad):
		return nil, usage(fmt.Errorf("%s: %w", files[bad.Patch-1], bad.Err))
	case err != nil:
		return nil, unmeasured(err)
	}
	return &e, nil
}

func readPatch(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	patch, err := io.ReadAll(io.LimitReader(f, maxReference+1))
	if err == nil && len(patch) > maxReference {
		err = fmt.Errorf("%s has more than %d MiB", name, maxReference>>20)
	}
	return patch, err
}
