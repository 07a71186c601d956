package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A box is how bubblewrap is told to make places: each command of a place gets a view of the files, processes and network
// of its own. The same view for all places of a run: the system read-only, the packages of PATH read-only, the place.
type box struct {
	bwrap   string   // path of it
	program string   // of ours
	view    []string // arguments that all places share
	bareTmp bool     // a package lies in /tmp, so that is an empty folder for each command and not that of the place
}

// newBox finds bubblewrap on a PATH. closed are folders that must not be seen, home among them.
func newBox(program, path, home string, closed []string) (*box, error) {
	bwrap, err := onPath("bwrap", path)
	if err != nil {
		return nil, err
	}
	b := &box{bwrap: bwrap, program: program}
	if os.Geteuid() == 0 { // root without its powers is a user that many programs take for what it is not
		b.view = append(b.view, "--unshare-user", "--uid", "65534", "--gid", "65534")
	}
	b.view = append(b.view, "--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL")
	b.view = append(b.view, systemView()...)
	b.view = append(b.view, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run", "--tmpfs", "/var/tmp")
	packages := packagesOf(path, home, closed)
	// What is to be seen below /tmp cannot be laid over a folder that an agent writes to: it would choose where.
	if b.bareTmp = slices.ContainsFunc(packages, func(dir string) bool { return isBelow(dir, []string{"/tmp"}) }); b.bareTmp {
		b.view = append(b.view, "--tmpfs", "/tmp")
	}
	for _, dir := range packages {
		b.view = append(b.view, "--ro-bind", dir, dir)
	}
	return b, nil
}

// onPath finds a program in the absolute folders of a PATH.
func onPath(name, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if file, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// systemView shows the folders of the system, but nothing in /etc that only their owner reads: that may be us.
func systemView() []string {
	args := []string{"--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc", "--ro-bind-try", "/opt", "/opt"}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if target, err := os.Readlink(dir); err == nil {
			args = append(args, "--symlink", target, dir)
		} else {
			args = append(args, "--ro-bind-try", dir, dir)
		}
	}
	if real, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && !strings.HasPrefix(real, "/etc/") {
		args = append(args, "--ro-bind", real, real) // without a network it is of no use, and of no harm
	}
	return append(args, closeEtc()...)
}

// closeEtc hides what others than its owner cannot read.
func closeEtc() []string {
	var args []string
	_ = filepath.WalkDir("/etc", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		info, err := e.Info()
		switch {
		case err != nil:
		case e.IsDir() && info.Mode()&0o005 != 0o005:
			args = append(args, "--tmpfs", name)
			return fs.SkipDir
		case !e.IsDir() && info.Mode()&0o004 == 0:
			args = append(args, "--ro-bind", "/dev/null", name)
		}
		return nil
	})
	return args
}

