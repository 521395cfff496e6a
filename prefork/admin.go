package prefork

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine/listen"
	"github.com/sluicehttp/sluice/internal/process/health"
)

const (
	// adminMode is the mode of the admin's unix socket: only the master's user may
	// connect.
	adminMode fs.FileMode = 0o600
	// adminTimeout bounds reading a request to the admin and writing its response.
	// adminEnd bounds the wait for requests in progress when the master ends.
	adminTimeout    = 10 * time.Second
	adminEnd        = time.Second
	adminConcurrent = 64
)

// An admin is the master's own server, or that of a Single.
type admin struct {
	ln     net.Listener
	server *sluice.Server
	log    Logger
	file   listen.SocketFile // of a unix socket; close removes it
}

// openAdmin listens on Admin. If Admin is empty it returns nil, whose methods do
// nothing.
func (p *Prefork) openAdmin(h *holder) (*admin, error) {
	if p.Admin == "" {
		return nil, nil
	}
	handler := p.AdminHandler
	if handler == nil {
		handler = defaultAdmin(p)
	}
	return openAdmin(p.Admin, handler, p.logger(), h)
}

// openAdmin listens on addr, which has the form of Prefork.Admin. h keeps the socket for
// the next master; it may be nil.
func openAdmin(addr string, handler sluice.RequestHandler, log Logger, h *holder) (*admin, error) {
	a := &admin{log: log}
	var err error
	if a.ln = h.adminListener(addr); a.ln == nil {
		if path, isUnix := strings.CutPrefix(addr, unixPrefix); isUnix {
			a.ln, err = listenPrivate(path)
		} else {
			a.ln, err = listen.Listen(context.Background(), "tcp", addr, listen.Options{})
		}
	}
	if err == nil {
		err = h.keepAdmin(a, addr)
	}
	if err != nil {
		return nil, fmt.Errorf("sluice: Admin %s: %w", addr, err)
	}
	a.server = &sluice.Server{
		Handler:      a.survive(a.guard(handler)),
		Engine:       sluice.EnginePerConn, // few connections, and nothing to start
		Logger:       a.log,
		ReadTimeout:  adminTimeout,
		IdleTimeout:  time.Minute,
		Concurrency:  adminConcurrent,
		WriteTimeout: adminTimeout,
	}
	return a, nil
}

// listenPrivate listens on a unix socket that only this user may use. Where the
// system allows it, the mode is set before the bind, so that other users cannot
// connect before chmod.
func listenPrivate(path string) (*net.UnixListener, error) {
	ln, err := listenUnix(path, adminMode)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, adminMode); err != nil { // for systems that ignore the mode before bind
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// yield ends serving, and leaves the socket to another master.
func (a *admin) yield() {
	if a != nil {
		a.file = listen.SocketFile{}
		a.ln.Close()
	}
}

// survive makes a panic of the handler end only its request, not the master.
func (a *admin) survive(h sluice.RequestHandler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		defer func() {
			if reason := recover(); reason != nil {
				a.log.Printf("AdminHandler: panic: %v\n%s", reason, debug.Stack())
				ctx.ResetBody()
				ctx.Error("Internal Server Error", sluice.StatusInternalServerError)
			}
		}()
		h(ctx)
	}
}

// guard refuses requests for other hosts than this one if the address is a loopback one. A page of
// any site can have the browser send them, and read what comes, once the site's name leads here.
// Probes tell nothing, and load balancers send any Host.
func (a *admin) guard(h sluice.RequestHandler) sluice.RequestHandler {
	if addr, isTCP := a.ln.Addr().(*net.TCPAddr); !isTCP || !addr.IP.IsLoopback() {
		return h
	}
	return func(ctx *sluice.RequestCtx) {
		if !isLocal(string(ctx.Host())) && !isProbe(ctx) {
			ctx.Error("the Host must be an address or localhost", sluice.StatusForbidden)
			return
		}
		h(ctx)
	}
}

// isProbe reports whether ctx has a load balancer's request. The target is compared as it was sent: a
// handler may go by that, and not by the path that it stands for.
func isProbe(ctx *sluice.RequestCtx) bool {
	path, _, _ := bytes.Cut(ctx.RequestURI(), []byte("?"))
	return (ctx.IsGet() || ctx.IsHead()) && health.IsProbe(path)
}

// isLocal reports whether host, perhaps with a port, is an IP address or a name of this machine
// (RFC 6761 section 6.3). It is also true for none.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "" || strings.HasSuffix("."+strings.ToLower(host), ".localhost")
}

// addr returns the address of the listener.
func (a *admin) addr() net.Addr {
	if a == nil {
		return nil
	}
	return a.ln.Addr()
}

// serve serves until close. Call it in the master after p.state is set, because
// the handler calls Status.
func (a *admin) serve() {
	if a == nil {
		return
	}
	if err := a.server.Serve(a.ln); err != nil {
		a.log.Printf("admin: %v", err)
	}
}

// close ends serving. Requests in progress have one second to finish.
func (a *admin) close() {
	if a == nil {
		return
	}
	a.file.Remove() // while the socket is open, no other file gets its number
	ctx, cancel := context.WithTimeout(context.Background(), adminEnd)
	defer cancel()
	if err := a.server.ShutdownWithContext(ctx); err != nil {
		a.log.Printf("admin: %v", err)
	}
	a.ln.Close() // serve may not have been called
}
