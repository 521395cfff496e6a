package proxies

import (
	"context"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/coder/websocket"

	"github.com/sluicehttp/sluice/tools/bench/internal/nginx"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

const (
	proxyRole   = "proxy"
	streamsRole = "proxy streams"
)

// Roles are what the processes do that the subcommand starts.
func Roles() map[string]process.Role {
	return map[string]process.Role{proxyRole: process.ServiceRole(newProxy), streamsRole: process.ServiceRole(newStreams)}
}

// StartUpstream starts what proxies forward small requests to, with its files in a folder.
func StartUpstream(ctx context.Context, folder string) (addr string, stop func() error, err error) {
	return startUpstream(ctx, proxyCase{}, folder)
}

// startUpstream starts what the proxies of a case forward to, on the client's CPU. It is nginx,
// except for uploads: nginx answers a constant before it has the body.
func startUpstream(ctx context.Context, c proxyCase, folder string) (addr string, stop func() error, err error) {
	if c.bodySize > 0 {
		s, err := servers.Start(ctx, servers.Options{
			Options: process.Options{CPU: clientCPU, Procs: 1}, Kind: peers.FastHTTP, Peer: peers.Options{BodySize: c.bodySize},
		})
		if err != nil {
			return "", nil, err
		}
		return s.Addr, s.Stop, nil
	}
	folder = filepath.Join(folder, "upstream")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", nil, err
	}
	o := nginx.Options{CPU: clientCPU, Text: peers.Body}
	if c.answer == peers.AnswerLarge {
		o.Text = "" // a file
		if err := os.WriteFile(filepath.Join(folder, "articles"), c.body(), 0o600); err != nil {
			return "", nil, err
		}
	}
	program, addr, err := nginx.Start(ctx, folder, o)
	if err != nil {
		return "", nil, err
	}
	return addr, program.Stop, nil
}

// Paths of the upstream of idle connections.
const (
	webSocketPath = "/ws"
	eventsPath    = "/events"
	event         = "data: 1\n\n"
)

// newStreams is the upstream of idle connections: it echoes WebSocket's messages, and sends an
// event and then nothing.
func newStreams([]byte) (process.Service, error) {
	mux := http.NewServeMux()
	mux.HandleFunc(webSocketPath, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, message, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	})
	mux.HandleFunc(eventsPath, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-cache")
		if _, err := io.WriteString(w, event); err == nil && http.NewResponseController(w).Flush() == nil {
			<-r.Context().Done()
		}
	})
	server := &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	return process.Service{Serve: server.Serve}, nil
}
