package h3

import (
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net"
	"runtime"

	quichttp3 "github.com/quic-go/quic-go/http3"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/http3"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

const (
	serverRole = "h3-server"
	clientRole = "h3-client"
)

// allocationsCommand asks a server for the number of its allocations.
const allocationsCommand = "allocations"

// Roles has what the processes of servers and of the client do.
func Roles() map[string]process.Role {
	return map[string]process.Role{serverRole: process.ServiceRole(newServer), clientRole: process.ServiceRole(newClient)}
}

// serverConfig is what a server's process gets.
type serverConfig struct {
	Kind string
	Peer peers.Options
}

// newServer is the service of a server's process: it serves UDP on the port of its listener.
func newServer(text []byte) (s process.Service, err error) {
	var config serverConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return s, err
	}
	serve, err := newPacketServer(config)
	if err != nil {
		return s, err
	}
	return process.Service{
		Serve: func(ln net.Listener) error {
			c, err := net.ListenPacket("udp4", ln.Addr().String())
			if err != nil {
				return err
			}
			return serve(c)
		},
		Answers: map[string]func(argument string) (any, error){
			allocationsCommand: func(string) (any, error) {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.Mallocs, nil
			},
		},
	}, nil
}

// newPacketServer returns what serves HTTP/3 on a socket.
func newPacketServer(config serverConfig) (serve func(c net.PacketConn) error, err error) {
	tls, err := peers.TLSConfig()
	if err != nil {
		return nil, err
	}
	if config.Kind == quicGo {
		handler, err := peers.NetHTTPHandler(config.Peer)
		server := &quichttp3.Server{Handler: handler, TLSConfig: tls, Logger: slog.New(slog.DiscardHandler)}
		return server.Serve, err
	}
	handler, err := peers.SluiceHandler(config.Peer)
	server := &http3.Server{
		Server:    &sluice.Server{Handler: handler, Logger: log.New(io.Discard, "", 0)},
		TLSConfig: tls,
	}
	return server.Serve, err
}
