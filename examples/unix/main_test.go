package main

import (
	"context"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	// The socket of a crashed process is replaced.
	old, err := net.Listen("unix", path)
	if err != nil {
		t.Skip("no unix sockets here:", err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false)
	old.Close()

	server := newServer()
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServeUNIX(path, 0o600) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		for { // until the server listens, or fails
			c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
			if err == nil || len(served) > 0 {
				return c, err
			}
			runtime.Gosched()
		}
	}}
	resp, err := (&http.Client{Transport: transport}).Get("http://localhost/")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if want := "served on " + path + "\n"; err != nil || string(body) != want {
		t.Errorf("got %q, %v, want %q", body, err, want)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	transport.CloseIdleConnections()
	if err := server.Shutdown(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
