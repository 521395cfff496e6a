package main

import (
	"context"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/process/systemd"
)

// endSlack is the time that the process needs beyond that of its requests.
const endSlack = 2 * time.Second

// notify tells systemd, if it listens.
func (r *running) notify(lines ...string) {
	if err := r.systemd.Notify(lines...); err != nil {
		r.logger.Printf("%v", err)
	}
}

// isReady tells systemd that the server serves on ln, and gives it a copy of the socket,
// so that connections wait while the service is restarted. From now on, until ctx ends,
// it tells the watchdog that the server's loops run.
func (r *running) isReady(ctx context.Context, ln net.Listener, status string) {
	if tcp, isTCP := ln.(*net.TCPListener); isTCP && !r.isActivated {
		if err := r.systemd.Store(tcp); err != nil {
			r.logger.Printf("%v", err)
		}
	}
	r.notify("READY=1", systemd.Status(status))
	if r.systemd.Watchdog > 0 {
		go r.feedWatchdog(ctx)
	}
}

// feedWatchdog sends WATCHDOG=1 thrice in the watchdog's time. A server whose loops do
// not answer is silent.
func (r *running) feedWatchdog(ctx context.Context) {
	ticker := time.NewTicker(r.systemd.Watchdog / 3)
	defer ticker.Stop()
	for {
		if r.server.Control().Probe(ctx) == nil {
			r.notify("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// listen returns the listener for addr: what systemd has passed for it, or a new one.
func (r *running) listen(ctx context.Context, addr string) (net.Listener, error) {
	given, err := r.systemd.Claim("tcp", addr)
	if err != nil {
		return nil, err
	}
	if len(given) > 1 { // of workers, perhaps: systemd must not keep sockets from which no process accepts
		r.logger.Printf("systemd has passed several sockets for %s, and one is used: --prefork uses all of them", addr)
		r.systemd.Unclaim(given[1:]...)
	}
	others, err := r.systemd.Close(true)
	for _, socket := range others {
		r.logger.Printf("systemd has passed a socket on which nothing listens: %v", socket)
	}
	if err != nil {
		r.logger.Printf("%v", err)
	}
	if len(given) == 0 {
		return listen(ctx, addr)
	}
	defer given[0].File.Close()
	r.isActivated = true
	return net.FileListener(given[0].File)
}
