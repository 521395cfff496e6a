package sluice_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
)

// printAnswer serves one request with server and prints the answer's status and body.
func printAnswer(server *sluice.Server, method, url, body string) {
	client, stop := serveInMemory(server)
	defer stop()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d %s\n", resp.StatusCode, strings.TrimSpace(string(text)))
}

// serveInMemory runs server in memory and returns a client for it.
func serveInMemory(server *sluice.Server) (client *http.Client, stop func()) {
	ln := fasthttputil.NewInmemoryListener()
	go server.Serve(ln)
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return ln.Dial() },
	}
	return &http.Client{Transport: transport}, func() {
		transport.CloseIdleConnections()
		if err := server.Shutdown(); err != nil {
			log.Fatal(err)
		}
	}
}

// The shortest server.
func ExampleListenAndServe() {
	err := sluice.ListenAndServe("127.0.0.1:8080", func(ctx *sluice.RequestCtx) {
		fmt.Fprintf(ctx, "Hello, %s!\n", ctx.QueryArgs().Peek("name"))
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A switch over the path is all the routing that many programs need. Routers
// written for fasthttp work as well.
func ExampleServer() {
	server := &sluice.Server{
		Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/hello":
				fmt.Fprintf(ctx, "Hello, %s!", ctx.QueryArgs().Peek("name"))
			case "/echo":
				ctx.SetBody(ctx.PostBody())
			default:
				ctx.NotFound()
			}
		},
		Name:               "example",
		ReadTimeout:        10 * time.Second,
		IdleTimeout:        time.Minute,
		MaxRequestBodySize: 1 << 20,
	}
	printAnswer(server, "GET", "http://example.com/hello?name=Ada", "")
	printAnswer(server, "POST", "http://example.com/echo", "anything")
	printAnswer(server, "GET", "http://example.com/other", "")
	// Output:
	// 200 Hello, Ada!
	// 200 anything
	// 404 404 Page not found
}

// Shutdown answers what runs, and tells handlers by ctx.Done that they should
// come to an end.
func ExampleServer_ShutdownWithContext() {
	begun := make(chan struct{})
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		close(begun)
		<-ctx.Done()
		ctx.WriteString("ended early")
	}}
	client, stop := serveInMemory(server)
	defer stop()
	go func() {
		<-begun
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.ShutdownWithContext(ctx); err != nil {
			log.Print("requests were cut off: ", err)
		}
	}()
	resp, err := client.Get("http://example.com/")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s, close: %v\n", body, resp.Close)
	// Output: ended early, close: true
}

// ErrorHandler answers what never reaches Handler. The status is set already.
func ExampleServer_errorHandler() {
	server := &sluice.Server{
		Handler:            func(ctx *sluice.RequestCtx) {},
		MaxRequestBodySize: 10,
		ErrorHandler: func(ctx *sluice.RequestCtx, err error) {
			fmt.Fprintf(ctx, "we say no: %d", ctx.Response.StatusCode())
		},
	}
	printAnswer(server, "POST", "http://example.com/", "more than ten bytes")
	// Output: 413 we say no: 413
}

// A handler may wait for its work and for the client at once.
func ExampleRequestCtx_Done() {
	work := make(chan string)
	begun, gone := make(chan struct{}), make(chan error)
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		close(begun)
		select {
		case result := <-work:
			ctx.WriteString(result)
		case <-ctx.Done():
			gone <- ctx.Err() // nobody waits for the answer: stop working on it
		}
	}}
	ln := fasthttputil.NewInmemoryListener()
	go server.Serve(ln)
	defer server.Shutdown()
	conn, err := ln.Dial()
	if err != nil {
		log.Fatal(err)
	}
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	<-begun
	conn.Close() // the client gives up
	fmt.Println(<-gone)
	// Output: context canceled
}

// Flush sends what there is while the handler goes on.
func ExampleRequestCtx_Flush() {
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		for i := range 3 {
			fmt.Fprintf(ctx, "line %d\n", i)
			if err := ctx.Flush(); err != nil {
				return // the client is gone
			}
		}
	}}
	printAnswer(server, "GET", "http://example.com/", "")
	// Output:
	// 200 line 0
	// line 1
	// line 2
}

// The writer runs after the handler has returned. What it needs of ctx is
// taken before.
func ExampleRequestCtx_SetBodyStreamWriter() {
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		name := string(ctx.QueryArgs().Peek("name"))
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			for i := range 2 {
				fmt.Fprintf(w, "%s %d\n", name, i)
				if w.Flush() != nil {
					return // the client is gone
				}
			}
		})
	}}
	printAnswer(server, "GET", "http://example.com/?name=Ada", "")
	// Output:
	// 200 Ada 0
	// Ada 1
}

// With StreamRequestBody a handler reads a body of any size while it arrives.
func ExampleRequestCtx_RequestBodyStream() {
	server := &sluice.Server{
		StreamRequestBody: true,
		Handler: func(ctx *sluice.RequestCtx) {
			lines := 0
			scanner := bufio.NewScanner(ctx.RequestBodyStream())
			for scanner.Scan() {
				lines++
			}
			if err := scanner.Err(); err != nil { // the body did not come to its end
				ctx.Error(err.Error(), sluice.StatusBadRequest)
				return
			}
			fmt.Fprintf(ctx, "%d lines", lines)
		},
	}
	printAnswer(server, "POST", "http://example.com/", strings.Repeat("a line\n", 100_000))
	// Output: 200 100000 lines
}

