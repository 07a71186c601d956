package executor

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Labels of what belongs to a run: containers, networks. The process that they belong to is written as pid@boot, and means
// something only to those who see the same processes.
const (
	labelRun   = "dev.assay.run"
	labelCell  = "dev.assay.cell"
	labelOwner = "dev.assay.pid"
	labelSpace = "dev.assay.pidns"
)

// An owner is the process that something belongs to.
type owner struct {
	process string // pid@boot, so that a pid is not taken for that of another boot
	space   string // of the pid
}

// ourselves is this process as an owner.
var ourselves = sync.OnceValues(func() (owner, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return owner{}, err
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	return owner{fmt.Sprintf("%d@%s", os.Getpid(), strings.TrimSpace(string(boot))), space}, err
})

// gone tells whether an owner lives no more: it is of an earlier boot, or of those processes that we see and is not among
// them. Of others, and of what is no owner, nobody here can tell.
func (o owner) gone() bool {
	us, err := ourselves()
	number, boot, ok := strings.Cut(o.process, "@")
	pid, bad := strconv.Atoi(number)
	if err != nil || !ok || bad != nil || pid <= 0 {
		return false
	}
	_, ours, _ := strings.Cut(us.process, "@")
	return boot != ours || o.space == us.space && !lives(pid)
}

func lives(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}
