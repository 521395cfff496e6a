package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice/internal/process/cgroup"
	"github.com/sluicehttp/sluice/internal/process/systemd"
	"github.com/sluicehttp/sluice/middleware"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// serveOptions are the flags of "sluice serve".
type serveOptions struct {
	addr         string
	engine       sluice.Engine
	ioURing      sluice.IOUring
	http2        bool
	http3        bool
	tls          tlsOptions
	proxy        proxyOptions
	readTimeout  time.Duration
	writeTimeout time.Duration
	idleTimeout  time.Duration
	maxBody      int
	drain        time.Duration
	drainWait    time.Duration
	upgrade      bool
	privileges   privileges
	accessLog    accessLogOptions
	requestID    bool
	files        fileOptions
	gateway      gatewayOptions // of "sluice proxy"
	workers      workerCount
	admin        string
	profiles     bool
}

const serveHelp = `Serve answers with the files below DIR. What a folder has of --index answers for
it, else a page that lists it. Files have ETags and ranges, and go out as br,
zstd or gzip to clients that take these.

Without DIR these paths are answered:

  /            a page that says what this is
  /plaintext   "Hello, World!"
  /json        {"message":"Hello, World!"}
  /echo        the request's body
  /stream      ten lines, one every 200 ms (?n=LINES&ms=PAUSE)
  /sleep       after a pause (?ms=MILLISECONDS)
  /ws          a WebSocket that sends each message back
  /events      server-sent events, one each second; POST sends its body to all

Ctrl-C (or SIGTERM) stops accepting, lets running requests finish and exits; a
second one cuts them off. SIGHUP reads --tls-cert and --tls-key again, which also
happens when they change, and reopens the file of --access-log; without these
flags it ends the server like SIGTERM.

With --prefork a master process serves with several others, and replaces those
that die. SIGHUP replaces them one by one, without a failed connection; that
reads --tls-cert and --tls-key again. SIGUSR2 also opens the
program's file again, for a new binary. If the new ones fail within ten seconds,
all are replaced by what ran before. SIGUSR1 reopens the file of --access-log.
"sluice ctl" does the same over --admin, and waits for the end.
SIGTTIN and SIGTTOU start one more and end one, SIGWINCH ends them until SIGHUP,
SIGQUIT ends everything with a dump of the stacks.

Durations are in seconds, or have a unit: 5, 0.5, 500ms, 1m30s.`

const serveExamples = `  sluice serve .                              this folder, on http://127.0.0.1:8080
  sluice serve dist --spa --max-age 24h       a single-page application
  sluice serve . --addr :8080 --access-log -  for the network, requests on stdout
  sluice serve . --addr :443 --acme a.example with a certificate of Let's Encrypt`

func newServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:     "serve [DIR]",
		Short:   "Serve a folder, or the built-in endpoints, over HTTP",
		Long:    serveHelp,
		Example: serveExamples,
		Args:    oneFolder,

		ValidArgsFunction: folders,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd.Flags(), args); err != nil {
				return cli.Misuse(err)
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().SortFlags = false
	o.files.addFlags(cmd.Flags())
	o.addFlags(cmd, "addr")
	return cmd
}

// run serves, with worker processes or without.
func (o *serveOptions) run(ctx context.Context) error {
	if o.workers > 0 {
		return servePrefork(*o)
	}
	return serve(ctx, *o)
}

