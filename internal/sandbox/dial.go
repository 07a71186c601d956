package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// refusedAddress is the error of a host that leads to an address which a suite has no business with.
type refusedAddress struct{ addr netip.Addr }

func (r *refusedAddress) Error() string {
	return fmt.Sprintf("address %s is not on the public internet", r.addr)
}

// notPublic are the networks that the methods of netip.Addr do not know of. Those that carry an IPv4 address inside are
// refused whole: nobody serves git over them.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network
	netip.MustParsePrefix("100.64.0.0/10"),   // carrier-grade NAT
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("64:ff9b::/96"),    // NAT64
	netip.MustParsePrefix("64:ff9b:1::/48"),  // local NAT64
	netip.MustParsePrefix("100::/64"),        // discard
	netip.MustParsePrefix("2001::/23"),       // Teredo and protocol assignments
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // 6to4
	netip.MustParsePrefix("fec0::/10"),       // site-local
}

func public(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Refused tells whether an error is that of an address which is not dialled, since it is not on the public internet.
func Refused(err error) bool {
	var refused *refusedAddress
	return errors.As(err, &refused)
}

// Transport returns a transport that dials no address which is not on the public internet, whatever a name resolved to
// before and wherever a redirect leads, unless allow names the host. It asks no proxy.
func Transport(allow []string) *http.Transport { return guarded(allow, nil) }

// newClient returns a client with such a transport. A nil resolver is the host's.
func newClient(allow []string, resolver *net.Resolver) *http.Client {
	return &http.Client{Transport: guarded(allow, resolver)}
}

// guarded is that transport: it looks at the very address it is about to dial.
func guarded(allow []string, resolver *net.Resolver) *http.Transport {
	open := net.Dialer{Timeout: 20 * time.Second, Resolver: resolver}
	careful := open
	careful.Control = func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if !public(at.Addr()) {
			return &refusedAddress{at.Addr()}
		}
		return nil
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if allowed(allow, host) {
			return open.DialContext(ctx, network, address)
		}
		return careful.DialContext(ctx, network, address)
	}
	return &http.Transport{
		DialContext:           dial,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   20 * time.Second,
		ResponseHeaderTimeout: time.Minute,
		IdleConnTimeout:       30 * time.Second,
	}
}

func allowed(allow []string, host string) bool {
	return slices.ContainsFunc(allow, func(a string) bool { return strings.EqualFold(a, host) })
}
