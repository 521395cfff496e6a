package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluicehttp/sluice/tools/bench/internal/floor"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/bench/internal/nginx"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/bench/internal/prefork"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

// A contender is a server that is compared.
type contender struct {
	kind, addr string
	process    interface {
		TreeMemory() (process.TreeMemory, error)
		TreeUsage() (process.Usage, error)
		Stop() error
	}

	isOther bool            // its answer is not that of the case
	size    int             // of its response, with the head
	fields  string          // names of its response's header fields
	idlers  *load.Generator // holds idle connections; nil: none
}

// stop ends the server and its idle connections.
func (c *contender) stop() error {
	var err error
	if c.idlers != nil {
		err = c.idlers.Stop()
	}
	return errors.Join(err, c.process.Stop())
}

// startOptions say how servers are started.
type startOptions struct {
	cpu    int    // or process.AnyCPU
	procs  int    // processes, or CPUs of one
	folder string // for files
	others map[string]string
	before string
	floor  string // the program; "": it cannot be built
	noGCC  error  // why not
}

// start starts a server for a case. An error that isAbsence means that this
// kind has no such case.
func start(ctx context.Context, kind string, c *wireCase, o startOptions) (*contender, error) {
	switch kind {
	case nginxKind, nginxCache:
		return startNginx(ctx, kind, c, o)
	case floorKind:
		return startFloor(ctx, c, o)
	case preforkKind:
		return startPrefork(ctx, c, o)
	}
	if command, ok := o.others[kind]; ok {
		return startOther(ctx, kind, command, c, o)
	}
	if c.peer.Answer == peers.AnswerGzip && (kind == peers.NetHTTP || kind == peers.Hertz) {
		return nil, errNoGzip
	}
	if peers.OwnsListener(kind) {
		return startAddressed(ctx, kind, c, o)
	}
	options := c.peer
	if options.Answer == peers.AnswerFile {
		file, err := c.writeBody(o.folder)
		if err != nil {
			return nil, err
		}
		options.Root = filepath.Dir(file)
	}
	service := servers.Options{Options: process.Options{CPU: o.cpu, Procs: o.procs}, Kind: kind, Peer: options}
	switch kind {
	case multipath:
		service.Kind, service.Multipath = peers.Epoll, true
	case before:
		service.Kind, service.Program = peers.Epoll, o.before
	}
	server, err := servers.Start(ctx, service)
	if err != nil {
		return nil, err
	}
	return &contender{kind: kind, addr: server.Addr, process: server}, nil
}

// Kinds of servers that are programs.
const (
	nginxKind  = "nginx"
	nginxCache = "nginx-cache" // with open_file_cache
	floorKind  = "floor"
)

var (
	errNginx   = errors.New("nginx has no handlers")
	errNoGzip  = errors.New("has no compression of its own")
	errNoTLS   = errors.New("the floor has no TLS")
	errNoSleep = errors.New("the floor does not sleep")
	errPrefork = errors.New("prefork is measured in the cases with all CPUs only")
	errOther   = errors.New("the command of its --program lacks {body} or {case}")
	errAnswer  = errors.New("a program of --program has another answer")
)

// isAbsence reports whether an error means that a server has no such case here.
func isAbsence(err error) bool {
	for _, absence := range []error{errNoGzip, errNoTLS, errNoSleep, errPrefork, errOther, errAnswer, errNginx, peers.ErrCannot, nginx.ErrAbsent, process.ErrNoCompiler} {
		if errors.Is(err, absence) {
			return true
		}
	}
	return false
}

