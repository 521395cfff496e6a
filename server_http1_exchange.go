package sluice

import (
	"errors"
	"net"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http1"
	"github.com/sluicehttp/sluice/internal/server/http2"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// An acceptor is the server of its HTTP/1.1 connections, as package http1 sees it.
var (
	_ http1.Host   = (*acceptor)(nil)
	_ engine.Waker = (*acceptor)(nil)
)

// The lowest bits of Memo.Served. The others store the number of requests, or the record
// of a connection of HTTP/2, or name an upgrade.Host and what it has stored.
const (
	memoTLS      = http1.MemoTLS // server.Facts.IsTLS
	memoHTTP2    = memoTLS << 1  // the protocol
	memoUpgraded = memoTLS << 2  // the protocol is that of an upgrade.Host
	memoShift    = http1.MemoShift
)

// Wake restores what Sleep returned; see engine.Waker.
func (a *acceptor) Wake(conn engine.Conn, m engine.Memo) engine.Protocol {
	switch {
	case m.Served&memoUpgraded != 0:
		return a.server.wakeUpgraded(conn, m)
	case m.Served&memoHTTP2 != 0:
		facts := server.Facts{ID: m.ID, Opened: m.Opened, IsTLS: m.Served&memoTLS != 0}
		return a.wakeHTTP2(conn, facts, http2.Record(m.Served>>memoShift))
	}
	return http1.Wake(conn, a, &a.cfg.Config, m)
}

// http1States are the states of package http1.
var http1States = [...]ConnState{http1.StateActive: StateActive, http1.StateIdle: StateIdle, http1.StateHijacked: StateHijacked, http1.StateClosed: StateClosed}

// TellState implements http1.Host.
func (a *acceptor) TellState(c net.Conn, s http1.State) { a.cfg.connState(c, http1States[s]) }

// Fail implements http1.Host.
func (a *acceptor) Fail(err error) { a.cfg.fail(err) }

// Log implements http1.Host. Without LogAllErrors it skips errors that the client causes.
func (a *acceptor) Log(c engine.Conn, err error) {
	var violation *h1.Error
	if a.cfg.LogsAll || !errors.As(err, &violation) {
		a.cfg.logConnError(c, err)
	}
}

// RunHijacked implements http1.Host.
func (a *acceptor) RunHijacked(conn net.Conn, handler func(net.Conn)) (hasReturned bool) {
	defer func() {
		if v := recover(); v != nil {
			a.cfg.logger.Printf("panic in hijack handler: %v\n%s", v, debug.Stack())
		}
	}()
	handler(conn)
	if !a.cfg.keepHijacked {
		conn.Close()
	}
	return true
}

// OpenHTTP2 implements http1.Host.
func (a *acceptor) OpenHTTP2(conn engine.Conn, f *server.Facts, begun []byte, start int64) engine.Protocol {
	if !a.cfg.speaksHTTP2(a.server) {
		return nil
	}
	c := a.openHTTP2(conn, server.Facts{ID: f.ID, Opened: f.Opened, IsTLS: f.IsTLS}, begun)
	c.BeganAt(start)
	c.isActive = true // as ConnState was told
	return c
}
