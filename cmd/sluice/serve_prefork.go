package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/contrib/metrics"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/prefork/dashboard"
	"github.com/sluicehttp/sluice/shared"
)

const (
	automatic = "auto"
	// selfSignedName is where the workers share a certificate that one of them has
	// made: one for each would have a browser ask again and again.
	selfSignedName = "sluice.self-signed"
	// selfSignedRoom is for the certificate and its key as PEM.
	selfSignedRoom = 16 << 10
	// selfSignedPatience bounds the wait for the worker that makes it.
	selfSignedPatience = 20 * time.Second
	// quitStatus is the exit status after SIGQUIT, as Go's runtime has it.
	quitStatus = 131
)

// workerCount is the value of --prefork: the number of worker processes, 0 for
// none. It implements pflag.Value.
type workerCount int

// maxWorkers is less than the segment has room for that processes share.
const maxWorkers = 1000

func (n *workerCount) String() string { return strconv.Itoa(int(*n)) }

func (n *workerCount) Type() string { return "workers" }

func (n *workerCount) Set(text string) error {
	if text == automatic {
		*n = workerCount(runtime.GOMAXPROCS(0))
		return nil
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 || count > maxWorkers {
		return fmt.Errorf("it must be a number of processes, at least 1 and at most %d, or %s for one for each CPU; without the flag, this process serves", maxWorkers, automatic)
	}
	*n = workerCount(count)
	return nil
}

// withWorkers returns args with the value of --prefork, which may be left out,
// joined to it: "--prefork 4" would otherwise be the flag alone and a folder 4.
func withWorkers(args []string) []string {
	const flag = "--prefork"
	joined := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			return append(joined, args[i:]...)
		}
		if args[i] == flag && i+1 < len(args) && isWorkerCount(args[i+1]) {
			joined = append(joined, flag+"="+args[i+1])
			i++
			continue
		}
		joined = append(joined, args[i])
	}
	return joined
}

// isWorkerCount reports whether text is meant as a number of workers, a wrong one
// perhaps.
func isWorkerCount(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil || text == automatic
}

// servePrefork is serve with worker processes. It runs in all of them, and what
// it does in the master is to check that the workers will be able to do theirs.
func servePrefork(o serveOptions) error {
	signal.Ignore(syscall.SIGPIPE)
	logger := log.New(os.Stderr, "sluice: ", log.LstdFlags)
	run := &running{server: o.newServer(), logger: log.New(os.Stderr, "sluice: ", log.LstdFlags)}
	run.server.Logger = run.logger
	p := prefork.New(run.server)
	p.Logger = logger
	p.Network = "tcp"
	p.Workers = int(o.workers)
	p.RecoverThreshold = max(5, p.Workers)
	p.OverRecovery = prefork.OverRecoveryDegrade // those that work had better go on
	o.privileges.apply(p)
	p.Upgrade = o.upgrade
	p.ShutdownGracePeriod, p.ShutdownDelay = o.drain, o.drainWait
	figures := metrics.Handler(p, certificateAges{o.tls.inMaster}, upstreamCollector{run.upstreams.figures})
	var tables []dashboard.Table
	if o.gateway.isOn {
		tables = append(tables, upstreamTable(run.upstreams.figures))
	}
	p.Admin, p.AdminHandler = o.admin, adminHandler(p, figures, prefork.ControlHandler(p), tables...)
	p.Profiles = o.profilesHandler()
	if o.files.dir == "" && !o.gateway.isOn {
		if _, err := serveEndpoints(run.server, p); err != nil {
			return err
		}
	}
	var err error
	if prefork.IsChild() {
		err = run.work(p, o)
	} else {
		err = run.lead(p, o)
	}
	if errors.Is(err, prefork.ErrQuit) {
		os.Exit(quitStatus)
	}
	return err
}

