package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// starter is the suite that assay init writes.
//
//go:embed all:starter
var starter embed.FS

func newInit(x IO) *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "write a small suite to start from",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := suiteArg(args)
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				return usage(fmt.Errorf("%s is there already; name a folder that is not", dir))
			}
			files, err := fs.Sub(starter, "starter")
			if err != nil {
				return err
			}
			if err := os.CopyFS(dir, files); err != nil {
				return usage(err)
			}
			fmt.Fprintf(x.Out, "wrote %s; run it with: assay run %s\n", filepath.Join(dir, "suite.yaml"), dir)
			return nil
		},
	}
}
