package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// peer is the tool that assay is compared with, as the Python registry names it.
const peer = "touchstone-eval==0.1.1"

// installPeer puts the peer below cache, unless it is there, and returns its program. The error says why there is none.
func installPeer(ctx context.Context, cache string) (string, error) {
	venv := filepath.Join(cache, peer)
	binary := filepath.Join(venv, "bin", "touchstone")
	if exec.CommandContext(ctx, binary, "--version").Run() == nil {
		return binary, nil
	}
	for _, argv := range [][]string{
		{"python3", "-m", "venv", "--clear", venv},
		{filepath.Join(venv, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", peer},
		{binary, "--version"},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			os.RemoveAll(venv) // half of it is worth nothing
			return "", fmt.Errorf("%v: %w\n%s", argv, err, out)
		}
	}
	return binary, nil
}
