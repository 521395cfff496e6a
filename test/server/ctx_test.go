package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestZeroRequestCtx: every method of a ctx that no server made can be called,
// in any order.
func TestZeroRequestCtx(t *testing.T) {
	contexts := map[string]func() *sluice.RequestCtx{
		"zero": func() *sluice.RequestCtx { return &sluice.RequestCtx{} },
		"Init": func() *sluice.RequestCtx {
			ctx := &sluice.RequestCtx{}
			ctx.Init(&sluice.Request{}, nil, nil)
			return ctx
		},
		"Init without request": func() *sluice.RequestCtx {
			ctx := &sluice.RequestCtx{}
			ctx.Init(nil, &net.TCPAddr{}, &harness.LogBook{})
			return ctx
		},
		"Init2": func() *sluice.RequestCtx {
			ctx := &sluice.RequestCtx{}
			client, server := net.Pipe()
			t.Cleanup(func() { client.Close(); server.Close() })
			ctx.Init2(server, &harness.LogBook{}, true)
			return ctx
		},
		"Init2 without connection": func() *sluice.RequestCtx {
			ctx := &sluice.RequestCtx{}
			ctx.Init2(nil, nil, false)
			return ctx
		},
	}
	for name, fresh := range contexts {
		t.Run(name, func(t *testing.T) {
			typ := reflect.TypeFor[*sluice.RequestCtx]()
			for i := range typ.NumMethod() {
				callMethod(t, fresh(), typ.Method(i))
			}
			ctx := fresh()
			for range 2 {
				for i := range typ.NumMethod() {
					callMethod(t, ctx, typ.Method(i))
				}
			}
		})
	}
}

// callMethod calls a method with zero values for numbers and text, and with
// something harmless for the rest.
func callMethod(t *testing.T, ctx *sluice.RequestCtx, method reflect.Method) {
	t.Helper()
	if strings.HasPrefix(method.Name, "Init") {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("%s panics: %v", method.Name, v)
		}
	}()
	args := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < method.Type.NumIn(); i++ {
		in := method.Type.In(i)
		switch in.Kind() {
		case reflect.Func:
			args = append(args, reflect.MakeFunc(in, func([]reflect.Value) []reflect.Value { return nil }))
		case reflect.Interface:
			args = append(args, interfaceArgument(in))
		case reflect.Pointer:
			args = append(args, reflect.New(in.Elem()))
		default:
			args = append(args, reflect.Zero(in))
		}
	}
	method.Func.Call(args)
}

func interfaceArgument(typ reflect.Type) reflect.Value {
	for _, v := range []any{"key", strings.NewReader("x"), &net.TCPAddr{}} {
		if reflect.TypeOf(v).Implements(typ) {
			return reflect.ValueOf(v)
		}
	}
	return reflect.Zero(typ)
}

// TestRequestCtxUserValues: the methods of a context are those of its request.
func TestRequestCtxUserValues(t *testing.T) {
	var ctx sluice.RequestCtx
	ctx.SetUserValue("a", 1)
	ctx.SetUserValueBytes([]byte("b"), 2)
	ctx.SetUserValue(3, 3)
	r := &ctx.Request
	if r.UserValue("a") != 1 || ctx.UserValue("b") != 2 || ctx.UserValueBytes([]byte("b")) != 2 || ctx.UserValue(3) != 3 {
		t.Errorf("%v, %v, %v", r.UserValue("a"), ctx.UserValue("b"), ctx.UserValue(3))
	}
	texts, all := 0, 0
	ctx.VisitUserValues(func([]byte, any) { texts++ })
	ctx.VisitUserValuesAll(func(any, any) { all++ })
	if texts != 2 || all != 3 {
		t.Errorf("%d and %d are visited", texts, all)
	}
	ctx.RemoveUserValue("a")
	ctx.RemoveUserValueBytes([]byte("b"))
	if r.UserValue("a") != nil || r.UserValue("b") != nil || r.UserValue(3) != 3 {
		t.Errorf("after removing: %v, %v, %v", r.UserValue("a"), r.UserValue("b"), r.UserValue(3))
	}
	if ctx.ResetUserValues(); r.UserValue(3) != nil {
		t.Error("after a reset there is a value")
	}
}