// addFlags adds the flags that the commands that serve have in common. addr is the name of
// that for the address.
func (o *serveOptions) addFlags(cmd *cobra.Command, addr string) {
	flags := cmd.Flags()
	flags.StringVar(&o.addr, addr, "127.0.0.1:8080", "address to listen on, `HOST:PORT`; :8080 is all addresses of this machine; fd:NAME is a socket of systemd")
	o.accessLog.addFlags(flags)
	flags.BoolVar(&o.requestID, "request-id", false, "give each response an X-Request-Id: the request's, if it is valid, or a new one; json and text logs have it")
	o.tls.addFlags(flags)
	o.proxy.addFlags(flags)
	flags.TextVar(&o.engine, "engine", sluice.EngineAuto, "how connections are served: perconn (a goroutine for each), epoll (Linux), or auto")
	flags.TextVar(&o.ioURing, "io-uring", sluice.IOUringAuto, "send responses by io_uring (Linux): on, off, or auto, which is on with GOMAXPROCS=1, as in workers of --prefork")
	flags.BoolVar(&o.http2, "http2", true, "speak HTTP/2, too: over TLS, and with clients that begin with it (curl --http2-prior-knowledge); --http2=false: HTTP/1.1 only")
	flags.BoolVar(&o.http3, "http3", false, "with TLS: serve HTTP/3, too, on the same port of UDP, and tell clients of it (Alt-Svc)")
	flags.Var(&o.workers, "prefork", "serve with `N` worker processes; auto, or no number: one for each CPU")
	flags.Lookup("prefork").NoOptDefVal = automatic
	flags.StringVar(&o.admin, "admin", "", "answer with /status, /metrics, /healthz, /readyz and /startupz on `ADDR`, HOST:PORT or unix:PATH; with --prefork the master does, and carries out what sluice ctl asks for")
	flags.BoolVar(&o.profiles, "profiles", false, "answer on --admin with profiles of each process, at /workers/SLOT/pprof/NAME, for go tool pprof")
	flags.BoolVar(&o.upgrade, "upgrade", false, "with --prefork: the first process only holds the workers, a child of it manages them: an upgrade replaces that, too, and its death loses nothing (Linux)")
	o.privileges.addFlags(flags)
	flags.Var(cli.SecondsOf(&o.readTimeout, 30*time.Second), "read-timeout", "bound for receiving a request")
	flags.Var(cli.SecondsOf(&o.writeTimeout, 30*time.Second), "write-timeout", "bound for a write that the client does not take")
	flags.Var(cli.SecondsOf(&o.idleTimeout, 2*time.Minute), "idle-timeout", "bound for an idle connection")
	flags.IntVar(&o.maxBody, "max-body", sluice.DefaultMaxRequestBodySize, "bound of a request body, in bytes")
	flags.Var(cli.SecondsOf(&o.drain, 10*time.Second), "drain", "how long running requests may go on after Ctrl-C")
	flags.Var(cli.SecondsOf(&o.drainWait, 0), "drain-wait", "how long it goes on accepting after SIGTERM, before --drain; /readyz says 503 meanwhile")
	cli.Values(cmd, "access-log-format", formatCombined, formatJSON, formatText)
	cli.Values(cmd, "engine", sluice.EngineAuto.String(), sluice.EngineEpoll.String(), sluice.EnginePerConn.String())
	cli.Values(cmd, "io-uring", sluice.IOUringAuto.String(), sluice.IOUringOn.String(), sluice.IOUringOff.String())
	cli.Values(cmd, "prefork", automatic)
	cli.Values(cmd, "proxy-protocol", sluice.ProxyProtocolOff.String(), sluice.ProxyProtocolAccept.String(), sluice.ProxyProtocolRequire.String())
}

// oneFolder checks the arguments. A word after --prefork that is not a number is DIR.
func oneFolder(cmd *cobra.Command, args []string) error {
	err := cli.AtMostOneArgument("DIR")(cmd, args)
	if err != nil && cmd.Flags().Changed("prefork") {
		return fmt.Errorf("%w; --prefork takes a number of workers, or %s", err, automatic)
	}
	return err
}

// flagSet is what the checks of flags need of pflag.FlagSet.
type flagSet interface{ Changed(name string) bool }

// complete checks the flags against each other and fills in what follows from
// them.
func (o *serveOptions) complete(flags flagSet, args []string) error {
	if len(args) > 0 {
		o.files.dir = args[0]
	}
	if err := o.files.complete(flags, len(args) > 0); err != nil {
		if o.workers > 0 && errors.Is(err, errNoFolder) {
			err = fmt.Errorf("%w (--prefork takes a number of workers, or %s)", err, automatic)
		}
		return err
	}
	for _, key := range o.tls.keyFiles {
		if len(args) > 0 && isBelow(key, o.files.dir) {
			return fmt.Errorf("--tls-key %s is below %s: the private key would be served", key, o.files.dir)
		}
	}
	if err := checkAddr(o.addrFlag(), o.addr); err != nil {
		return err
	}
	if o.admin != "" {
		if err := checkAdmin(o.admin); err != nil {
			return err
		}
	}
	if o.profiles && o.admin == "" {
		return errors.New("--profiles is about --admin")
	}
	if o.maxBody < 1 { // the server would take its default
		return errors.New("--max-body takes a number from 1 on")
	}
	if err := o.privileges.check(o.workers); err != nil {
		return err
	}
	if o.upgrade && o.workers == 0 {
		return errors.New("--upgrade is for workers: it needs --prefork")
	}
	if err := o.accessLog.complete(flags); err != nil {
		return err
	}
	o.gateway.maxBody = int64(o.maxBody)
	if err := o.gateway.complete(flags); err != nil {
		return err
	}
	if err := o.proxy.complete(); err != nil {
		return err
	}
	if err := o.tls.check(); err != nil {
		return err
	}
	if err := o.checkHTTP3(); err != nil {
		return err
	}
	if cache := o.tls.acme.cache; cache != "" && len(args) > 0 && isBelow(cache, o.files.dir) {
		return fmt.Errorf("--acme-cache %s is below %s: the private keys would be served", cache, o.files.dir)
	}
	return nil
}

