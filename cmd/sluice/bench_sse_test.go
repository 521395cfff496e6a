package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sse"
)

// eventsServer serves streams: each client of /hub gets ten events, and can wait for more.
// It returns the requests for other paths, head and all.
func eventsServer(t *testing.T, serve func(*sluice.Server, net.Listener) error) (addr string, requests chan string, hub *sse.Hub) {
	t.Helper()
	hub, err := sse.New(sse.Options{Snapshot: func(*sluice.RequestCtx, []string) (events []sse.Event, _ error) {
		for range 10 {
			events = append(events, sse.Event{Data: []byte("x")})
		}
		return events, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	requests = make(chan string, 1000)
	srv := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) != "/hub" {
			requests <- ctx.Request.String()
		}
		ctx.SetContentType("text/event-stream; charset=utf-8")
		switch string(ctx.Path()) {
		case "/hub":
			if err := hub.Serve(ctx, "news"); err != nil {
				t.Error(err)
			}
		case "/short":
			ctx.SetBodyString("retry: 1\nid: five\ndata: x\n\nid: six\n\nid: seven\ndata: y\n") // a part of an event
		case "/reset":
			ctx.SetBodyString("retry: 1\nid: five\ndata: x\n\nid\n\n")
		case "/text":
			ctx.SetContentType("text/plain")
		case "/no":
			ctx.SetStatusCode(sluice.StatusServiceUnavailable)
		}
	}}
	ln := tcpListener(t)
	ended := make(chan error, 1)
	go func() { ended <- serve(srv, ln) }()
	t.Cleanup(func() {
		srv.Shutdown()
		<-ended
	})
	return ln.Addr().String(), requests, hub
}

func TestBenchStreams(t *testing.T) {
	certificate, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for scheme, serve := range map[string]func(*sluice.Server, net.Listener) error{
		"http":  (*sluice.Server).Serve,
		"https": func(s *sluice.Server, ln net.Listener) error { return s.ServeTLSEmbed(ln, certificate, key) },
	} {
		addr, _, _ := eventsServer(t, serve)
		stdout, stderr, status := runs(t, "--sse", "-k", "-c", "5", "-t", "2", "-n", "50", "-o", "-", scheme+"://"+addr+"/hub")
		r := reportOf(t, stdout)
		s := r.EventStreams
		if status != 0 || r.Protocol != "SSE" || r.Responses != 50 || r.Sent != 5 || r.ConnectionsMade != 5 || r.Status["200"] != 5 || r.BytesRead < 50*9 || r.BytesWritten == 0 ||
			s.Opened != 5 || s.OpenedAgain != 0 || s.Ended != 0 || s.Opening.Count != 5 || s.Interval.Count != 45 || r.Latency.Count != 0 || len(r.Errors.Examples) != 0 {
			t.Errorf("%s: exit status %d\n%s", scheme, status, stdout)
		}
		for _, pattern := range []string{
			`^GET https?://127\.0\.0\.1:\d+/hub\n  5 connections, 2 threads, server-sent events\n  Events     50 in \S+, [\d.,]+/s\n  Transfer   `,
			`\n  Streams    5 opened, 0 of them again; the server has ended 0\n  Opening    mean .*\n +p50 .*\n  Interval   mean .*\n +p50 .*\n  Status     2xx 5\n  Errors     none\n`,
		} {
			if !regexp.MustCompile(pattern).MatchString(stderr) {
				t.Errorf("there is no %s in\n%s", pattern, stderr)
			}
		}
	}
}

// TestBenchStreamsAgain: a stream that ends is opened again, with the last ID of what is complete.
func TestBenchStreamsAgain(t *testing.T) {
	addr, requests, _ := eventsServer(t, (*sluice.Server).Serve)
	runs(t, "--sse", "-c", "1", "-n", "3", "-o", "-", "http://"+addr+"/reset")
	for range 3 {
		if request := <-requests; strings.Contains(strings.ToLower(request), "last-event-id") {
			t.Errorf("the stream has taken its ID back: %s", request)
		}
	}
	stdout, stderr, status := runs(t, "--sse", "-c", "1", "-n", "3", "-H", "X-A: b", "-b", "hello", "-o", "-", "http://"+addr+"/short")
	r := reportOf(t, stdout)
	if s := r.EventStreams; status != 0 || r.Responses != 3 || s.Opened != 3 || s.OpenedAgain != 2 || s.Ended != 2 || r.Errors.Read != 0 {
		t.Errorf("exit status %d\n%s%s", status, stdout, stderr)
	}
	for i := range 3 {
		request := <-requests
		isRight := strings.HasPrefix(request, "POST /short HTTP/1.1\r\n") && strings.HasSuffix(request, "\r\n\r\nhello") &&
			strings.Contains(request, "Accept: text/event-stream\r\n") && strings.Contains(request, "X-A: b\r\n")
		if !isRight || strings.Contains(strings.ToLower(request), "last-event-id: six\r\n") != (i > 0) {
			t.Errorf("request %d: %s", i, request)
		}
	}
}

