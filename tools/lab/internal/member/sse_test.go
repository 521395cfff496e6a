//go:build linux

package member

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

func TestParseChunk(t *testing.T) {
	for in, want := range map[string]struct {
		text string
		size int // 0: not complete; -1: an error
	}{
		"":                       {"", 0},
		"2":                      {"", 0},
		"12\r":                   {"", 0},
		"9\r\nid: a\n":           {"", 0},
		"7\r\nid: a\n\n\r":       {"", 0},
		"7\r\nid: a\n\n\r\n12\r": {"id: a\n\n", 12},
		"8\r\nid: a\n\n\nx\r\n":  {"", -1},
		"7\r\nid: a\n\nxx":       {"", -1},
		"0\r\n\r\n":              {"", -1},
		"\r\n":                   {"", -1},
		"x\r\n":                  {"", -1},
		"-1\r\n":                 {"", -1},
		"1000\r\n":               {"", -1},
		"7;a=b\r\nid: a\n\n\r\n": {"", -1},
		"77777":                  {"", -1},
	} {
		text, size, err := parseChunk([]byte(in))
		switch {
		case want.size < 0 && err == nil:
			t.Errorf("%q is taken: %q, %d", in, text, size)
		case want.size >= 0 && (err != nil || size != want.size || string(text) != want.text):
			t.Errorf("%q: %q, %d, %v, want %q, %d", in, text, size, err, want.text, want.size)
		}
	}
}

// TestIsAnswer: what one chunk has means nothing for the next one.
func TestIsAnswer(t *testing.T) {
	r := newEventReader()
	for _, c := range []struct {
		text    string
		is      bool
		isError bool
	}{
		{"id: a\n\n", false, false},
		{"id: a\ndata: pingpong\n\n", true, false},
		{"id: a\ndata: pingpong\n", false, false},
		{"data: pingpong\n\n", true, false},
		{"data: pingpang\n\n", false, true},
		{"data: pingpong\n\ndata: pingpong\n\n", false, true},
		{":\n\n", false, false},
	} {
		if is, err := r.isAnswer([]byte(c.text)); is != c.is || (err != nil) != c.isError {
			t.Errorf("%q: %v, %v", c.text, is, err)
		}
	}
}

func TestPublishedSize(t *testing.T) {
	for in, want := range map[string]int{
		"": 0, "HTTP/1.1 204 No Content\r\n": 0, "HTTP/1.1 204 No Content\r\n\r\nHTTP": 27, "HTTP/1.1 500 No\r\n\r\n": -1,
	} {
		got, err := publishedSize([]byte(in))
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, %v, want %d", in, got, err, want)
		}
	}
}

// sseProcess is a process of a scenario with server-sent events.
func sseProcess(server scenario.ServerKind, client scenario.ClientKind, work scenario.WorkloadKind) *process {
	p := processOf(server, client)
	p.config.Scenario.Protocol, p.config.Scenario.Workload.Kind = scenario.SSE, work
	return p
}

func startSSE(t *testing.T, kind scenario.ServerKind, work scenario.WorkloadKind) (s *server, addr string) {
	t.Helper()
	return startServer(t, sseProcess(kind, scenario.EpollClient, work))
}

// TestSSEServerWithPeer has somebody else's client ask the server for a stream, and for
// events on another connection.
func TestSSEServerWithPeer(t *testing.T) {
	for _, kind := range []scenario.ServerKind{scenario.Epoll, scenario.Goroutine} {
		t.Run(string(kind), func(t *testing.T) {
			s, addr := startSSE(t, kind, scenario.Echo)
			client := &http.Client{Timeout: patient}
			defer client.CloseIdleConnections()
			stream, err := client.Get("http://" + addr + "/a")
			if err != nil || stream.StatusCode != http.StatusOK {
				t.Fatal(stream, err)
			}
			defer stream.Body.Close()
			for _, topic := range []string{"a", "b", "a"} {
				r, err := client.Post("http://"+addr+"/"+topic, "", nil)
				if err != nil || r.StatusCode != http.StatusNoContent {
					t.Fatal(r, err)
				}
				_ = r.Body.Close()
			}
			in := bufio.NewScanner(stream.Body)
			for n := 0; n < 2 && in.Scan(); {
				if in.Text() == "data: pingpong" {
					n++
				}
			}
			if in.Err() != nil {
				t.Error(in.Err())
			}
			stats := control.Stats{Asked: true}
			if s.count(&stats); stats.Requests != 3 || stats.Connections != 1 {
				t.Errorf("%+v", stats)
			}
		})
	}
}

// sseClientOf returns a client that dials one connection at a time. The first one is the
// publisher.
func sseClientOf(t *testing.T, kind scenario.ClientKind) aClient {
	c := clientOf(t, sseProcess(scenario.Epoll, kind, scenario.Echo))
	c.broken = func(err error) { c.note(err) }
	return c
}