// TestRequestCtxOutsideServer is what tests of handlers rely on.
func TestRequestCtxOutsideServer(t *testing.T) {
	var req sluice.Request
	req.Header.SetMethod("POST")
	req.SetRequestURI("http://h/a?q=1")
	req.Header.SetContentType("application/x-www-form-urlencoded")
	req.SetBodyString("p=2")
	var ctx sluice.RequestCtx
	var log harness.LogBook
	ctx.Init(&req, &net.TCPAddr{IP: net.IPv4(1, 2, 3, 4), Port: 5}, &log)
	req.SetBodyString("changed")
	if string(ctx.Path()) != "/a" || string(ctx.Host()) != "h" || string(ctx.FormValue("q")) != "1" || string(ctx.FormValue("p")) != "2" || !ctx.IsPost() {
		t.Errorf("the request is %s", &ctx)
	}
	if ctx.RemoteIP().String() != "1.2.3.4" || ctx.LocalIP().String() != "0.0.0.0" || ctx.ConnID() != 0 || ctx.ID() != 0 || ctx.IsTLS() {
		t.Errorf("the connection is %v, %v", ctx.RemoteAddr(), ctx.LocalAddr())
	}
	if since := time.Since(ctx.Time()); since < 0 || since > time.Minute {
		t.Errorf("Time is %v ago", since)
	}
	ctx.Logger().Printf("hello %d", 7)
	if got := log.String(); !strings.Contains(got, "1.2.3.4:5 - POST http://h/a?q=1 - hello 7") {
		t.Errorf("logged %q", got)
	}
	for name, err := range map[string]error{"SetReadDeadline": ctx.SetReadDeadline(time.Now()), "SetWriteDeadline": ctx.SetWriteDeadline(time.Now())} {
		if err != sluice.ErrNilConnection {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx.SetStatusCode(418)
	ctx.SetUserValue("k", "v")
	ctx.Init(&sluice.Request{}, nil, nil)
	if ctx.Response.StatusCode() != 200 || ctx.UserValue("k") != nil || ctx.RemoteAddr().String() != "0.0.0.0:0" {
		t.Error("Init keeps what was there")
	}
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	ctx.Init2(server, nil, false)
	if ctx.Conn() != server || ctx.RemoteAddr().String() != "pipe" || ctx.LocalAddr().String() != "pipe" {
		t.Errorf("Init2: %v, %v", ctx.Conn(), ctx.RemoteAddr())
	}
}

// TestRequestMethods: what a handler learns about its request.
func TestRequestMethods(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		var ids []uint64
		began := time.Now().Add(-time.Second)
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ids = append(ids, ctx.ID())
			kinds := []bool{ctx.IsGet(), ctx.IsHead(), ctx.IsPost(), ctx.IsPut(), ctx.IsDelete(), ctx.IsConnect(), ctx.IsOptions(), ctx.IsTrace(), ctx.IsPatch(), ctx.IsQuery()}
			fmt.Fprintf(ctx, "%s %v %s %s %s %s %s %s %s body=%s %v", ctx.Method(), kinds, ctx.RequestURI(), ctx.Path(), ctx.Host(),
				ctx.Referer(), ctx.UserAgent(), ctx.QueryArgs().Peek("a"), ctx.PostArgs().Peek("b"), ctx.PostBody(), ctx.IsTLS() || ctx.TLSConnectionState() != nil)
			if ctx.ConnTime().Before(began) || ctx.Time().Before(ctx.ConnTime()) || time.Since(ctx.Time()) > time.Minute {
				t.Errorf("times are %v and %v", ctx.ConnTime(), ctx.Time())
			}
			if ctx.ID() != ctx.ConnID()<<32|ctx.ConnRequestNum() || ctx.ConnRequestNum() != uint64(len(ids)) || ctx.ConnID() == 0 {
				t.Errorf("numbers are %x, %d, %d", ctx.ID(), ctx.ConnID(), ctx.ConnRequestNum())
			}
			if ctx.RemoteAddr() == nil || ctx.LocalAddr() == nil || ctx.RemoteIP() == nil || ctx.LocalIP() == nil || ctx.Conn() == nil {
				t.Error("an address is missing")
			}
			if want := ctx.RemoteAddr().String(); ctx.Conn().RemoteAddr().String() != want || !strings.Contains(ctx.String(), want) {
				t.Errorf("remote address is %v", ctx.Conn().RemoteAddr())
			}
			for _, addr := range []net.Addr{&net.TCPAddr{IP: net.IPv4(9, 8, 7, 6)}, &net.UDPAddr{IP: net.IPv4(9, 8, 7, 6)}} {
				ctx.SetRemoteAddr(addr)
				if ctx.RemoteIP().String() != "9.8.7.6" {
					t.Errorf("RemoteIP of %s is %v", addr.Network(), ctx.RemoteIP())
				}
			}
			ctx.SetRemoteAddr(nil)
			if ctx.RemoteIP().String() == "9.8.7.6" {
				t.Error("SetRemoteAddr(nil) does not restore the address")
			}
		}})
		p := r.Dial()
		methods := []string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"}
		for i, method := range methods {
			target := "/x//../y?a=1"
			if method == "CONNECT" {
				continue
			}
			p.Send(harness.Request(method+" "+target+" HTTP/1.1", "Referer: ref", "User-Agent: agent", "Content-Type: application/x-www-form-urlencoded", "Content-Length: 3") + "b=2")
			kinds := make([]bool, len(methods))
			kinds[i] = true
			want := fmt.Sprintf("%s %v /x//../y?a=1 /y h ref agent 1 2 body=b=2 false", method, kinds)
			if a := p.Answer(method); a.Body != want && method != "HEAD" {
				t.Errorf("%q, want %q", a.Body, want)
			}
		}
		p.Send("CONNECT host:80 HTTP/1.1\r\nHost: host:80\r\n\r\n")
		if a := p.Answer("GET"); !strings.HasPrefix(a.Body, "CONNECT [false false false false false true") {
			t.Errorf("CONNECT: %q", a.Body)
		}
	})
}

