package sluice

import (
	"net"
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
