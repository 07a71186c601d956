//go:build !linux

package result

// canSyncAll says that this system can write one file system down as a whole.
const canSyncAll = false

func syncAll(string) error { panic("result: no syncfs on this system") }