func TestLazyRequestTime(t *testing.T) {
	goOn := make(chan time.Time)
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{LazyRequestTime: true, Handler: func(ctx *sluice.RequestCtx) {
		before := <-goOn
		if ctx.Time().Before(before.Add(-10 * time.Millisecond)) {
			t.Errorf("Time is %v before its first call", before.Sub(ctx.Time()))
		}
		if first, second := ctx.Time(), ctx.Time(); first != second {
			t.Error("Time changes")
		}
	}})
	p := r.Dial()
	p.Send(harness.Get("/"))
	time.Sleep(30 * time.Millisecond) // so that a clock that was read at once differs
	goOn <- time.Now()
	p.Answer("GET")
}

func TestResponseMethods(t *testing.T) {
	handlers := map[string]sluice.RequestHandler{
		"/success":   func(ctx *sluice.RequestCtx) { ctx.Success("a/b", []byte("x")) },
		"/successes": func(ctx *sluice.RequestCtx) { ctx.SuccessString("a/b", "x") },
		"/types": func(ctx *sluice.RequestCtx) {
			ctx.SetContentType("x")
			ctx.SetContentTypeBytes([]byte("a/b"))
			ctx.SetBody([]byte("x"))
		},
		"/reset": func(ctx *sluice.RequestCtx) {
			ctx.WriteString("lost")
			ctx.ResetBody()
			ctx.SetContentType("a/b")
			ctx.SetBodyString("x")
		},
	}
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { handlers[string(ctx.Path())](ctx) }})
	p := r.Dial()
	for path := range handlers {
		if a := p.Get(path); a.StatusCode != 200 || a.Body != "x" || a.Header.Get("Content-Type") != "a/b" {
			t.Errorf("%s: %d %q %v", path, a.StatusCode, a.Body, a.Header)
		}
	}
}

