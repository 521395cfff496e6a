package prefork

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
)

const (
	// adminMode is that of the admin's unix socket: for the master's user alone.
	adminMode fs.FileMode = 0o600
	// adminTimeout bounds each part of a request to the admin, and the wait for
	// those in hand when the master ends.
	adminTimeout    = 10 * time.Second
	adminEnd        = time.Second
	adminConcurrent = 64
)

// An admin is the master's own server.
type admin struct {
	ln     net.Listener
	server *sluice.Server
	log    Logger
}

// openAdmin listens on Admin; without one it returns nil, which does nothing.
func (p *Prefork) openAdmin() (*admin, error) {
	if p.Admin == "" {
		return nil, nil
	}
	a := &admin{log: p.logger()}
	var err error
	if path, isUnix := strings.CutPrefix(p.Admin, unixPrefix); isUnix {
		a.ln, err = listenPrivate(path)
	} else {
		a.ln, err = net.Listen("tcp", p.Admin)
	}
	if err != nil {
		return nil, fmt.Errorf("sluice: Admin: %w", err)
	}
	handler := p.AdminHandler
	if handler == nil {
		handler = StatusHandler(p)
	}
	a.server = &sluice.Server{
		Handler:      a.survive(handler),
		Engine:       sluice.EnginePerConn, // few connections, and nothing to start
		Logger:       a.log,
		ReadTimeout:  adminTimeout,
		IdleTimeout:  time.Minute,
		Concurrency:  adminConcurrent,
		WriteTimeout: adminTimeout,
	}
	return a, nil
}

// listenPrivate listens on a unix socket that only this user may use, and that
// nobody else could before its mode was set.
func listenPrivate(path string) (net.Listener, error) {
	ln, err := listenUnix(path, adminMode)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, adminMode); err != nil { // systems that take no mode before
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// survive has a panic of the handler end the request, not the master.
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

// addr is what is listened on.
func (a *admin) addr() net.Addr {
	if a == nil {
		return nil
	}
	return a.ln.Addr()
}

// serve serves until close. It is to be called in the master when Status works.
func (a *admin) serve() {
	if a == nil {
		return
	}
	if err := a.server.Serve(a.ln); err != nil {
		a.log.Printf("admin: %v", err)
	}
}

// close ends serving. Requests in hand have a second.
func (a *admin) close() {
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminEnd)
	defer cancel()
	if err := a.server.ShutdownWithContext(ctx); err != nil {
		a.log.Printf("admin: %v", err)
	}
	a.ln.Close() // serve may not have been called; removes a unix socket
}