// startNginx starts nginx, with a worker per process and a folder of its own.
func startNginx(ctx context.Context, kind string, c *wireCase, o startOptions) (*contender, error) {
	if c.peer.Answer == peers.AnswerJSON || c.peer.Handler.Sleep > 0 {
		return nil, errNginx
	}
	options := nginx.Options{CPU: o.cpu, Workers: o.procs, TLS: c.peer.TLS, Cache: kind == nginxCache}
	switch c.peer.Answer {
	case peers.AnswerHello:
		options.Text = peers.Body
	case peers.AnswerGzip:
		options.GzipLevel = peers.GzipLevel
	}
	folder, err := os.MkdirTemp(o.folder, kind)
	if err != nil {
		return nil, err
	}
	target := c.target
	if target == "" {
		target = peers.Target
	}
	name, _, _ := strings.Cut(target, "?")
	if err := os.WriteFile(filepath.Join(folder, name), c.body(), 0o600); err != nil {
		return nil, err
	}
	program, addr, err := nginx.Start(ctx, folder, options)
	if err != nil {
		return nil, err
	}
	return &contender{kind: kind, addr: addr, process: program}, nil
}

// startFloor starts the C program with the baseline's response.
func startFloor(ctx context.Context, c *wireCase, o startOptions) (*contender, error) {
	switch {
	case c.peer.TLS:
		return nil, errNoTLS
	case c.peer.Handler.Sleep > 0:
		return nil, errNoSleep
	case o.floor == "":
		return nil, o.noGCC
	}
	response, err := os.CreateTemp(o.folder, "response")
	if err != nil {
		return nil, err
	}
	_, err = response.Write(floorResponse(c))
	if err := errors.Join(err, response.Close()); err != nil {
		return nil, err
	}
	addr, err := process.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	arguments, err := floor.Arguments(floor.Options{Addr: addr, Processes: o.procs, Close: c.load.Close, Response: response.Name()})
	if err != nil {
		return nil, err
	}
	program, err := process.StartServer(ctx, o.cpu, addr, o.floor, arguments...)
	if err != nil {
		return nil, err
	}
	return &contender{kind: floorKind, addr: addr, process: program}, nil
}

// startOther starts a program of --program. Where the others answer with a short text, it may
// answer with another one.
func startOther(ctx context.Context, kind, command string, c *wireCase, o startOptions) (*contender, error) {
	needsBody, needsCase := c.needs()
	if needsBody && !strings.Contains(command, "{body}") || needsCase && !strings.Contains(command, "{case}") {
		return nil, errOther
	}
	body, err := c.writeBody(o.folder)
	if err != nil {
		return nil, err
	}
	program, addr, err := process.StartCommand(ctx, o.cpu, command, "{body}", body, "{case}", c.word())
	if err != nil {
		return nil, err
	}
	return &contender{kind: kind, addr: addr, process: program, isOther: true}, nil
}

// startPrefork starts Sluice with a process on each CPU.
func startPrefork(ctx context.Context, c *wireCase, o startOptions) (*contender, error) {
	if !c.shared || c.peer != (peers.Options{}) {
		return nil, errPrefork
	}
	server, err := prefork.Start(ctx, prefork.Options{Kind: peers.Epoll, Prefork: true, Workers: o.procs})
	if err != nil {
		return nil, err
	}
	return &contender{kind: preforkKind, addr: server.Addr, process: server}, nil
}

// startAddressed starts a server of peers that takes no listener.
func startAddressed(ctx context.Context, kind string, c *wireCase, o startOptions) (*contender, error) {
	program, addr, err := servers.StartProgram(ctx, process.Options{CPU: o.cpu, Procs: o.procs}, kind, c.peer)
	if err != nil {
		return nil, err
	}
	return &contender{kind: kind, addr: addr, process: program}, nil
}

// holdIdle opens a case's idle connections to a server, and returns by how many
// bytes each made it grow.
func (c *wireCase) holdIdle(ctx context.Context, server *contender) (perConnection float64, err error) {
	before, err := server.process.TreeMemory()
	if err != nil {
		return 0, err
	}
	server.idlers, err = load.Hold(ctx, load.Load{Addr: server.addr, Conns: c.idle, Request: c.request()})
	if err != nil {
		return 0, fmt.Errorf("idle connections: %w", err)
	}
	after, err := server.process.TreeMemory()
	return float64(after.Anonymous-before.Anonymous) / float64(c.idle), err
}
