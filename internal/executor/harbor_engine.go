package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Where the daemon that makes the places is on this host, we say more to it than Harbor does: what a container may not do, and
// whose it is, so that it is found when nobody who knows of it lives any more.

const engineTime = time.Minute

// writeCompose writes what we say to a compose file that Harbor lays over its own.
func (b *harborBackend) writeCompose(folder string, s Spec, network Network) (string, error) {
	us, err := ourselves()
	if err != nil {
		return "", err
	}
	labels := map[string]string{labelRun: b.name, labelCell: s.Label, labelOwner: us.process, labelSpace: us.space}
	main := map[string]any{
		"labels":            labels,
		"init":              true, // or its first process ignores the order to end for ten seconds
		"stop_grace_period": "0s",
		"pull_policy":       "never",
		"cap_drop":          []string{"ALL"},
		"cap_add":           []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"}, // of root alone, which no command is
		"security_opt":      []string{"no-new-privileges:true"},
		"pids_limit":        512,
		"memswap_limit":     fmt.Sprintf("%dm", b.memory),
		"hostname":          "cell",
	}
	file := map[string]any{"services": map[string]any{"main": main}}
	if network == NetOpen {
		file["networks"] = map[string]any{"default": map[string]any{"labels": labels}}
	} else {
		main["network_mode"] = "none"
	}
	text, err := json.Marshal(file)
	if err != nil {
		return "", err
	}
	name := filepath.Join(folder, "compose.json")
	return name, os.WriteFile(name, text, 0o600)
}

// engine runs the program that speaks to the daemon.
func (b *harborBackend) engine(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.lookPath(b.kind.engine), args...)
	cmd.Env = b.env()
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return string(out), err
}

// sweep removes what runs have left whose owner is dead.
func (b *harborBackend) sweep(ctx context.Context) {
	b.remove(ctx, "label="+labelOwner, owner.gone)
}

// remove deletes containers and networks that match a filter and whose owner is to be removed. What cannot be removed now, the
// next run will find.
func (b *harborBackend) remove(ctx context.Context, filter string, which func(owner) bool) {
	for _, kind := range []struct {
		list, remove []string
	}{
		{[]string{"ps", "--all", "--no-trunc"}, []string{"rm", "--force", "--volumes"}},
		{[]string{"network", "ls", "--no-trunc"}, []string{"network", "rm"}},
	} {
		out, err := b.engine(ctx, append(kind.list, "--filter", filter, "--format", `{{.ID}} {{.Label "`+labelOwner+`"}} {{.Label "`+labelSpace+`"}}`)...)
		if err != nil {
			continue
		}
		for line := range strings.Lines(out) {
			if f := append(strings.Fields(line), "", ""); which(owner{f[1], f[2]}) {
				_, _ = b.engine(ctx, append(kind.remove, f[0])...)
			}
		}
	}
}