// serve runs a server until it fails or a signal ends it. Whatever can be wrong
// is found before anything listens.
func serve(ctx context.Context, o serveOptions) error {
	logger := log.New(os.Stderr, "sluice: ", log.LstdFlags)
	// Caught before there is anything to clean up. A log that nobody reads any
	// more (serve | head) is no reason to die: writing to it fails.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	signal.Ignore(syscall.SIGPIPE)

	certificates, err := o.tls.load(hostOf(o.addr))
	if err != nil {
		return err
	}
	access, err := openAccessLog(o.accessLog.name, logger)
	if err != nil {
		return err
	}
	defer access.Close()
	server := o.newServer()
	server.Logger = logger
	var built *endpoints
	var routes *gatewayHandler
	if o.gateway.isOn {
		routes = &gatewayHandler{}
		if err := routes.load(&o.gateway, logger); err != nil {
			return err
		}
		defer routes.close()
		server.Handler = routes.serve
	} else if o.files.dir != "" {
		site, err := newSite(o.files)
		if err != nil {
			return err
		}
		defer site.close(logger)
		server.Handler = site.serve
		o.warn(logger)
	} else if built, err = serveEndpoints(server, nil); err != nil {
		return err
	}
	o.observe(server, access)
	run := &running{server: server, logger: logger, access: access, certificates: certificates, routes: routes, options: &o, signals: signals, listenUDP: listenUDP}
	if o.tls.acme.isOn() {
		if run.orders, err = newOrderer(o.tls.acme, logger); err != nil {
			return err
		}
	}
	o.prepareHTTP3(logger)
	cgroup.LimitMemory(1)
	if run.systemd, err = systemd.Take(); err != nil {
		return err
	}
	if err := run.openAdmin(&o, built); err != nil {
		return o.explainListen(err)
	}
	if run.closeAdmin != nil {
		defer run.closeAdmin()
	}
	return run.serve(ctx, o)
}

// newServer returns a server with the flags' settings and without a handler.
func (o *serveOptions) newServer() *sluice.Server {
	s := &sluice.Server{
		Engine:             o.engine,
		IOUring:            o.ioURing,
		HTTP2:              sluice.HTTP2Config{Disable: !o.http2},
		CompactTLS:         o.tls.isCompact,
		ReadTimeout:        o.readTimeout,
		WriteTimeout:       o.writeTimeout,
		IdleTimeout:        o.idleTimeout,
		MaxRequestBodySize: o.maxBody,
	}
	o.proxy.set(s)
	if o.gateway.isOn {
		s.StreamRequestBody = true
		s.NoDefaultServerHeader = true // the upstreams' are forwarded
	}
	return s
}

// observe has the server's requests logged, and gives them ids. access is nil without a log.
func (o *serveOptions) observe(server *sluice.Server, access *accessLog) {
	access.attach(server, o.accessLog)
	if o.requestID {
		server.Handler = middleware.RequestID(server.Handler)
	}
	if o.tls.hsts > 0 {
		server.Handler = withHSTS(server.Handler, o.tls.hsts)
	}
}

// warn tells what is allowed and hardly meant.
func (o *serveOptions) warn(logger *log.Logger) {
	if o.files.dir == "" {
		return
	}
	if name := o.accessLog.name; name != "" && name != stdoutName && isBelow(name, o.files.dir) {
		logger.Printf("warning: the access log %s is below %s, and served", name, o.files.dir)
	}
	if o.files.spa && !o.files.hasIndex() {
		logger.Printf("warning: %s has no %s yet, which --spa answers with", o.files.dir, o.files.indexNames[0])
	}
}

// running is a server and what signals do to it.
type running struct {
	server       *sluice.Server
	logger       *log.Logger
	access       *accessLog      // nil if there is none
	certificates *certificates   // nil without TLS
	orders       *orderer        // nil without --acme, and in workers
	routes       *gatewayHandler // of "sluice proxy"; nil: the command is another one, or a master's
	upstreams    fleetUpstreams  // of "sluice proxy", in a master
	options      *serveOptions
	signals      chan os.Signal
	listenUDP    func(net.Addr) (net.PacketConn, error) // for --http3
	systemd      *systemd.Service
	isActivated  bool            // it listens on a socket of systemd
	served       <-chan error    // what Serve returned
	single       *prefork.Single // nil without --admin, and with workers
	adminAddr    net.Addr        // nil without single
	closeAdmin   func()          // nil without single
}

