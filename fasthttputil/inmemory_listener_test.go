package fasthttputil

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/net/nettest"
)

func TestInmemoryListenerConnectionsKeepTheNetConnContract(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		ln := NewInmemoryListener()
		accepted := make(chan net.Conn, 1)
		go func() {
			c, _ := ln.Accept()
			accepted <- c
		}()
		c1, err = ln.Dial()
		c2 = <-accepted
		return c1, c2, func() { c1.Close(); c2.Close(); ln.Close() }, err
	})
}

func TestInmemoryListenerServesNetHTTP(t *testing.T) {
	ln := NewInmemoryListener()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "you asked for "+r.URL.Path)
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()

	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ln.Dial() }}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				resp, err := (&http.Client{Transport: transport}).Get("http://in.memory/tea")
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != "you asked for /tea" {
					t.Errorf("body %q, %v", body, err)
				}
			}
		})
	}
	wg.Wait()
	transport.CloseIdleConnections()
	ln.Close()
	if err := <-served; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve returned %v", err)
	}
}

func TestInmemoryListenerDialWaitsForAccept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := NewInmemoryListener()
		dialed := false
		go func() {
			if _, err := ln.Dial(); err != nil {
				t.Error(err)
			}
			dialed = true
		}()
		synctest.Wait()
		if dialed {
			t.Fatal("Dial returned before Accept")
		}
		if _, err := ln.Accept(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !dialed {
			t.Fatal("Dial still waits after Accept")
		}
	})
}

func TestInmemoryListenerCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialers, acceptors := NewInmemoryListener(), NewInmemoryListener()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if c, err := dialers.Dial(); c != nil || err != ErrInmemoryListenerClosed {
					t.Errorf("waiting Dial = %v, %v", c, err)
				}
			})
			wg.Go(func() {
				if c, err := acceptors.Accept(); c != nil || err != ErrInmemoryListenerClosed {
					t.Errorf("waiting Accept = %v, %v", c, err)
				}
			})
		}
		synctest.Wait()
		for _, ln := range []*InmemoryListener{dialers, acceptors} {
			if err := ln.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if err := ln.Close(); err != ErrInmemoryListenerClosed {
				t.Errorf("second Close: %v", err)
			}
			if c, err := ln.Dial(); c != nil || err != ErrInmemoryListenerClosed {
				t.Errorf("Dial after Close = %v, %v", c, err)
			}
			if c, err := ln.Accept(); c != nil || err != ErrInmemoryListenerClosed {
				t.Errorf("Accept after Close = %v, %v", c, err)
			}
		}
		wg.Wait()
	})
}

// Accept, Dial and Close run concurrently: every successful Dial was accepted, and no
// call blocks for ever.
func TestInmemoryListenerCloseRaces(t *testing.T) {
	for range 200 {
		ln := NewInmemoryListener()
		var accepted, dialed int
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				if _, err := ln.Accept(); err != nil {
					return
				}
				accepted++
				if accepted == 5 {
					ln.Close()
				}
			}
		})
		var mu sync.Mutex
		for range 10 {
			wg.Go(func() {
				if _, err := ln.Dial(); err == nil {
					mu.Lock()
					dialed++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if accepted != dialed {
			t.Fatalf("%d accepted, %d dialed", accepted, dialed)
		}
	}
}

func TestInmemoryListenerConnectionsOutliveIt(t *testing.T) {
	ln := NewInmemoryListener()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := ln.Accept()
		accepted <- c
	}()
	client, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	server := <-accepted
	ln.Close()
	if _, err := io.WriteString(client, "hi"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2)
	if _, err := io.ReadFull(server, got); err != nil || string(got) != "hi" {
		t.Fatalf("read %q, %v", got, err)
	}
}

func TestInmemoryListenerAddresses(t *testing.T) {
	ln := NewInmemoryListener()
	connect := func(local net.Addr) (client, server net.Conn) {
		accepted := make(chan net.Conn, 1)
		go func() {
			c, _ := ln.Accept()
			accepted <- c
		}()
		client, err := ln.DialWithLocalAddr(local)
		if err != nil {
			t.Fatal(err)
		}
		return client, <-accepted
	}
	check := func(what string, got net.Addr, network, text string) {
		t.Helper()
		if got.Network() != network || got.String() != text {
			t.Errorf("%s is %s %s, want %s %s", what, got.Network(), got, network, text)
		}
	}

	check("default Addr", ln.Addr(), "inmemory", "InmemoryListener")
	client, server := connect(nil)
	check("client local", client.LocalAddr(), "pipe", "pipe")
	check("client remote", client.RemoteAddr(), "inmemory", "InmemoryListener")
	check("server local", server.LocalAddr(), "inmemory", "InmemoryListener")
	check("server remote", server.RemoteAddr(), "pipe", "pipe")

	ln.SetLocalAddr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 80})
	check("Addr", ln.Addr(), "tcp", "10.0.0.1:80")
	client, server = connect(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1234})
	check("client local", client.LocalAddr(), "tcp", "10.0.0.2:1234")
	check("client remote", client.RemoteAddr(), "tcp", "10.0.0.1:80")
	check("server local", server.LocalAddr(), "tcp", "10.0.0.1:80")
	check("server remote", server.RemoteAddr(), "tcp", "10.0.0.2:1234")
}