func TestRedirects(t *testing.T) {
	tests := []struct {
		uri, location string
		code, status  int
	}{
		{"/b?c=d", "http://h/b?c=d", 301, 301},
		{"b", "http://h/dir/b", 302, 302},
		{"../b", "http://h/b", 303, 303},
		{"?x=y", "http://h/dir/a?x=y", 307, 307},
		{"http://other/", "http://other/", 308, 308},
		{"//other/p", "http://other/p", 0, 302},
		{"https://other/", "https://other/", 200, 302},
		{"mailto:a b@c?subject=<x>#y z", "mailto:a b@c?subject=<x>#y z", 302, 302},
		{"tel:+1-2", "tel:+1-2", 302, 302},
		{"App+1.0-x:/cb/../a//b?u=c://d", "App+1.0-x:/cb/../a//b?u=c://d", 307, 307},
		{"mailto:", "mailto:", 302, 302},
		{"http:b", "http:b", 302, 302},
		{"https:/b", "https:/b", 302, 302},
		{"app:a\r\nX: y", "app:a  X: y", 302, 302},
		{"app:\n//h/", "app: //h/", 302, 302},
		{"data:\xc3\xa9%zz", "data:\xc3\xa9%zz", 302, 302},
		{"app://Other/b c", "app://other/b%20c", 302, 302},
		{":b", "http://h/dir/:b", 302, 302},
		{"1a:b", "http://h/dir/1a:b", 302, 302},
		{" mailto:b", "http://h/dir/%20mailto:b", 302, 302},
		{"./a:b", "http://h/dir/a:b", 302, 302},
		{"b?a:b", "http://h/dir/b?a:b", 302, 302},
		{"/b\r\nX: y", "http:///", 302, 302},
		{"app\n:b", "http:///", 302, 302},
		{"?\r\nX: y", "http://h/dir/a?%20%20X:%20y", 302, 302},
		{"?b\r\nX: y#\x00\tz", "http://h/dir/a?b%20%20X:%20y#%20%09z", 302, 302},
		{"?b#\nc\r\n", "http://h/dir/a?b#%20c", 302, 302},
	}
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		code, _ := ctx.QueryArgs().GetUint("code")
		if ctx.QueryArgs().Has("bytes") {
			ctx.RedirectBytes(ctx.QueryArgs().Peek("uri"), code)
		} else {
			ctx.Redirect(string(ctx.QueryArgs().Peek("uri")), code)
		}
	}})
	p := r.Dial()
	for _, test := range tests {
		for _, variant := range []string{"", "&bytes"} {
			var args sluice.Args
			args.Set("uri", test.uri)
			a := p.Get(fmt.Sprintf("/dir/a?%s&code=%d%s", args.QueryString(), test.code, variant))
			if a.StatusCode != test.status || a.Header.Get("Location") != test.location {
				t.Errorf("%s: %d to %q, want %d to %q", test.uri, a.StatusCode, a.Header.Get("Location"), test.status, test.location)
			}
		}
	}
	raw := r.Exchange(harness.Request("GET /?code=302&uri=%2Fx%0D%0AInjected:%20yes HTTP/1.1", "Connection: close"))
	if strings.Contains(raw, "\nInjected") {
		t.Errorf("a line was injected: %q", raw)
	}
}

func TestIfModifiedSince(t *testing.T) {
	modified := time.Date(2024, 5, 6, 7, 8, 9, 500, time.UTC)
	tests := map[string]bool{
		"":                              true,
		"nonsense":                      true,
		"Mon, 06 May 2024 07:08:08 GMT": true,
		"Mon, 06 May 2024 07:08:09 GMT": false,
		"Mon, 06 May 2024 07:08:10 GMT": false,
	}
	for since, want := range tests {
		var ctx sluice.RequestCtx
		if since != "" {
			ctx.Request.Header.Set("If-Modified-Since", since)
		}
		if got := ctx.IfModifiedSince(modified); got != want {
			t.Errorf("since %q: %v", since, got)
		}
	}
}

// TestUserValues of a request are closed with it.
func TestUserValues(t *testing.T) {
	var closed atomic.Int32
	type key struct{ n int }
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if n := closed.Load(); n != int32(ctx.ConnRequestNum()-1) {
			t.Errorf("%d values were closed before request %d", n, ctx.ConnRequestNum())
		}
		if ctx.UserValue("a") != nil || ctx.UserValue(key{1}) != nil {
			t.Error("values of another request are there")
		}
		ctx.SetUserValue("a", 1)
		ctx.SetUserValueBytes([]byte("b"), 2)
		ctx.SetUserValue(key{1}, 3)
		ctx.SetUserValue("closer", harness.CloseCounter{Closed: &closed})
		ctx.SetUserValue("removed", harness.CloseCounter{Closed: &closed})
		if ctx.UserValueBytes([]byte("a")) != 1 || ctx.UserValue("b") != 2 || ctx.UserValue(key{1}) != 3 || ctx.Value(key{1}) != 3 || ctx.Value("a") != 1 {
			t.Error("values are not found")
		}
		ctx.RemoveUserValue("removed")
		ctx.RemoveUserValueBytes([]byte("a"))
		texts, all := 0, 0
		ctx.VisitUserValues(func([]byte, any) { texts++ })
		ctx.VisitUserValuesAll(func(any, any) { all++ })
		if texts != 2 || all != 3 {
			t.Errorf("visited %d and %d values", texts, all)
		}
	}})
	p := r.Dial()
	for range 3 {
		p.Get("/")
	}
	p.Close()
	harness.Eventually(t, "all values are closed", func() bool { return closed.Load() == 3 })
}