// systemFolders are shown in every box.
var systemFolders = []string{"/usr", "/etc", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// packagesOf returns the folders and files beside those of the system that commands must see to run what a PATH names:
// the package of each of its folders, and the packages that links in it lead to. A package that has one of the closed
// folders in it is not shown whole.
func packagesOf(path, home string, closed []string) []string {
	const most = 500 // folders looked at
	var shown []string
	queue := filepath.SplitList(path)
	for n := 0; n < len(queue) && n < most; n++ {
		dir := filepath.Clean(queue[n])
		if !filepath.IsAbs(dir) || isBelow(dir, systemFolders) || slices.Contains(queue[:n], queue[n]) {
			continue
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		if p := packageOf(dir, home, closed); p != "" && !isBelow(p, shown) {
			shown = append(shown, p)
		}
		queue = append(queue, leadsTo(dir)...)
	}
	return shown
}

// leadsTo returns the folders in which a folder's links end, step by step, and the folder itself does when it is one.
func leadsTo(dir string) []string {
	var list []string
	follow := func(name string) {
		if target, err := os.Readlink(name); err == nil {
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(name), target)
			}
			list = append(list, filepath.Dir(target))
		}
		if real, err := filepath.EvalSymlinks(name); err == nil {
			list = append(list, filepath.Dir(real))
		}
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		list = append(list, real)
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			follow(filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// packageOf returns what has to be seen beside the programs of a folder: …/node_modules for …/node_modules/.bin, the
// folder above bin, or the folder alone; nothing when even that would show a closed folder. A hidden folder of the home,
// such as ~/.local or ~/.cargo, is many packages and may hold secrets, so it is not shown whole.
func packageOf(dir, home string, closed []string) string {
	whole := dir
	if before, _, ok := strings.Cut(dir+"/", "/node_modules/"); ok {
		whole = before + "/node_modules"
	} else if base := filepath.Base(dir); base == "bin" || base == "sbin" {
		whole = filepath.Dir(dir)
	}
	hidden := filepath.Dir(whole) == filepath.Clean(home) && strings.HasPrefix(filepath.Base(whole), ".")
	switch {
	case !hidden && !holdsOne(whole, closed):
		return whole
	case !holdsOne(dir, closed):
		return dir
	}
	return ""
}

// isBelow reports whether a path is one of the folders or below one.
func isBelow(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
	})
}

// holdsOne reports whether a folder is one of the closed ones or holds one.
func holdsOne(dir string, closed []string) bool {
	return slices.ContainsFunc(closed, func(c string) bool { return isBelow(c, []string{dir}) })
}

// argv runs this program in a box around a place, with words of [Supervise].
func (b *box) argv(f Folders, net Network, words ...string) []string {
	argv := append([]string{b.bwrap}, b.view...)
	if net == NetOpen {
		argv = append(argv, "--share-net")
	}
	if !b.bareTmp {
		argv = append(argv, "--bind", f.Tmp, "/tmp")
	}
	argv = append(argv, "--bind", f.Root, InsideRoot, "--ro-bind", b.program, insideProgram,
		"--remount-ro", "/", "--chdir", "/", "--", insideProgram, SuperviseName)
	return append(argv, words...)
}

// boxed are the walls around the commands of one place.
type boxed struct {
	box     *box
	folders Folders
	network Network
	gateway func() string // see [Session]
}

// seat puts the supervisor of a command into the box.
func (b *boxed) seat(s *seat, dir string) {
	s.argv = b.box.argv(b.folders, b.network)
	s.start.Work, s.start.Dir, s.start.Box = []byte(inside(b.folders).Work), []byte(dir), &boxStart{}
	if b.network == NetGateway && b.gateway != nil {
		s.gateway = b.gateway()
		s.start.Box.Gateway = s.gateway
	}
}

// survey looks around in the box.
func (b *boxed) survey(ctx context.Context, canary string, files ...string) (sight, error) {
	return takeSurvey(ctx, b.box.argv(b.folders, b.network, append([]string{surveyName, canary}, files...)...), nil)
}

// A boxedHost is a place in a box that has looked what its commands can reach.
type boxedHost struct {
	*Host
	egress Egress
}

var _ Prover = (*boxedHost)(nil)

func (h *boxedHost) Egress() Egress { return h.egress }

// openBox makes a place in a box.
func (b *hostBackend) openBox(ctx context.Context, s Spec, o HostOptions) (Executor, error) {
	for _, dir := range []string{s.Work, s.Home, s.Tmp} {
		if !isBelow(dir, []string{s.Root}) {
			return nil, fmt.Errorf("host executor: %s is not below the folder of its place, %s", dir, s.Root)
		}
	}
	o.inside = inside(s.Folders)
	h, err := NewHost(o)
	if err != nil {
		return nil, err
	}
	h.boxed = &boxed{box: b.box, folders: s.Folders, network: s.Network, gateway: b.session.Gateway}
	if err := h.furnish(); err != nil {
		return nil, errors.Join(err, h.Close(ctx))
	}
	seen, err := h.boxed.survey(ctx, b.canary.address())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("host executor: look around in a box: %w", err), h.Close(ctx))
	}
	return &boxedHost{h, seen.egress(s.Network)}, nil
}
