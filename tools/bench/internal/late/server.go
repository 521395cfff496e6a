package late

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

const (
	serverRole = "late-server"
	hogRole    = "late-hog"
)

// Roles are what process.Main needs for the command.
func Roles() map[string]process.Role {
	return map[string]process.Role{serverRole: process.ServiceRole(newServer), hogRole: hog}
}

// Paths of the server. Each has a number as its argument n.
const (
	sleepPath    = "/sleep"    // milliseconds
	computePath  = "/compute"  // peers.Spin
	downloadPath = "/download" // bytes
	uploadPath   = "/upload"   // bytes of the request
)

// handlerTime is the field that says how long the handler ran, in nanoseconds.
const handlerTime = "Handler-Time"

const (
	stateCommand  = "state"
	stacksCommand = "stacks"
)

// A serverConfig is what a server's process gets.
type serverConfig struct {
	Engine  string
	Streams bool // handlers read the bodies of requests as they come
}

// newServer makes the service of a server's process.
func newServer(text []byte) (service process.Service, err error) {
	var config serverConfig
	if err := json.Unmarshal(text, &config); err != nil {
		return service, err
	}
	s := &sluice.Server{Handler: newHandler(), StreamRequestBody: config.Streams, MaxRequestBodySize: 2 * largest}
	if s.Engine, err = sluice.ParseEngine(config.Engine); err != nil {
		return service, err
	}
	return process.Service{Serve: s.Serve, Answers: map[string]func(string) (any, error){
		stateCommand: func(string) (any, error) { return s.EngineStats(), nil },
		stacksCommand: func(string) (any, error) {
			buffer := make([]byte, 1<<20)
			return string(buffer[:runtime.Stack(buffer, true)]), nil
		},
	}}, nil
}

// largest is the largest body.
const largest = 4 << 20

func newHandler() sluice.RequestHandler {
	content := make([]byte, largest)
	return func(ctx *sluice.RequestCtx) { handle(ctx, content) }
}

func handle(ctx *sluice.RequestCtx, content []byte) {
	began := time.Now()
	n := ctx.QueryArgs().GetUintOrZero("n")
	switch string(ctx.Path()) {
	case sleepPath:
		time.Sleep(time.Duration(n) * time.Millisecond)
	case computePath:
		peers.Spin(n)
	case downloadPath:
		ctx.SetBody(content[:min(n, largest)])
	case uploadPath:
		if size, err := io.Copy(io.Discard, requestBody(ctx)); err != nil || size != int64(n) {
			ctx.SetStatusCode(sluice.StatusBadRequest)
		}
	}
	ctx.Response.Header.Set(handlerTime, strconv.FormatInt(int64(time.Since(began)), 10))
}

// requestBody returns the body of a request, as it comes or as a whole.
func requestBody(ctx *sluice.RequestCtx) io.Reader {
	if stream := ctx.RequestBodyStream(); stream != nil {
		return stream
	}
	return bytes.NewReader(ctx.PostBody())
}

// hog takes a CPU for half of the time, until its standard input ends.
func hog([]byte) error {
	go func() {
		for {
			for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
				peers.Spin(1000)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}
