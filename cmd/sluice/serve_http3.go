package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/http3"
	"github.com/sluicehttp/sluice/prefork"
)

// leastUDPBuffer is how large the buffers of UDP should be at least, in bytes. The default of most
// systems is a tenth of it.
const leastUDPBuffer = 2 << 20

// checkHTTP3 checks --http3 against other flags.
func (o *serveOptions) checkHTTP3() error {
	switch {
	case !o.http3:
		return nil
	case !o.tls.isOn():
		return errors.New("--http3 needs --tls-cert, --tls-self-signed or --acme")
	case o.proxy.protocol != sluice.ProxyProtocolOff:
		return errors.New("--http3 and --proxy-protocol exclude each other: nothing says on UDP who the client is")
	case o.workers > 0 && runtime.GOOS != "linux":
		return errors.New("--http3 with --prefork needs Linux, which can steer packets to workers")
	}
	return nil
}

// prepareHTTP3 prepares to serve HTTP/3, and warns if the buffers of the system are small.
func (o *serveOptions) prepareHTTP3(logger *log.Logger) {
	if !o.http3 {
		return
	}
	_ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") // workers get it; the line below says it better
	if small := smallUDPBuffers(os.DirFS("/proc")); small != "" {
		logger.Printf("%s: bursts of HTTP/3 may be lost and sent again; set it to 7500000 with sysctl -w", small)
	}
}

// smallUDPBuffers names the limits of the buffers of UDP that are small; "": none are, or the
// process may exceed them, or this system has others.
func smallUDPBuffers(proc fs.FS) string {
	status, _ := fs.ReadFile(proc, "self/status")
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "CapEff:"); ok {
			const netAdmin = 12 // CAP_NET_ADMIN
			if bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64); err == nil && bits>>netAdmin&1 != 0 {
				return ""
			}
		}
	}
	var small []string
	for _, name := range []string{"rmem_max", "wmem_max"} {
		text, err := fs.ReadFile(proc, "sys/net/core/"+name)
		if err != nil {
			continue
		}
		if size, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && size < leastUDPBuffer {
			small = append(small, fmt.Sprintf("net.core.%s is %d", name, size))
		}
	}
	return strings.Join(small, " and ")
}

// portAttempts is how many ports the system may choose until one is free for TCP and UDP.
const portAttempts = 16

// listenBoth returns a listener for addr and, with --http3, a socket on the same port of UDP.
func (r *running) listenBoth(ctx context.Context, addr string) (net.Listener, net.PacketConn, error) {
	ln, err := r.listen(ctx, addr)
	if err != nil || !r.options.http3 {
		return ln, nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	mayChoose := !r.isActivated && port == "0"
	for attempt := 1; ; attempt++ {
		c, err := r.listenUDP(ln.Addr())
		if err == nil {
			return ln, c, nil
		}
		defer ln.Close() // so that the next port is another one
		if !mayChoose || attempt == portAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, nil, fmt.Errorf("cannot listen on UDP %s for HTTP/3: %w", ln.Addr(), err)
		}
		if ln, err = listen(ctx, addr); err != nil {
			return nil, nil, err
		}
	}
}

// listenUDP listens on the port of a TCP address.
func listenUDP(addr net.Addr) (net.PacketConn, error) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return nil, errors.New("it is no port of TCP")
	}
	return net.ListenUDP("udp", &net.UDPAddr{IP: tcp.IP, Port: tcp.Port, Zone: tcp.Zone})
}

// serveTLS serves HTTPS on ln, and HTTP/3 on c, if there is one. The result gets the error when both
// have ended.
func (r *running) serveTLS(ln net.Listener, c net.PacketConn) <-chan error {
	served := make(chan error, 1)
	go func() {
		if c == nil {
			served <- r.server.ServeTLS(ln, "", "")
			return
		}
		err := (&http3.Server{Server: r.server}).ServeTLS(ln, c, "", "")
		if errors.Is(err, sluice.ErrServerClosed) { // a signal has come before it has begun
			err = nil
		}
		served <- err
	}()
	return served
}

// serveHTTP3By has workers serve HTTP/3, too, with --http3.
func (o *serveOptions) serveHTTP3By(p *prefork.Prefork) {
	if o.http3 {
		http3.Prefork(p, http3.Config{})
	}
}
