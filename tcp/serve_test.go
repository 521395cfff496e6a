package tcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/tcp"
)

func echo(c *tcp.Conn, in []byte) (int, error) { return c.Write(in) }

// lines answers each line with its length and itself, and ends after "quit".
func lines(c *tcp.Conn, in []byte) (used int, err error) {
	end := bytes.IndexByte(in, '\n')
	if end < 0 {
		return 0, nil
	}
	fmt.Fprintf(c, "%d:%s\n", end, in[:end])
	if string(in[:end]) == "quit" {
		err = io.EOF
	}
	return end + 1, err
}

// TestEcho sends much data in pieces of all sizes on several connections.
func TestEcho(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		s := f.start(t, &tcp.Server{Handler: echo})
		var clients sync.WaitGroup
		for seed := range uint64(4) {
			c := s.connect(t)
			clients.Go(func() {
				random := rand.New(rand.NewPCG(seed, 1))
				text := randomText(random, 300_000)
				sent := make(chan error, 1)
				go func() { sent <- sendCut(c, text, random) }()
				got := make([]byte, len(text))
				_, err := io.ReadFull(c, got)
				if err != nil || string(got) != text {
					t.Errorf("the echo is another: %v", err)
				}
				if err := <-sent; err != nil {
					t.Error(err)
				}
			})
		}
		clients.Wait()
	})
}

func randomText(random *rand.Rand, size int) string {
	text := make([]byte, size)
	for i := range text {
		text[i] = byte('a' + random.IntN(26))
	}
	return string(text)
}

// sendCut writes text in pieces of random sizes.
func sendCut(w io.Writer, text string, random *rand.Rand) error {
	for len(text) > 0 {
		n := min(1+random.IntN(1<<random.IntN(16)), len(text))
		if _, err := io.WriteString(w, text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// TestPartialUse: messages arrive in two pieces, byte by byte, and many at once.
func TestPartialUse(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		s := f.start(t, &tcp.Server{Handler: lines})
		c := s.connect(t)
		const sent, want = "one\n\nthree\n", "3:one\n0:\n5:three\n"
		for cut := 1; cut < len(sent); cut++ {
			c.send(t, sent[:cut])
			c.ask(t, sent[cut:], want)
		}
		written := make(chan error, 1)
		go func() { written <- nettest.WriteCut(c, []byte(sent), 1, func(int) {}) }()
		c.expect(t, want)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		c.ask(t, strings.Repeat(sent, 10_000), strings.Repeat(want, 10_000))
		c.send(t, "quit\nnot answered\n")
		c.expectEnd(t, "4:quit\n")
	})
}

func TestMaxBuffer(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		ended := make(ends, 8)
		s := f.start(t, &tcp.Server{Handler: lines, OnClose: ended.onClose, MaxBuffer: 100})
		longest := strings.Repeat("x", 99)
		c := s.connect(t)
		c.ask(t, longest+"\n"+longest+"\n", "99:"+longest+"\n99:"+longest+"\n")
		c.send(t, longest[:50])
		c.ask(t, longest[50:]+"\n", "99:"+longest+"\n")
		for _, pieces := range [][]string{{longest + "x"}, {longest[:50], longest[50:] + "x"}} {
			c := s.connect(t)
			c.ask(t, "a\n", "1:a\n")
			for _, piece := range pieces {
				c.send(t, piece)
			}
			c.expectEnd(t, "")
			ended.expect(t, tcp.ErrTooLarge)
		}
	})
}

// TestLargeReply: a reply larger than the limit is written in pieces, to a peer that
// reads late.
func TestLargeReply(t *testing.T) {
	piece := strings.Repeat("0123456789", 1000)
	eachFixture(t, func(t *testing.T, f fixture) {
		s := f.start(t, &tcp.Server{Handler: func(c *tcp.Conn, in []byte) (int, error) {
			for range 1000 {
				if _, err := c.WriteString(piece); err != nil {
					return 0, err
				}
			}
			return len(in), c.Flush()
		}})
		c := s.connect(t)
		c.send(t, "go")
		for range 1000 {
			c.expect(t, piece)
		}
	})
}

// TestWriteFails: the peer disconnects while much is written to it.
func TestWriteFails(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		ended := make(ends, 1)
		failed := make(chan error, 2)
		s := f.start(t, &tcp.Server{OnClose: ended.onClose, Handler: func(c *tcp.Conn, in []byte) (int, error) {
			for {
				if _, err := c.Write(make([]byte, 50_000)); err != nil {
					failed <- err
					_, err = c.Write([]byte("again"))
					failed <- err
					return len(in), errors.New("made up")
				}
			}
		}})
		c := s.connect(t)
		c.send(t, "go")
		c.expect(t, "\x00")
		_ = c.Close()
		err := <-failed
		if again := <-failed; err == nil || again != err {
			t.Errorf("Write failed with %v, then with %v", err, again)
		}
		ended.expect(t, err)
	})
}

func TestServeConn(t *testing.T) {
	peer, server := net.Pipe()
	s := &tcp.Server{Handler: lines}
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(server) }()
	c := &client{peer}
	c.ask(t, "a\nquit\n", "1:a\n4:quit\n")
	if err := <-served; err != nil {
		t.Errorf("ServeConn returned %v", err)
	}

	peer, server = net.Pipe()
	go func() { served <- s.ServeConn(server) }()
	if _, err := io.WriteString(peer, "half a line"); err != nil {
		t.Fatal(err)
	}
	_ = peer.Close()
	if err := <-served; err != io.ErrUnexpectedEOF {
		t.Errorf("ServeConn returned %v for half a message", err)
	}
}

func TestServeErrors(t *testing.T) {
	ln, _ := listenTCP(t)
	defer ln.Close()
	if err := (&tcp.Server{}).Serve(ln); err == nil {
		t.Error("Serve without a Handler returned no error")
	}
	if err := (&tcp.Server{}).ServeConn(nil); err == nil {
		t.Error("ServeConn without a Handler returned no error")
	}
	if err := tcp.ListenAndServe("127.0.0.1:99999", echo); err == nil {
		t.Error("ListenAndServe on a port that is none returned no error")
	}
	if err := new(tcp.Server).Shutdown(context.Background()); err != nil {
		t.Errorf("Shutdown of an idle Server returned %v", err)
	}
	ln2, _ := listenTCP(t)
	served := make(chan error, 1)
	go func() { served <- tcp.Serve(ln2, echo) }()
	_ = ln2.Close()
	if err := <-served; err != nil {
		t.Errorf("Serve of a closed listener returned %v", err)
	}
}

func TestListenAndServe(t *testing.T) {
	s := &tcp.Server{Handler: echo, KeepAlivePeriod: 1 << 40}
	opened := make(chan string, 1)
	s.OnOpen = func(c *tcp.Conn) error {
		opened <- c.LocalAddr().String()
		return nil
	}
	ln, _ := listenTCP(t)
	addr := ln.Addr().String()
	_ = ln.Close()
	served := make(chan error, 1)
	go func() { served <- s.ListenAndServe(addr) }()
	var conn net.Conn
	eventually(t, "the listener", func() (ok bool) {
		var err error
		conn, err = net.Dial("tcp", addr)
		return err == nil
	})
	(&client{conn}).ask(t, "x", "x")
	if got := <-opened; got != addr {
		t.Errorf("LocalAddr is %v, want %v", got, addr)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Errorf("ListenAndServe returned %v", err)
	}
}
