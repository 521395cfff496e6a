package prefork

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/supervise"
)

// openConns returns connections that this process has accepted, and a worker that
// listens for such.
func openConns(t *testing.T, n int) (*worker, []net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	var conns []net.Conn
	for range n {
		client, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conns = append(conns, conn)
	}
	return &worker{prefork: &Prefork{Logger: newTestLogger(t)}, addrs: []net.Addr{ln.Addr()}}, conns
}

// Connections that no server knows of are waited for and counted: those that ended,
// and those that were open when the time was over.
func TestOtherConnectionsAreCounted(t *testing.T) {
	for _, ends := range []bool{true, false} {
		w, conns := openConns(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan supervise.DrainStats)
		go func() {
			stats := supervise.DrainStats{Finished: 10} // of the server
			w.finishOthers(ctx, &stats)
			done <- stats
		}()
		until(t, "it waits", func() bool {
			stacks := make([]byte, 1<<20)
			return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "prefork.poll(")
		})
		want := supervise.DrainStats{Finished: 10, Cut: 3}
		if ends {
			want = supervise.DrainStats{Finished: 13}
			for _, conn := range conns {
				conn.Close()
			}
		} else {
			cancel()
		}
		if stats := <-done; stats != want {
			t.Errorf("they end: %v: %+v, want %+v", ends, stats, want)
		}
	}
	w, _ := openConns(t, 1)
	stats := supervise.DrainStats{Cut: 1}
	if w.finishOthers(t.Context(), &stats); stats != (supervise.DrainStats{Cut: 1}) {
		t.Errorf("after the time was over: %+v", stats)
	}
}
