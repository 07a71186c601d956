package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// A place without a network is reached through sockets in one folder that is mounted into it read-only, and nobody else's
// place has that folder. The first process of the place is our relay: it looks around, says over ready.sock what it found,
// and then carries what arrives on the place's own loopback to gw.sock, behind which the model gateway listens. It ends, and
// the place with it, when we close our end of the first connection or are gone. This file is the host's side.

// RelayName is the hidden subcommand of this program whose body is [Relay].
const RelayName = "relay"

const (
	readySocket   = "ready.sock"
	gatewaySocket = "gw.sock"
	nonceFile     = ".nonce"         // in the root of a place, while it is opened
	readyLimit    = 20 * time.Second // for a relay to say that it is there
	nothing       = "-"              // an argument of the relay that is absent
)

// A census is what the relay found when it looked around, before anything else ran in the place.
type census struct {
	Interfaces   []string // that are up
	Routes       int      // rows of the route tables that belong to other interfaces than lo
	Canary       string   // unreached, reached or none
	Nonce        string   // that the root of the place holds
	Uncontained  string   // why the processes of a command could get away; empty: they cannot
	Unwritable   string   // why the work folder cannot be written to; empty: it can
	Capabilities bool     // the process has any, or could get them
	NoNewPrivs   bool
	RootWritable bool
	Memory       int64 // bytes; 0: no limit that can be read
	Processes    int64
	CPUs         float64
}

// egress judges a census by the network that the place was to have.
func (c census) egress(policy Network) Egress {
	return egressOf(policy, c.Interfaces, c.Routes, c.Canary)
}

// doors are the sockets of one place.
type doors struct {
	dir     string   // mounted into the place
	folder  *os.File // dir
	ready   *net.UnixListener
	gateway net.Listener // nil: nothing is relayed
	shut    func()       // ends the connections to it
	control net.Conn     // the relay lives as long as this; nil: it has not come yet
	open    sync.WaitGroup
}

// openDoors makes the sockets of a place in a folder of their own below base. Connections to the gateway's go on to address;
// without one there is none.
func openDoors(base, address string) (_ *doors, err error) {
	ctx, shut := context.WithCancel(context.Background())
	d := &doors{shut: shut}
	if d.dir, err = os.MkdirTemp(base, "s"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.folder, err = os.Open(d.dir); err != nil {
		return nil, err
	}
	if err := os.Chmod(d.dir, 0o711); err != nil { // base is ours alone, and the place has another user
		return nil, err
	}
	if d.ready, err = d.listen(readySocket); err != nil {
		return nil, err
	}
	if address == "" {
		return d, nil
	}
	if d.gateway, err = d.listen(gatewaySocket); err != nil {
		return nil, err
	}
	d.open.Go(func() {
		forward(ctx, d.gateway, "tcp", address)
	})
	return d, nil
}

// listen listens in the folder. The path of a socket may have 107 bytes and that of the folder may have more, so the folder is
// named by its descriptor.
func (d *doors) listen(name string) (*net.UnixListener, error) {
	path := filepath.Join("/proc/self/fd", strconv.Itoa(int(d.folder.Fd())), name)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// await waits for the relay and returns what it found.
func (d *doors) await(ctx context.Context) (c census, err error) {
	defer d.ready.Close() // which removes it: the first one to come is the relay, and there is no second
	defer context.AfterFunc(ctx, func() { d.ready.SetDeadline(time.Now()) })()
	d.ready.SetDeadline(time.Now().Add(readyLimit))
	conn, err := d.ready.Accept()
	if err != nil {
		return c, errors.Join(ctx.Err(), err)
	}
	d.control = conn
	conn.SetReadDeadline(time.Now().Add(readyLimit))
	defer conn.SetReadDeadline(time.Time{})
	if err := json.NewDecoder(io.LimitReader(conn, 64<<10)).Decode(&c); err != nil {
		return c, fmt.Errorf("what the relay found: %w", err)
	}
	return c, nil
}

// close ends the relay with its connections, and removes the sockets.
func (d *doors) close() error {
	d.shut()
	if d.control != nil {
		d.control.Close()
	}
	if d.ready != nil {
		d.ready.Close()
	}
	if d.gateway != nil {
		d.gateway.Close()
	}
	d.open.Wait()
	if d.folder != nil {
		d.folder.Close() // when the listeners have removed their sockets by it
	}
	return os.RemoveAll(d.dir)
}