// lead is the master's part.
func (r *running) lead(p *prefork.Prefork, o serveOptions) error {
	// Whatever can be wrong is found before anything listens, by the process that was started first. A
	// manager that follows another one must manage, whatever the files are by then.
	if !prefork.IsManager() {
		if _, err := o.tls.loadFiles(); err != nil {
			return err
		}
		if err := o.checkInMaster(); err != nil {
			return err
		}
		o.warn(r.logger)
		o.prepareHTTP3(r.logger)
	}
	p.LoadConfig = o.tls.readPEM
	if o.gateway.isOn {
		if err := r.goOn(r.upstreams.load(&o.gateway)); err != nil {
			return err
		}
		p.OnReload = func() error { return r.upstreams.load(&o.gateway) } // a file that is wrong replaces no worker
	}
	if o.tls.acme.isOn() {
		var err error
		r.orders, err = newOrderer(o.tls.acme, r.logger)
		if err = r.goOn(err); err != nil {
			return err
		}
	}
	alive, end := context.WithCancel(context.Background())
	defer end()
	// A full log pipe must stop neither the hooks nor the end: the
	// master's own log says that it has stopped.
	p.OnFleetReady = func() {
		go r.announceFleet(p, o)
		if !prefork.IsManager() {
			r.orders.run(alive)
		}
	}
	if prefork.IsManager() { // its holder redirects, and answers an authority from the cache
		if r.orders != nil && o.tls.redirect != "" {
			r.orders.manager.HTTPHandler(nil) // so that it asks for HTTP-01, too
		}
		go r.orderAsManager(alive, p)
		return o.explainListen(o.listenAndServe(p))
	}
	stopRedirect, err := o.startRedirect(alive, o.addr, r.orders, r.logger)
	if err != nil {
		return err
	}
	defer stopRedirect()
	hasCut := watchEnd(p)
	if err := o.explainListen(o.listenAndServe(p)); err != nil {
		return err
	}
	if hasCut() {
		return errCutOff
	}
	return nil
}

// goOn returns err, unless this is a manager, which logs it.
func (r *running) goOn(err error) error {
	if err != nil && prefork.IsManager() {
		r.logger.Printf("the master goes on without: %v", err)
		return nil
	}
	return err
}

// watchEnd returns a function that reports whether requests were cut off after a signal to
// end. Status counts also those of earlier restarts.
func watchEnd(p *prefork.Prefork) (hasCut func() bool) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var before atomic.Uint64
	go func() {
		if _, came := <-signals; came {
			before.Store(p.Status().Total.Cut)
		}
	}()
	return func() bool {
		signal.Stop(signals)
		close(signals)
		return p.Status().Total.Cut > before.Load()
	}
}

// orderAsManager orders certificates once this process manages workers that serve. OnFleetReady is
// called in the first manager only.
func (r *running) orderAsManager(ctx context.Context, p *prefork.Prefork) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for !p.Status().Started {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
	r.orders.run(ctx)
}

// checkInMaster tries what workers will do.
func (o *serveOptions) checkInMaster() error {
	if o.privileges.user != "" || o.privileges.group != "" {
		return nil // files that it makes would be root's; the first worker says what is wrong
	}
	if name := o.accessLog.name; name != "" {
		file, err := openLogFile(name)
		if err != nil {
			return err
		}
		if name != stdoutName {
			file.Close()
		}
	}
	if o.files.dir == "" {
		return nil
	}
	site, err := newSite(o.files)
	if err != nil {
		return err
	}
	site.close(log.Default())
	return nil
}

// work is a worker's part.
func (r *running) work(p *prefork.Prefork, o serveOptions) error {
	var cleanUp []func()
	defer func() {
		for _, f := range cleanUp {
			f()
		}
	}()
	// Here and not before, so that an error is told to the master.
	p.OnWorkerStart = func(w prefork.WorkerInfo) error {
		r.logger.SetPrefix(fmt.Sprintf("sluice: worker %d.%d (pid %d): ", w.Slot, w.Generation, os.Getpid()))
		o.tls.pem = w.Config
		certificates, err := o.tls.loadInWorker(hostOf(o.addr))
		if err != nil {
			return err
		}
		if certificates != nil {
			certificates.giveTo(r.server)
			alive, end := context.WithCancel(context.Background())
			cleanUp = append(cleanUp, end)
			go certificates.watch(alive, watchPeriod, r.logger)
		}
		if r.access, err = openAccessLog(o.accessLog.name, r.logger); err != nil {
			return err
		}
		cleanUp = append(cleanUp, r.access.Close)
		if o.gateway.isOn {
			routes := &gatewayHandler{}
			if err := routes.load(&o.gateway, r.logger); err != nil {
				return err
			}
			told := publish(routes, r.logger)
			cleanUp = append(cleanUp, told.close, routes.close)
			r.server.Handler = routes.serve
		}
		if o.files.dir != "" {
			site, err := newSite(o.files)
			if err != nil {
				return err
			}
			cleanUp = append(cleanUp, func() { site.close(r.logger) })
			r.server.Handler = site.serve
		}
		o.observe(r.server, r.access)
		return nil
	}
	p.OnReopen = func() error {
		if !r.access.reopens() {
			return nil
		}
		return r.access.reopen()
	}
	return o.listenAndServe(p)
}