// TestBenchStreamsBroken: each thing that goes wrong has its place.
func TestBenchStreamsBroken(t *testing.T) {
	addr, _, _ := eventsServer(t, (*sluice.Server).Serve)
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	for answer, check := range map[string]func(r benchReport) bool{
		"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hi\n\ndata: x\n\n": func(r benchReport) bool { return r.EventStreams.Ended > 0 },
		head + "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n":        func(r benchReport) bool { return r.EventStreams.Ended > 0 },
		head + "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n9\r\ndata":        func(r benchReport) bool { return r.Errors.Read > 0 },
		head + "Transfer-Encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\nxyz\r\n":          func(r benchReport) bool { return r.Errors.Invalid > 0 },
	} {
		ln := tcpListener(t)
		go answerAll(ln, answer)
		stdout, stderr, status := runs(t, "--sse", "-c", "1", "-n", "2", "-o", "-", "http://"+ln.Addr().String())
		if r := reportOf(t, stdout); status != 0 || r.Responses != 2 || r.EventStreams.OpenedAgain != 1 || !check(r) {
			t.Errorf("%q: exit status %d\n%s%s", answer, status, stdout, stderr)
		}
		ln.Close()
	}
	silent := tcpListener(t)
	defer silent.Close()
	rude := tcpListener(t)
	defer rude.Close()
	go answerAll(rude, "SSH-2.0\r\n")
	hasty := tcpListener(t)
	defer hasty.Close()
	go answerAll(hasty, "HTTP/1.1 200")
	gone := tcpListener(t)
	gone.Close()
	for _, c := range []struct {
		url, says string
		check     func(r benchReport) bool
	}{
		{addr + "/text", "there was no stream: the response is no stream of events: Content-Type", func(r benchReport) bool { return r.Errors.Invalid > 0 && r.Status["200"] > 0 }},
		{addr + "/no", "status 503", func(r benchReport) bool { return r.Errors.Invalid > 0 && r.Status["503"] > 0 }},
		{silent.Addr().String(), "timeout", func(r benchReport) bool { return r.Errors.Timeout > 0 }},
		{rude.Addr().String(), "there was no stream", func(r benchReport) bool { return r.Errors.Invalid > 0 }},
		{hasty.Addr().String(), "there was no stream", func(r benchReport) bool { return r.Errors.Read > 0 }},
		{gone.Addr().String(), "cannot connect to ", func(r benchReport) bool { return r.Errors.Connect > 0 }},
	} {
		stdout, stderr, status := runs(t, "--sse", "-c", "2", "-d", "300ms", "--timeout", "100ms", "-o", "-", "http://"+c.url)
		if r := reportOf(t, stdout); status != 1 || !strings.Contains(stderr, c.says) || r.EventStreams.Opened != 0 || !c.check(r) {
			t.Errorf("%s: exit status %d\n%s%s", c.url, status, stdout, stderr)
		}
	}
}

// answerAll gives the same answer to each client, and closes.
func answerAll(ln net.Listener, answer string) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		in := bufio.NewReader(c)
		for line := ""; line != "\r\n" && err == nil; {
			line, err = in.ReadString('\n')
		}
		_, _ = c.Write([]byte(answer))
		_ = c.Close()
	}
}

// TestBenchStreamsInterrupt: Ctrl-C ends streams that wait for events. Without one event the
// run is a success, because there were streams.
func TestBenchStreamsInterrupt(t *testing.T) {
	addr, _, hub := eventsServer(t, (*sluice.Server).Serve)
	cmd := limited(t, binary, "bench", "--sse", "-d", "1h", "-c", "2", "--progress", "http://"+addr+"/hub")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	lines := bufio.NewScanner(stderr)
	for n := 0; n < 2; n = hub.Len("news") {
		if !lines.Scan() || !regexp.MustCompile(`^ +\d+s  [\d.,]+/s$`).MatchString(lines.Text()) {
			t.Fatalf("progress: %q", lines.Text())
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // to the end: Wait closes the pipe
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("exit: %v", err)
	}
	if out := stdout.String(); !strings.Contains(out, "server-sent events, interrupted\n") || !strings.Contains(out, "  Streams    2 opened, 0 of them again") {
		t.Error(fmt.Sprint("it says\n", out))
	}
}
