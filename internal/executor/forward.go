package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// A door leads from a box without a network to the model gateway. The supervisor in the box listens there and hands the
// listener over, so nothing of the door has a name that another place could find.
type door struct {
	link  *net.UnixConn // the listener comes through it
	close func()        // ends the door and all that goes through it
}

// openDoor waits for the listener on a socket, which belongs to the door from now on, and carries what connects to it to
// a TCP address of this host.
func openDoor(link *os.File, to string) *door {
	defer link.Close()
	conn, err := net.FileConn(link)
	if err != nil {
		return nil // nobody listens, so what connects finds out
	}
	d := &door{link: conn.(*net.UnixConn)}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if l, err := receiveListener(d.link); err == nil {
			forward(ctx, l, "tcp", to)
		}
	})
	d.close = func() {
		cancel()
		d.link.Close()
		ended.Wait()
	}
	return d
}

// receiveListener takes the one listener that comes through a socket.
func receiveListener(from *net.UnixConn) (net.Listener, error) {
	data, control := make([]byte, 1), make([]byte, syscall.CmsgSpace(4))
	_, n, _, _, err := from.ReadMsgUnix(data, control)
	if err != nil {
		return nil, err
	}
	messages, err := syscall.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("no listener came: %w", err)
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("no listener came: %w", err)
	}
	f := os.NewFile(uintptr(fds[0]), "door")
	defer f.Close()
	return net.FileListener(f)
}

// doorWidth is how many connections of a command are carried at a time; more wait.
const doorWidth = 256

// forward carries every connection that a listener takes to an address, until ctx ends. When it returns, the listener and
// all connections are closed.
func forward(ctx context.Context, l net.Listener, network, to string) {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var carried sync.WaitGroup
	defer carried.Wait()
	free := make(chan struct{}, doorWidth)
	for {
		free <- struct{}{}
		near, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed) || ctx.Err() != nil:
			if err == nil {
				near.Close()
			}
			return
		case err != nil: // out of descriptors, for now
			<-free
			time.Sleep(10 * time.Millisecond)
			continue
		}
		carried.Go(func() {
			carry(ctx, near, network, to)
			<-free
		})
	}
}

// carry joins one connection to an address until both have said all, or ctx ends.
func carry(ctx context.Context, near net.Conn, network, to string) {
	defer near.Close()
	far, err := new(net.Dialer).DialContext(ctx, network, to)
	if err != nil {
		return
	}
	defer far.Close()
	defer context.AfterFunc(ctx, func() { near.Close(); far.Close() })()
	var both sync.WaitGroup
	both.Go(func() { pour(far, near) })
	both.Go(func() { pour(near, far) })
	both.Wait()
}

// pour copies one direction of a connection, its end too.
func pour(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
