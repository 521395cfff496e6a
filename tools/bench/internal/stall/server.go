package stall

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

const serveRole = "serve bodies"

// What is in the server's folder, and what it does with other targets.
const (
	fileName      = "file.bin"
	bodyFromFile  = "/" + fileName
	bodyInMemory  = "/memory" // bytes that all answers share
	uploadToDisk  = "/disk"
	uploadToSum   = "/sum"
	gaugesCommand = "gauges"
)

// serveConfig is what the server's process gets.
type serveConfig struct {
	Engine       string
	TLS          bool
	Root         string
	InMemory     int // bytes of the body in memory
	WriteTimeout time.Duration
}

// gauges are what the server's process says about itself, in bytes.
type gauges struct {
	Heap, Stack int64 // in use
	Goroutines  int
	Connections int // that the engine knows
}

func newService(text []byte) (s process.Service, err error) {
	var config serveConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return s, err
	}
	files := &sluice.FS{Root: config.Root, AcceptByteRange: true, GenerateETag: true}
	handler := &bodies{files: files.NewRequestHandler(), root: config.Root}
	if config.InMemory > 0 {
		handler.memory = content(config.InMemory)
	}
	server := &sluice.Server{
		Handler:           handler.handle,
		WriteTimeout:      config.WriteTimeout,
		StreamRequestBody: true,
		Logger:            log.New(io.Discard, "", 0),
	}
	if server.Engine, err = sluice.ParseEngine(config.Engine); err != nil {
		return s, err
	}
	serve := server.Serve
	if config.TLS {
		certificate, key, err := sluice.GenerateTestCertificate("127.0.0.1")
		if err != nil {
			return s, err
		}
		serve = func(ln net.Listener) error { return server.ServeTLSEmbed(ln, certificate, key) }
	}
	s.Serve = func(ln net.Listener) error {
		// Figures of another engine must not stand beside the name.
		if info := server.EngineInfo(ln); info.Engine != server.Engine {
			return fmt.Errorf("engine %v was asked for, and %v would serve", server.Engine, info)
		}
		return serve(ln)
	}
	s.Answers = map[string]func(string) (any, error){gaugesCommand: func(string) (any, error) { return gaugesOf(server), nil }}
	return s, nil
}

func gaugesOf(server *sluice.Server) gauges {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return gauges{
		Heap: int64(m.HeapInuse), Stack: int64(m.StackInuse),
		Goroutines: runtime.NumGoroutine(), Connections: server.EngineStats().Connections,
	}
}

// bodies answers requests.
type bodies struct {
	files  sluice.RequestHandler
	root   string
	memory []byte
}

func (b *bodies) handle(ctx *sluice.RequestCtx) {
	var sum uint32
	var err error
	switch string(ctx.Path()) {
	default:
		b.files(ctx)
		return
	case bodyInMemory:
		ctx.Response.SetBodyRaw(b.memory)
		return
	case uploadToSum:
		sum, _, err = checksum(ctx.RequestBodyStream())
	case uploadToDisk:
		sum, err = b.store(ctx.RequestBodyStream())
	}
	if err != nil {
		ctx.Error(err.Error(), sluice.StatusInternalServerError)
		return
	}
	fmt.Fprintln(ctx, sum)
}

// store writes a body to the disk. The file has no name, so that nothing is
// left of it in the end.
func (b *bodies) store(body io.Reader) (sum uint32, err error) {
	f, err := os.CreateTemp(b.root, "upload-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := os.Remove(f.Name()); err != nil {
		return 0, err
	}
	sum, _, err = checksum(io.TeeReader(body, f))
	return sum, err
}
