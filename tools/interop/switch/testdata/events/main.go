// Server-sent events: what is posted to /publish goes to everybody who listens
// on /events.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/reuseport"
)

type Hub struct {
	mu      sync.Mutex
	clients map[chan string]struct{}
}

func (h *Hub) add() chan string {
	ch := make(chan string, 16)
	h.mu.Lock()
	h.clients[ch] = struct{}{}
	h.mu.Unlock()
	return ch
}

func (h *Hub) remove(ch chan string) {
	h.mu.Lock()
	delete(h.clients, ch)
	h.mu.Unlock()
}

func (h *Hub) publish(msg string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch := range h.clients {
		select {
		case ch <- msg:
		default: // too slow
		}
	}
	return len(h.clients)
}

func (h *Hub) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.clients)
}

const keepAlive = 50 * time.Millisecond

func (h *Hub) events(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("text/event-stream")
	ctx.Response.Header.Set("Cache-Control", "no-cache")
	ctx.Response.Header.Set("Connection", "keep-alive")
	ctx.Response.Header.Set("Access-Control-Allow-Origin", "*")
	since := string(ctx.Request.Header.Peek("Last-Event-ID"))

	ctx.SetBodyStreamWriter(fasthttp.StreamWriter(func(w *bufio.Writer) {
		ch := h.add()
		defer h.remove(ch)
		fmt.Fprintf(w, "event: hello\ndata: since %q\n\n", since)
		if err := w.Flush(); err != nil {
			return
		}
		ticker := time.NewTicker(keepAlive)
		defer ticker.Stop()
		for i := 1; ; {
			select {
			case msg := <-ch:
				fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, msg)
				i++
			case <-ticker.C:
				fmt.Fprint(w, ": keep-alive\n\n")
			}
			if err := w.Flush(); err != nil {
				// The client has closed the connection.
				log.Printf("error while flushing: %v. Closing the stream", err)
				return
			}
		}
	}))
}

// countdown is a stream that ends.
func countdown(ctx *fasthttp.RequestCtx) {
	ctx.SetContentType("text/event-stream")
	ctx.Response.ImmediateHeaderFlush = true
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		for i := 3; i > 0; i-- {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.Flush()
		}
		fmt.Fprint(w, "data: lift-off\n\n")
	})
}

func main() {
	addr := flag.String("addr", ":8080", "TCP address to listen to")
	flag.Parse()
	hub := &Hub{clients: make(map[chan string]struct{})}
	handler := func(ctx *fasthttp.RequestCtx) {
		switch string(ctx.Path()) {
		case "/events":
			hub.events(ctx)
		case "/countdown":
			countdown(ctx)
		case "/publish":
			if !ctx.IsPost() {
				ctx.Error("POST only", fasthttp.StatusMethodNotAllowed)
				return
			}
			fmt.Fprintf(ctx, "%d", hub.publish(string(ctx.PostBody())))
		case "/clients":
			ctx.SetContentType("application/json")
			json.NewEncoder(ctx).Encode(map[string]int{"clients": hub.count()})
		default:
			ctx.Error("Unsupported path", fasthttp.StatusNotFound)
		}
	}
	ln, err := reuseport.Listen("tcp4", *addr)
	if err != nil {
		if _, ok := err.(*reuseport.ErrNoReusePort); !ok {
			log.Fatalf("error in reuseport.Listen: %s", err)
		}
		if ln, err = net.Listen("tcp4", *addr); err != nil {
			log.Fatalf("error in net.Listen: %s", err)
		}
	}
	fmt.Println("listening on", ln.Addr())
	if err := fasthttp.Serve(ln, handler); err != nil {
		log.Fatalf("error in Serve: %s", err)
	}
}