// A hijacked connection is the handler's from the end of the response on.
func ExampleRequestCtx_Hijack() {
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
		ctx.Response.Header.Set("Connection", "Upgrade")
		ctx.Response.Header.Set("Upgrade", "shout")
		ctx.Hijack(func(conn net.Conn) {
			line, _ := bufio.NewReader(conn).ReadBytes('\n')
			conn.Write(bytes.ToUpper(line))
		})
	}}
	ln := fasthttputil.NewInmemoryListener()
	go server.Serve(ln)
	defer server.Shutdown()
	conn, err := ln.Dial()
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	// What comes directly behind the request is not lost.
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\nhello\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		log.Fatal(err)
	}
	answer, _ := r.ReadString('\n')
	fmt.Println(resp.StatusCode, answer)
	// Output: 101 HELLO
}

// TimeoutError leaves ctx to a goroutine that goes on after the answer.
func ExampleRequestCtx_TimeoutError() {
	release, finished := make(chan struct{}), make(chan struct{})
	server := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		go func() {
			defer close(finished)
			<-release
			ctx.WriteString("too late to be seen") // harmless: ctx is not used for anything else
		}()
		select {
		case <-finished:
		case <-time.After(time.Millisecond):
			ctx.TimeoutError("took too long")
		}
	}}
	printAnswer(server, "GET", "http://example.com/", "")
	close(release)
	<-finished
	// Output: 408 took too long
}

// A handler gets a bound, and a status for the answer if it exceeds it.
func ExampleTimeoutWithCodeHandler() {
	slow := func(ctx *sluice.RequestCtx) { <-ctx.Done() }
	server := &sluice.Server{
		Handler: sluice.TimeoutWithCodeHandler(slow, time.Millisecond, "try again", sluice.StatusServiceUnavailable),
	}
	printAnswer(server, "GET", "http://example.com/", "")
	// Output: 503 try again
}

// A handler can be tested without a server.
func ExampleRequestCtx_Init() {
	handler := func(ctx *sluice.RequestCtx) {
		fmt.Fprintf(ctx, "%s %s", ctx.Method(), ctx.Path())
	}
	var ctx sluice.RequestCtx
	var req sluice.Request
	req.Header.SetMethod("DELETE")
	req.SetRequestURI("http://example.com/things/7")
	ctx.Init(&req, nil, nil)
	handler(&ctx)
	fmt.Printf("%d %s\n", ctx.Response.StatusCode(), ctx.Response.Body())
	// Output: 200 DELETE /things/7
}

// Values are read by name; a set of them is written in order.
func ExampleArgs() {
	var args sluice.Args
	args.Parse("q=two+words&tag=a&tag=b")
	fmt.Printf("%s %q\n", args.Peek("q"), args.PeekMulti("tag"))
	args.Set("q", "1 & 2")
	args.Del("tag")
	args.SetUint("page", 3)
	fmt.Println(args.String())
	// Output:
	// two words ["a" "b"]
	// q=1+%26+2&page=3
}

// The parts of a URI are decoded; FullURI writes them encoded.
func ExampleURI() {
	u := sluice.AcquireURI()
	defer sluice.ReleaseURI(u)
	if err := u.Parse(nil, []byte("http://example.com/a%20b/../c?x=1#top")); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s %s %s\n", u.Host(), u.Path(), u.QueryString(), u.Hash())
	u.Update("../d e")
	fmt.Printf("%s\n", u.FullURI())
	// Output:
	// example.com /c x=1 top
	// http://example.com/d%20e
}

// A cookie for a response.
func ExampleCookie() {
	c := sluice.AcquireCookie()
	defer sluice.ReleaseCookie(c)
	c.SetKey("session")
	c.SetValue("abc")
	c.SetPath("/")
	c.SetHTTPOnly(true)
	c.SetSecure(true)
	c.SetSameSite(sluice.CookieSameSiteLaxMode)
	fmt.Println(c)

	var resp sluice.Response
	resp.Header.SetCookie(c)
	fmt.Printf("%s\n", resp.Header.PeekCookie("session"))
	// Output:
	// session=abc; path=/; HttpOnly; secure; SameSite=Lax
	// session=abc; path=/; HttpOnly; secure; SameSite=Lax
}

func ExampleCompressHandler() {
	handler := sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(strings.Repeat("water ", 1000))
	})

	var ctx sluice.RequestCtx
	ctx.Init(nil, nil, nil)
	ctx.Request.Header.Set("Accept-Encoding", "deflate;q=0.5, gzip")
	handler(&ctx)

	body, err := ctx.Response.BodyUncompressed()
	fmt.Printf("%s %v\n", ctx.Response.Header.ContentEncoding(), len(ctx.Response.Body()) < 200)
	fmt.Println(len(body), err)
	// Output:
	// gzip true
	// 6000 <nil>
}
