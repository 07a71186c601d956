package result

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// canSyncAll says that this system can write one file system down as a whole.
const canSyncAll = true

// syncAll writes everything down that waits for the disk on the file system of dir; see syncfs(2).
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err = unix.Syncfs(int(f.Fd())); err != nil {
		err = fmt.Errorf("syncfs %s: %w", dir, err)
	}
	return errors.Join(err, f.Close())
}
