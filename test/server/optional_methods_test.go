package server_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/test/harness"
)

// optionalMethods names the methods beyond net.Conn that programs look for.
func optionalMethods(c net.Conn) string {
	var names []string
	add := func(name string, has bool) {
		if has {
			names = append(names, name)
		}
	}
	_, has := c.(io.ReaderFrom)
	add("ReadFrom", has)
	_, has = c.(io.WriterTo)
	add("WriteTo", has)
	_, has = c.(syscall.Conn)
	add("SyscallConn", has)
	_, has = c.(interface{ CloseRead() error })
	add("CloseRead", has)
	_, has = c.(interface{ CloseWrite() error })
	add("CloseWrite", has)
	_, has = c.(interface{ NetConn() net.Conn })
	add("NetConn", has)
	return strings.Join(names, " ")
}

// What connections have. Those that cannot hold are not offered: SyscallConn of a
// connection of which bytes were read, for example.
const (
	methodsOfTCP    = "ReadFrom WriteTo SyscallConn CloseRead CloseWrite"
	methodsOfTLS    = "CloseWrite NetConn"
	methodsOfUnread = "CloseWrite NetConn"
)

// checkMethods checks which methods c has, and uses those: a conversation goes through them.
func checkMethods(t *testing.T, c net.Conn, want string) {
	t.Helper()
	if got := optionalMethods(c); got != want {
		t.Errorf("a %T has %q, want %q", c, got, want)
	}
	if over, ok := c.(interface{ NetConn() net.Conn }); ok && over.NetConn() == nil {
		t.Errorf("NetConn of a %T is nil", c)
	}
	if raw, ok := c.(syscall.Conn); ok {
		control, err := raw.SyscallConn()
		if err == nil {
			err = control.Control(func(uintptr) {})
		}
		if err != nil {
			t.Errorf("SyscallConn of a %T: %v", c, err)
		}
	}
	// io.Copy prefers WriteTo of its source and ReadFrom of its target.
	var heard strings.Builder
	if _, err := io.Copy(&heard, io.LimitReader(c, 1)); err != nil || heard.String() != "q" {
		t.Errorf("reading from a %T: %q, %v", c, heard.String(), err)
	}
	if _, err := io.Copy(&heard, c); err != nil || heard.String() != "question" {
		t.Errorf("reading from a %T: %q, %v", c, heard.String(), err)
	}
	if half, ok := c.(interface{ CloseRead() error }); ok {
		if err := half.CloseRead(); err != nil {
			t.Errorf("CloseRead of a %T: %v", c, err)
		}
	}
	if _, err := io.Copy(c, io.MultiReader(strings.NewReader("ans"), strings.NewReader("wer"))); err != nil {
		t.Errorf("writing to a %T: %v", c, err)
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		if err := half.CloseWrite(); err != nil {
			t.Errorf("CloseWrite of a %T: %v", c, err)
		}
	}
}

// ask is the other side of checkMethods.
func ask(t *testing.T, c net.Conn, question string) {
	t.Helper()
	_, _ = io.WriteString(c, question)
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(c); !strings.HasSuffix(string(got), "answer") || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestOptionalMethods: which methods beyond net.Conn a connection has that a handler takes
// over, and that they work.
func TestOptionalMethods(t *testing.T) {
	const switching = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
	for _, under := range harness.OverTCPByEach() {
		for _, n := range []harness.Network{under, harness.OverTLS(t, under, "http/1.1")} {
			hijacked, waits := methodsOfTCP, methodsOfUnread
			if n.Scheme() == "https" {
				hijacked = methodsOfTLS
			}
			for name, test := range map[string]struct {
				want, early string // what arrives with the request
				handler     func(checked func(net.Conn)) sluice.RequestHandler
			}{
				"Hijack":                   {hijacked, "", hijacking},
				"Hijack, bytes were ahead": {waits, "ques", hijacking},
				"adaptor":                  {"CloseWrite", "", hijackingByNetHTTP},
				"adaptor, ahead":           {"CloseWrite", "ques", hijackingByNetHTTP},
			} {
				t.Run(n.Name+"/"+name, func(t *testing.T) {
					done := make(chan bool, 1)
					r := harness.Serve(t, n, &sluice.Server{Handler: test.handler(func(c net.Conn) {
						checkMethods(t, c, test.want)
						_ = c.Close()
						done <- true
					})})
					p := r.Dial()
					p.Send(switching + test.early)
					if strings.HasPrefix(name, "Hijack") {
						p.ExpectAny() // the head: what is sent from now on is not ahead
					}
					ask(t, p.Conn, "question"[len(test.early):])
					harness.Receive(t, done)
				})
			}
		}
	}
}

func hijacking(checked func(net.Conn)) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
		ctx.Hijack(checked)
	}
}

func hijackingByNetHTTP(checked func(net.Conn)) sluice.RequestHandler {
	return fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_ = rw.Flush()
		checked(c)
	})
}

// TestOptionalMethodsOfTunnels is TestOptionalMethods for both ends of a tunnel of HTTP/2.
func TestOptionalMethodsOfTunnels(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			done := make(chan bool, 1)
			r := harness.Serve(t, n, &sluice.Server{Handler: hijackingTunnel(func(c net.Conn) {
				checkMethods(t, c, "CloseWrite")
				done <- true
			})})
			var req sluice.Request
			var resp sluice.Response
			req.SetRequestURI("http://h/")
			client := &sluice.Client{HTTP2: sluice.HTTP2Only, Dial: func(string) (net.Conn, error) { return r.Connect() }}
			c, err := client.ConnectProtocol(context.Background(), "x", &req, &resp)
			if err != nil || c == nil {
				t.Fatal(c, err)
			}
			defer c.Close()
			if got := optionalMethods(c); got != "CloseWrite" {
				t.Errorf("the client's tunnel has %q", got)
			}
			ask(t, c, "question")
			harness.Receive(t, done)
		})
	}
}

func hijackingTunnel(checked func(net.Conn)) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) { ctx.Hijack(checked) }
}
