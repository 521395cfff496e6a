package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"

	"github.com/sluicehttp/sluice/internal/process/systemd"
)

// listen returns a listener of TCP.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1} // idle connections end by --idle-timeout
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, explainAddr(addr, err)
	}
	return ln, nil
}

// explainAddr says why addr cannot be listened on, and what to do.
func explainAddr(addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on %s: another program does; choose another port", addr)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("cannot listen on %s: permission denied; ports below 1024 need root, or CAP_NET_BIND_SERVICE", addr)
	}
	return fmt.Errorf("cannot listen on %s: %w", addr, err)
}

// explainAdmin says in our words why --admin cannot be listened on. With --upgrade, another process has
// met the error, whose text is the same.
func explainAdmin(admin string, err error) error {
	if err == nil {
		return nil
	}
	why, isAdmin := strings.CutPrefix(err.Error(), "sluice: Admin "+admin+": ")
	switch {
	case !isAdmin:
		return err
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("cannot listen on --admin %s: another server does; choose another address", admin)
	case errors.Is(err, syscall.EACCES) && !strings.HasPrefix(admin, "unix:"):
		return explainAddr("--admin "+admin, err)
	}
	return fmt.Errorf("cannot listen on --admin %s: %s", admin, strings.TrimPrefix(why, "sluice: "))
}

// checkAdmin is checkAddr for --admin.
func checkAdmin(addr string) error {
	path, isUnix := strings.CutPrefix(addr, "unix:")
	switch {
	case isUnix && path == "":
		return errors.New("--admin unix: needs the path of a socket, such as unix:/run/sluice.sock")
	case isUnix:
		return nil
	case strings.Contains(addr, "/"):
		return fmt.Errorf("--admin takes HOST:PORT, or unix:PATH: unix:%s is the socket with this path", addr)
	}
	return checkAddr("--admin", addr)
}

// checkAddr finds what is no address to listen on, before anything listens. What a
// host's name leads to is not looked up.
func checkAddr(flag, addr string) error {
	if systemd.IsName(addr) && flag != "--admin" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		if _, numberErr := strconv.ParseUint(addr, 10, 16); numberErr == nil {
			return fmt.Errorf("%s %s is a port alone: :%s is that port on all addresses, 127.0.0.1:%s on this machine only", flag, addr, addr, addr)
		}
		return fmt.Errorf("%s takes HOST:PORT, such as :8080, 127.0.0.1:8080 or [::1]:8080, not %q", flag, addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%s %s: there is no port %q", flag, addr, port)
	}
	return nil
}

// hostOf returns the host of an address to listen on.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "" || systemd.IsName(addr) {
		return "localhost"
	}
	return host
}

// servedURLs returns the URL that a browser on this machine opens to see what
// listens on addr, or the name of a unix socket, and, if addr is all of the machine's, those for others.
func servedURLs(scheme string, addr net.Addr) (url string, others []string) {
	tcp, isTCP := addr.(*net.TCPAddr)
	switch {
	case !isTCP: // of systemd: no browser opens it
		return addr.Network() + ":" + addr.String(), nil
	case !tcp.IP.IsUnspecified():
		return scheme + "://" + addr.String(), nil
	}
	port := strconv.Itoa(tcp.Port)
	local, _ := net.InterfaceAddrs() // without them there are no hints
	for _, a := range local {
		network, ok := a.(*net.IPNet)
		if !ok || !network.IP.IsGlobalUnicast() {
			continue // loopback, or an address that needs a zone
		}
		if tcp.IP.To4() != nil && network.IP.To4() == nil {
			continue
		}
		others = append(others, scheme+"://"+net.JoinHostPort(network.IP.String(), port))
	}
	return scheme + "://" + net.JoinHostPort("localhost", port), others
}
