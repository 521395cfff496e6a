package message_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

func TestSendFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	var r sluice.Response
	if err := r.SendFile(path); err != nil {
		t.Fatal(err)
	}
	if r.Header.ContentLength() != 7 || len(r.Header.Peek("Last-Modified")) == 0 {
		t.Errorf("%s", r.Header.String())
	}
	// A file that grows is cut where its length was announced.
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("more")
	f.Close()
	if got := r.String(); !strings.HasSuffix(got, "\r\n\r\ncontent") {
		t.Errorf("%q", got)
	}
	r.Reset()
	if err := r.SendFile(os.DevNull); err != nil || r.Header.ContentLength() != -1 || !strings.HasSuffix(r.String(), "\r\n\r\n0\r\n\r\n") {
		t.Errorf("a device: %v, %s", err, r.Header.String())
	}
	for _, bad := range []string{dir, filepath.Join(dir, "missing")} {
		r.Reset()
		if err := r.SendFile(bad); err == nil || r.IsBodyStream() || r.Header.Peek("Last-Modified") != nil {
			t.Errorf("%s: %v", bad, err)
		}
	}
	open, _ := filepath.Glob("/proc/self/fd/*") // none without Linux
	for _, fd := range open {
		if got, _ := os.Readlink(fd); got == dir {
			t.Errorf("%s stays open", dir)
		}
	}
}

func TestParseNetConn(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	var r sluice.Response
	if r.LocalAddr() != nil || r.RemoteAddr() != nil {
		t.Error("addresses out of nothing")
	}
	r.ParseNetConn(a)
	if r.LocalAddr() != a.LocalAddr() || r.RemoteAddr() != a.RemoteAddr() {
		t.Error("other addresses")
	}
}

func TestConnectionCloseOfMessages(t *testing.T) {
	var q sluice.Request
	var r sluice.Response
	q.SetConnectionClose()
	r.SetConnectionClose()
	if !q.ConnectionClose() || !r.ConnectionClose() || !strings.Contains(r.String(), "\r\nConnection: close\r\n") {
		t.Error("not closed")
	}
}
