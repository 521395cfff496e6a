// Command h1target is the server that the raw HTTP/1.1 cases of
// ../shared/h1cases are run against: it serves what CONTRACT.md there asks for
// with package sluice, and nothing else.
//
//	go -C tools/interop run ./h1target -addr 127.0.0.1:8080
//
// It prints "listening on ADDR" when it does, and ends on SIGINT or SIGTERM.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/sluicehttp/sluice"
)

// maxBody is what the contract bounds request bodies to.
const maxBody = 4 << 20

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to listen on")
	var engine sluice.Engine
	flag.TextVar(&engine, "engine", sluice.EngineAuto, "connection engine: auto, perconn or epoll")
	stream := flag.Bool("stream", false, "hand bodies to the handler as they arrive, so that /nobody really leaves its body unread")
	flag.Parse()
	if err := run(*addr, engine, *stream); err != nil {
		log.Fatal(err)
	}
}

func run(addr string, engine sluice.Engine, stream bool) error {
	www, err := makeWWW()
	if err != nil {
		return err
	}
	defer os.RemoveAll(www)
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := newServer(filepath.Join(www, "www"), stream)
	server.Engine = engine
	if info := server.EngineInfo(ln); engine != sluice.EngineAuto && info.Engine != engine {
		return fmt.Errorf("engine %v is asked for, but %v would serve", engine, info)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	fmt.Println("listening on", ln.Addr())
	select {
	case err := <-served:
		return errors.Join(errors.New("the server stopped by itself"), err)
	case <-stop:
		return server.Shutdown()
	}
}

// newServer returns a server of the contract, with the files of a folder.
func newServer(www string, stream bool) *sluice.Server {
	return &sluice.Server{Handler: contract(www).handle, MaxRequestBodySize: maxBody, StreamRequestBody: stream, Logger: quiet{}}
}

// quiet drops what the server logs about the nonsense that the cases send.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