// TestSSEClient has the client ask servers of all kinds.
func TestSSEClient(t *testing.T) {
	for _, kind := range []scenario.ClientKind{scenario.EpollClient, scenario.GoroutineClient} {
		for _, server := range []scenario.ServerKind{scenario.Epoll, scenario.Goroutine} {
			t.Run(fmt.Sprint(kind, " ", server), func(t *testing.T) {
				s, addr := startSSE(t, server, scenario.Echo)
				c := sseClientOf(t, kind)
				for range 4 {
					c.dialOne(t, addr)
				}
				eventually(t, "all streams have begun", func() bool { return c.opened.Load() == 3 })
				c.loops()
				eventually(t, "thirty answers", func() bool { return c.requests.Load() >= 30 })
				stats := control.Stats{Asked: true}
				if s.count(&stats); stats.Connections != 3 || len(c.upgrades) != 0 || c.failed.Load() != 0 || c.lost.Load() != 0 {
					t.Errorf("%+v, %d upgrades, %d failed, %d lost", stats, len(c.upgrades), c.failed.Load(), c.lost.Load())
				}
			})
		}
	}
}

// TestSSEDiscard: a server that discards publishes nothing.
func TestSSEDiscard(t *testing.T) {
	s, addr := startSSE(t, scenario.Epoll, scenario.Discard)
	c := sseClientOf(t, scenario.EpollClient)
	c.dialOne(t, addr)
	c.dialOne(t, addr)
	eventually(t, "the stream has begun", func() bool { return c.opened.Load() == 1 })
	c.loops()
	eventually(t, "the request is there", func() bool { return s.requests.Load() == 1 })
	if n := s.hub.Stats().Events; n != 0 || c.requests.Load() != 0 {
		t.Errorf("%d events", n)
	}
}

// TestSSEClientWithPeer has the client talk to somebody else's server.
func TestSSEClientWithPeer(t *testing.T) {
	var topics sync.Map
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := topics.LoadOrStore(r.URL.Path, make(chan int, 1))
		events := asked.(chan int)
		if r.Method == http.MethodPost {
			events <- 1
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for text := "id: a\n\n"; ; text = "id: a\ndata: pingpong\n\n" {
			_, _ = fmt.Fprint(w, text)
			w.(http.Flusher).Flush()
			select {
			case <-events:
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer peer.Close()
	c := sseClientOf(t, scenario.EpollClient)
	for range 3 {
		c.dialOne(t, peer.Listener.Addr().String())
	}
	eventually(t, "the streams have begun", func() bool { return c.opened.Load() == 2 })
	c.loops()
	eventually(t, "twenty answers", func() bool { return c.requests.Load() >= 20 })
	peer.CloseClientConnections()
	eventually(t, "the client knows", func() bool { return c.lost.Load() == 2 && c.firstError.Load() != nil })
	if err := c.peers[0].sender.TrySend(nil); err == nil {
		t.Error("an event is requested after the end of its stream")
	}
}

// TestSSEClientIsRefused: what is no stream is an error, and so is an event too many.
func TestSSEClientIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ answer, says string }{
		"status":     {"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", "does not answer with a stream"},
		"type":       {"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n", "does not answer with a stream"},
		"no chunks":  {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "does not answer with a stream"},
		"early data": {streamHead + "16\r\nid: a\ndata: pingpong\n\n\r\n", errEarly.Error()},
		"end":        {streamHead + "0\r\n\r\n", errStreamEnd.Error()},
		"unasked":    {streamHead + "7\r\nid: a\n\n\r\n16\r\nid: a\ndata: pingpong\n\n\r\n16\r\nid: a\ndata: pingpang\n\n\r\n", "pingpang"},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			client := sseClientOf(t, scenario.EpollClient)
			client.dialOne(t, ln.Addr().String())
			client.dialOne(t, ln.Addr().String())
			for range 2 {
				conn, err := ln.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patient))
				go func() { // the publisher asks for nothing
					if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
						_, _ = conn.Write([]byte(c.answer))
						_, _ = io.Copy(io.Discard, conn)
						_ = conn.Close()
					}
				}()
			}
			eventually(t, "the stream has ended", func() bool { return client.failed.Load()+client.lost.Load() == 1 })
			if text := client.firstError.Load(); text == nil || !strings.Contains(*text, c.says) || len(client.upgrades) != 0 {
				t.Errorf("%v", *text)
			}
		})
	}
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// FuzzParseChunk: what is taken is a chunk, wherever the input is cut.
func FuzzParseChunk(f *testing.F) {
	for _, in := range []string{"7\r\nid: a\n\n\r\n", "13\r\nid: a\ndata: hello\n\n\r\n", "0\r\n\r\n", "fff\r\n"} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		data, size, err := parseChunk(in)
		if err != nil || size == 0 {
			return
		}
		if size > len(in) || len(data) > size {
			t.Fatalf("%q: %d bytes of %d", in, size, len(in))
		}
		for end := range size {
			if _, n, err := parseChunk(in[:end]); n != 0 || err != nil {
				t.Fatalf("%q: %d, %v", in[:end], n, err)
			}
		}
	})
}