// listenAndServe serves HTTP or HTTPS.
func (o *serveOptions) listenAndServe(p *prefork.Prefork) error {
	o.serveHTTP3By(p)
	if o.tls.isOn() {
		return p.ListenAndServeTLS(o.addr, "", "") // the configuration has the certificate
	}
	return p.ListenAndServe(o.addr)
}

// announceFleet says what is served, where and by whom.
func (r *running) announceFleet(p *prefork.Prefork, o serveOptions) {
	scheme := "http"
	if o.tls.isOn() {
		scheme = "https"
	}
	for _, addr := range p.Addrs() {
		url, others := servedURLs(scheme, addr)
		r.logger.Printf("pid %d with %d workers serves %s, engine %v", mainPID(), p.Status().Wanted, url, r.server.EngineInfo(nil))
		for _, other := range others {
			r.logger.Printf("from other machines: %s", other)
		}
	}
	o.announceContent(r.logger)
	r.announceAdmin(p.AdminAddr())
}

// mainPID returns the pid of the process that was started first.
func mainPID() int {
	if prefork.IsManager() {
		return os.Getppid()
	}
	return os.Getpid()
}

// explainListen says why the fleet cannot listen, in our words.
func (o *serveOptions) explainListen(err error) error {
	var boot *prefork.BootError
	var op *net.OpError
	switch explained := explainAdmin(o.admin, err); {
	case explained != err:
		return explained
	case errors.Is(err, syscall.EADDRINUSE), errors.As(err, &op) && op.Op == "listen":
		return explainAddr(o.addr, err)
	case errors.Is(err, prefork.ErrOverRecovery):
		return errors.New("too many workers died at the start: the lines above say how")
	case errors.As(err, &boot):
		return fmt.Errorf("worker %d cannot start: %s", boot.Slot, strings.TrimPrefix(boot.Text, "sluice: "))
	}
	return err
}

// isOn reports whether HTTPS is served.
func (o *tlsOptions) isOn() bool { return o.isSelfSigned || len(o.certFiles) > 0 || o.acme.isOn() }

// inMaster returns the certificates that are in files now, or issued. nil: there are none that can be used.
func (o *tlsOptions) inMaster() *certificates {
	c, err := o.loadFiles()
	if o.acme.isOn() {
		c, err = o.load("")
	}
	if err != nil {
		return nil
	}
	return c
}

// loadFiles returns the certificates that are in files, nil if there are none.
func (o *tlsOptions) loadFiles() (*certificates, error) {
	if len(o.certFiles) == 0 {
		return nil, nil
	}
	return (&tlsOptions{certFiles: o.certFiles, keyFiles: o.keyFiles}).load("")
}

// loadInWorker returns the certificates of the options. A self-signed one is for
// host, and all workers have the same.
func (o *tlsOptions) loadInWorker(host string) (*certificates, error) {
	if !o.isSelfSigned {
		return o.load("")
	}
	pem, err := sharedSelfSigned(host)
	if err != nil {
		return nil, fmt.Errorf("cannot make a certificate: %w", err)
	}
	cert, err := tls.X509KeyPair(pem, pem)
	if err != nil {
		return nil, fmt.Errorf("cannot use the certificate of the workers: %w", err)
	}
	c := &certificates{}
	c.current.Store(&[]tls.Certificate{cert})
	return c, nil
}

// sharedSelfSigned returns the certificate of the workers with its key. The first
// one makes it. It is nowhere but in their shared memory, which no other process
// has: an environment or a file could be read.
func sharedSelfSigned(host string) (pem []byte, err error) {
	segment := shared.Default()
	place, err := segment.Config(selfSignedName, selfSignedRoom)
	if err != nil {
		return nil, err
	}
	once, err := segment.Once(selfSignedName + ".made")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), selfSignedPatience)
	defer cancel()
	err = once.Do(ctx, func() error {
		cert, key, err := sluice.GenerateTestCertificate(host)
		if err != nil {
			return err
		}
		return place.Store(append(cert, key...))
	})
	if err != nil {
		return nil, err
	}
	pem, _ = place.Load(nil)
	return pem, nil
}