// serve listens and serves until that fails or a signal comes.
func (r *running) serve(ctx context.Context, o serveOptions) error {
	ln, packets, err := r.listenBoth(ctx, o.addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	scheme := "http"
	if r.certificates != nil {
		scheme = "https"
		r.certificates.giveTo(r.server)
		r.served = r.serveTLS(ln, packets)
	} else {
		served := make(chan error, 1)
		go func() { served <- r.server.Serve(ln) }()
		r.served = served
	}
	r.announce(scheme, ln, o)
	alive, end := context.WithCancel(ctx)
	defer end()
	go r.certificates.watch(alive, watchPeriod, r.logger)
	stopRedirect, err := o.startRedirect(ctx, ln.Addr().String(), r.orders, r.logger)
	if err != nil {
		return err
	}
	defer stopRedirect()
	r.isReady(alive, ln, "serves "+ln.Addr().String())
	r.orders.run(alive)
	for {
		select {
		case err := <-r.served:
			return err
		case <-ctx.Done():
			r.notify(systemd.Stopping(o.drain + endSlack)...)
			return r.drain(ln, o.drain)
		case s := <-r.signals:
			if s == syscall.SIGHUP && r.reloads() {
				r.reload()
				continue
			}
			r.notify(systemd.Stopping(o.drainWait + o.drain + endSlack)...)
			r.keepAccepting(o.drainWait)
			return r.drain(ln, o.drain)
		}
	}
}

// announce says what is served and where.
func (r *running) announce(scheme string, ln net.Listener, o serveOptions) {
	url, others := servedURLs(scheme, ln.Addr())
	r.logger.Printf("pid %d serves %s, engine %v", os.Getpid(), url, r.server.EngineInfo(ln))
	for _, other := range others {
		r.logger.Printf("from other machines: %s", other)
	}
	o.announceContent(r.logger)
	r.announceAdmin(r.adminAddr)
}

// announceContent says what is served.
func (o *serveOptions) announceContent(logger *log.Logger) {
	if o.http3 {
		logger.Print("HTTP/3 is served on the same port of UDP")
	}
	switch {
	case o.files.dir != "":
		logger.Printf("files: %s", o.files.dir)
	case o.gateway.config != "":
		logger.Printf("routes: %s", o.gateway.config)
	case o.gateway.isOn:
		logger.Printf("requests go to %s", strings.Join(o.gateway.to, ", "))
	}
}

// addrFlag returns the flag for the address.
func (o *serveOptions) addrFlag() string {
	if o.gateway.isOn {
		return "--listen"
	}
	return "--addr"
}

// reloads reports whether there is anything to do at SIGHUP.
func (r *running) reloads() bool {
	return r.certificates.reloads() || r.access.reopens() || r.routes != nil && r.options.gateway.config != ""
}

// reload reads again what SIGHUP says has changed. What cannot be read stays as
// it was.
func (r *running) reload() {
	r.notify(systemd.Reloading()...)
	defer r.notify("READY=1")
	if r.certificates.reloads() {
		r.certificates.reloadLogged(r.logger, "")
	}
	if r.routes != nil {
		if err := r.routes.load(&r.options.gateway, r.logger); err != nil {
			r.logger.Printf("the routes stay as they were: %v", err)
		} else {
			r.logger.Print("routes read again")
		}
	}
	if r.access.reopens() {
		if err := r.access.reopen(); err != nil {
			r.logger.Printf("the access log stays as it was: %v", err)
		} else {
			r.logger.Print("access log reopened")
		}
	}
}

// keepAccepting waits before the end, so that a load balancer can send new connections
// elsewhere, until another signal ends the wait.
func (r *running) keepAccepting(wait time.Duration) {
	if wait <= 0 {
		return
	}
	r.logger.Printf("stopping in %v", wait)
	if r.single != nil {
		r.single.Stopping()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case s := <-r.signals:
			if s != syscall.SIGHUP || !r.reloads() {
				return
			}
		}
	}
}

// errCutOff says that the server ended in the middle of requests.
var errCutOff = errors.New("not every request could finish")

// drain ends the server and waits for its requests, until the time-out or
// another signal.
func (r *running) drain(ln net.Listener, timeout time.Duration) error {
	r.logger.Printf("stopping: %d open connections have %v to finish", r.server.GetOpenConnectionsCount(), timeout)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	go r.cutOff(ctx, cancel)
	err := r.server.ShutdownWithContext(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		r.logger.Printf("stopped: requests were cut off after %v", timeout)
		return errCutOff
	case errors.Is(err, context.Canceled):
		r.logger.Print("stopped: requests were cut off by a second signal")
		return errCutOff
	case err != nil:
		return err
	}
	ln.Close() // a signal may have come before Serve had the listener
	if err := <-r.served; err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	r.logger.Print("stopped")
	return nil
}

// cutOff calls cancel at the next signal that ends the server.
func (r *running) cutOff(ctx context.Context, cancel func()) {
	for {
		select {
		case s := <-r.signals:
			if s == syscall.SIGHUP && r.reloads() {
				continue
			}
			signal.Stop(r.signals) // a third one ends the process the ordinary way
			cancel()
			return
		case <-ctx.Done():
			return
		}
	}
}
