package sluice

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/buf"
)

func TestResponseReset(t *testing.T) {
	r := AcquireResponse() // not on the stack, which moves
	r.ImmediateHeaderFlush, r.StreamBody, r.SkipBody, r.KeepBodyBuffer = true, true, true, true
	r.SetStatusCode(404)
	r.SetBodyString("body")
	r.remoteAddr = &net.TCPAddr{}
	r.Reset()
	if r.StatusCode() != 200 || len(r.Body()) != 0 || r.ImmediateHeaderFlush || r.StreamBody || r.SkipBody || r.RemoteAddr() != nil {
		t.Error("something is left")
	}
	if !r.KeepBodyBuffer || cap(r.buffered()) == 0 {
		t.Error("the body's memory is gone")
	}
}

func TestResponseCopyTo(t *testing.T) {
	r := Response{SkipBody: true, StreamBody: true, ImmediateHeaderFlush: true}
	r.SetStatusCode(404)
	r.Header.Set("X-A", "1")
	r.localAddr, r.remoteAddr = &net.TCPAddr{Port: 1}, &net.TCPAddr{Port: 2}
	r.SetBodyRaw([]byte("body"))
	dst := Response{KeepBodyBuffer: true}
	dst.SetBodyStream(streamOf("old"), 3)
	r.CopyTo(&dst)
	r.SetBodyString("changed")
	r.Header.Set("X-A", "2")
	if dst.StatusCode() != 404 || string(dst.Body()) != "body" || string(dst.Header.Peek("X-A")) != "1" {
		t.Errorf("%s", dst.String())
	}
	if !dst.SkipBody || dst.StreamBody || dst.ImmediateHeaderFlush || !dst.KeepBodyBuffer {
		t.Error("settings are not as documented")
	}
	if dst.LocalAddr() != r.LocalAddr() || dst.RemoteAddr() != r.RemoteAddr() {
		t.Error("addresses")
	}
	r.SetBodyStream(streamOf("stream"), 6)
	r.CopyTo(&dst)
	if dst.IsBodyStream() || len(dst.Body()) != 0 || !r.IsBodyStream() {
		t.Error("a stream must not be copied")
	}
	dst.SetBodyString("own")
	dst.CopyTo(&dst)
	if string(dst.Body()) != "own" {
		t.Error("copied to itself")
	}
}

func TestSendFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	var r Response
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
	var r Response
	if r.LocalAddr() != nil || r.RemoteAddr() != nil {
		t.Error("addresses out of nothing")
	}
	r.ParseNetConn(a)
	if r.LocalAddr() != a.LocalAddr() || r.RemoteAddr() != a.RemoteAddr() {
		t.Error("other addresses")
	}
}

func TestConnectionCloseOfMessages(t *testing.T) {
	var q Request
	var r Response
	q.SetConnectionClose()
	r.SetConnectionClose()
	if !q.ConnectionClose() || !r.ConnectionClose() || !strings.Contains(r.String(), "\r\nConnection: close\r\n") {
		t.Error("not closed")
	}
}

// TestPooledRequestsAreSmall: memory of the usual size is kept.
func TestPooledRequestsAreSmall(t *testing.T) {
	for size, isKept := range map[int]bool{maxPooledBytes: true, maxPooledBytes + 1: false} {
		q := new(Request)
		q.wire = make([]byte, 0, size)
		q.recycle()
		if got := cap(q.wire) > 0; got != isKept {
			t.Errorf("%d bytes: kept %v", size, got)
		}
	}
	q := new(Request)
	q.URI().SetPath(strings.Repeat("x", maxPooledBytes/4))
	q.PostArgs().Set("k", strings.Repeat("x", maxPooledBytes/4))
	if q.recycle(); q.uri.heldBytes() == 0 || q.postArgs.heldBytes() == 0 {
		t.Error("usual memory is not kept")
	}
}

func TestMessagePoolsReturnEmptyMessages(t *testing.T) {
	for range 10 {
		q, r := AcquireRequest(), AcquireResponse()
		if q.KeepBodyBuffer || q.Header.Len() != 0 || len(q.Body()) != 0 || r.KeepBodyBuffer || r.StatusCode() != 200 {
			t.Fatal("not empty")
		}
		q.KeepBodyBuffer, r.KeepBodyBuffer = true, true
		q.SetRequestURI("http://h/" + strings.Repeat("x", maxPooledBytes))
		q.URI()
		q.PostArgs().Set("k", strings.Repeat("x", maxPooledBytes))
		q.SetBody(make([]byte, buf.DefaultLimit+1))
		r.SetBody(make([]byte, buf.DefaultLimit+1))
		r.SetStatusCode(500)
		ReleaseRequest(q)
		ReleaseResponse(r)
		if q.uri.heldBytes()+q.postArgs.heldBytes()+cap(q.buffered())+cap(r.buffered()) > maxPooledBytes {
			t.Fatal("large buffers are pooled")
		}
	}
}
