package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/shared"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/websocket"
)

const page = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Sluice</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem; color: #223 }
code { background: #eef; padding: .1rem .3rem; border-radius: .2rem }
td { padding: .2rem 1rem .2rem 0 }
</style></head>
<body>
<h1>Sluice</h1>
<p>This is <code>sluice serve</code>, a server of HTTP/1.1 and HTTP/2 written with package
<code>github.com/sluicehttp/sluice</code>.</p>
<table>
<tr><td><a href="/plaintext">/plaintext</a></td><td>Hello, World! as text</td></tr>
<tr><td><a href="/json">/json</a></td><td>the same as JSON</td></tr>
<tr><td>/echo</td><td>the body of your request: <code>curl -d hi http://HOST/echo</code></td></tr>
<tr><td><a href="/stream">/stream</a></td><td>ten lines, one at a time: <code>?n=LINES&amp;ms=PAUSE</code></td></tr>
<tr><td><a href="/sleep?ms=500">/sleep?ms=500</a></td><td>an answer that takes its time</td></tr>
<tr><td>/ws</td><td>a WebSocket that sends each message back: <code>sluice ws ws://HOST/ws</code></td></tr>
<tr><td><a href="/events">/events</a></td><td>server-sent events, one each second; a POST sends its body to all</td></tr>
</table>
</body></html>
`

// Bounds of what a client may ask of /stream and /sleep.
const (
	maxLines = 10_000
	maxPause = time.Minute
)

// endpoints answers the built-in paths.
type endpoints struct {
	echo   websocket.Endpoint
	events *sse.Hub
	clock  *shared.Lease // of the process that publishes ticks
	ticks  sync.Once     // with the first stream of events
}

const (
	eventTopic    = "events"
	clockLease    = "sluice.events.clock"
	eventInterval = time.Second
)

// serveEndpoints has a server answer with the built-in paths. Their connections move to
// another worker in a restart. p has the workers; nil: there is this process.
func serveEndpoints(server *sluice.Server, p *prefork.Prefork) (*endpoints, error) {
	e := &endpoints{echo: websocket.Endpoint{
		Name:      "echo",
		OnMessage: func(c *websocket.Conn, m websocket.Message) error { return c.TryWrite(m.Kind, m.Data) },
	}}
	options := sse.Options{Name: eventTopic, Retry: eventInterval}
	if p != nil {
		options.Backplane = p.Backplane(eventTopic)
	}
	var err error
	if e.events, err = sse.New(options); err != nil {
		return nil, err
	}
	if e.clock, err = shared.Default().Lease(clockLease, 0); err != nil {
		return nil, err
	}
	server.Handler = e.handle
	return e, errors.Join(e.echo.Register(server), e.events.Register(server))
}

// handle answers a request.
func (e *endpoints) handle(ctx *sluice.RequestCtx) {
	switch string(ctx.Path()) {
	case "/":
		ctx.SuccessString("text/html; charset=utf-8", page)
	case "/plaintext":
		ctx.SuccessString("text/plain", "Hello, World!")
	case "/json":
		ctx.SuccessString("application/json", `{"message":"Hello, World!"}`)
	case "/echo":
		if contentType := ctx.Request.Header.ContentType(); len(contentType) > 0 {
			ctx.SetContentTypeBytes(contentType)
		}
		ctx.SetBody(ctx.PostBody())
	case "/stream":
		stream(ctx)
	case "/sleep":
		sleep(ctx)
	case "/ws":
		_ = e.echo.Upgrade(ctx, nil) // it has answered
	case "/events":
		e.serveEvents(ctx)
	default:
		ctx.NotFound()
	}
}

// serveEvents answers GET with events, and publishes what others send.
func (e *endpoints) serveEvents(ctx *sluice.RequestCtx) {
	if ctx.IsPost() {
		if err := e.events.Publish(eventTopic, sse.Event{Name: "post", Data: ctx.PostBody()}); err != nil {
			ctx.Error(err.Error(), sluice.StatusBadRequest)
			return
		}
		ctx.SetStatusCode(sluice.StatusNoContent)
		return
	}
	e.ticks.Do(func() { go func() { _ = e.clock.Lead(context.Background(), e.tick) }() })
	if err := e.events.Serve(ctx, eventTopic); err != nil {
		ctx.Error(err.Error(), sluice.StatusServiceUnavailable)
	}
}

// tick publishes the time. One process does it for all.
func (e *endpoints) tick(ctx context.Context) error {
	ticker := time.NewTicker(eventInterval)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			_ = e.events.Publish(eventTopic, sse.Event{Name: "tick", Data: now.UTC().AppendFormat(nil, time.RFC3339)})
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stream writes lines with a pause between them, each of which is sent at
// once. It ends early when the client goes away.
func stream(ctx *sluice.RequestCtx) {
	lines := min(argOr(ctx, "n", 10), maxLines)
	pause := pauseOf(ctx, 200)
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		for i := range lines {
			if i > 0 {
				time.Sleep(pause)
			}
			fmt.Fprintf(w, "line %d of %d\n", i+1, lines)
			if w.Flush() != nil {
				return
			}
		}
	})
}

// sleep answers after a pause. It does not watch ctx.Done, so that a server
// that drains still gives the answer.
func sleep(ctx *sluice.RequestCtx) {
	pause := pauseOf(ctx, 100)
	time.Sleep(pause)
	fmt.Fprintf(ctx, "slept %v\n", pause)
}

// pauseOf returns the argument ms as a duration within bounds.
func pauseOf(ctx *sluice.RequestCtx, fallback int) time.Duration {
	return min(time.Duration(argOr(ctx, "ms", fallback))*time.Millisecond, maxPause)
}

// argOr returns a query argument that is a number, fallback if it is none.
func argOr(ctx *sluice.RequestCtx, key string, fallback int) int {
	n, err := ctx.QueryArgs().GetUint(key)
	if err != nil {
		return fallback
	}
	return n
}