// TestConnOfRequest is for protocols that go behind HTTP's back.
func TestConnOfRequest(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			c := ctx.Conn()
			buffer := make([]byte, 4)
			if _, err := io.ReadFull(c, buffer); err != nil {
				t.Error(err)
			}
			if _, err := io.WriteString(c, "<"+string(buffer)+">"); err != nil {
				t.Error(err)
			}
			if string(ctx.Path()) == "/close" {
				c.Close()
			}
		}})
		p := r.Dial()
		p.Send(harness.Get("/") + "pi")
		p.Send("ng")
		p.Expect("<ping>HTTP/1.1 200 OK\r\n")

		p = r.Dial()
		p.Send(harness.Get("/close") + "ping" + harness.Get("/"))
		if got := p.Rest(); got != "<ping>" {
			t.Errorf("%q", got)
		}
	})
}

// TestEveryMethodAfterTimeout: the ctx of a handler that timed out is its own,
// whatever becomes of the connection.
func TestEveryMethodAfterTimeout(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		goOn := make(chan struct{})
		finished := make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) != "/late" {
				return
			}
			remote := ctx.RemoteAddr().String()
			go func() {
				defer close(finished)
				<-goOn
				if _, err := ctx.Conn().Write([]byte("late")); !errors.Is(err, net.ErrClosed) {
					t.Errorf("writing to the connection of another: %v", err)
				}
				typ := reflect.TypeFor[*sluice.RequestCtx]()
				for i := range typ.NumMethod() {
					if ctx.RemoteAddr().String() != remote {
						t.Errorf("RemoteAddr became %v", ctx.RemoteAddr())
					}
					switch name := typ.Method(i).Name; name {
					case "SetRemoteAddr", "ResetUserValues":
					default:
						callMethod(t, ctx, typ.Method(i))
					}
				}
			}()
			ctx.TimeoutError("late")
		}})
		p := r.Dial()
		p.Get("/late")
		p.Close()
		harness.Eventually(t, "the connection is gone", func() bool { return r.Server.GetOpenConnectionsCount() == 0 })
		others := []*harness.Peer{r.Dial(), r.Dial()}
		close(goOn)
		for range 50 {
			for _, o := range others {
				if a := o.Get("/"); a.StatusCode != 200 || a.Body != "" {
					t.Fatalf("another connection was answered %d %q", a.StatusCode, a.Body)
				}
			}
		}
		harness.Receive(t, finished)
	})
}

// TestContextsAreNotMixed: many connections at once, each of which must see
// nothing but its own requests.
func TestContextsAreNotMixed(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if ctx.UserValue("name") != nil || len(ctx.Response.Header.Peek("X-Name")) > 0 || len(ctx.Response.Body()) > 0 {
				t.Error("the ctx is not clean")
			}
			name := ctx.QueryArgs().Peek("name")
			ctx.SetUserValue("name", string(name))
			ctx.Response.Header.SetBytesV("X-Name", name)
			fmt.Fprintf(ctx, "%s %s", name, ctx.PostBody())
			if len(name)%3 == 0 {
				ctx.Done()
			}
		}})
		finished := make(chan struct{})
		const conns = 16
		for i := range conns {
			p := r.Dial()
			go func() {
				defer func() { finished <- struct{}{} }()
				for j := range 50 {
					name := fmt.Sprintf("n%d-%d", i, j)
					p.Send(harness.Post("/?name="+name, name))
					if a := p.Answer("POST"); a.Body != name+" "+name || a.Header.Get("X-Name") != name {
						t.Errorf("%s was answered %q %v", name, a.Body, a.Header)
						return
					}
				}
			}()
		}
		for range conns {
			harness.Receive(t, finished)
		}
	})
}

var _ io.StringWriter = (*sluice.RequestCtx)(nil)

// TestWriteNeverFails: ctx is a plain writer.
func TestWriteNeverFails(t *testing.T) {
	var ctx sluice.RequestCtx
	w := bufio.NewWriter(&ctx)
	fmt.Fprintf(w, "%d", 7)
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
	if n, err := ctx.WriteString("x"); n != 1 || err != nil || !bytes.Equal(ctx.Response.Body(), []byte("7x")) {
		t.Errorf("%d, %v, %q", n, err, ctx.Response.Body())
	}
}

// What a handler writes to the connection comes behind the answers to the
// requests before, pipelined ones too.
func TestConnWritesInOrder(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/raw" {
				_, _ = ctx.Conn().Write([]byte("raw,"))
			}
			ctx.WriteString("x")
		}})
		answer := harness.TextAnswer(200, "x")
		got := r.Exchange(harness.Get("/") + harness.Get("/raw") + harness.Get("/") + harness.Closing("/raw"))
		if want := answer + "raw," + answer + answer + "raw,"; !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q and the last answer", got, want)
		}
	})
}
