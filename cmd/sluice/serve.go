package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/spf13/cobra"
)

// serveOptions are the flags of "sluice serve".
type serveOptions struct {
	addr          string
	engine        sluice.Engine
	tlsSelfSigned bool
	readTimeout   time.Duration
	idleTimeout   time.Duration
	maxBody       int
	drain         time.Duration
}

func newServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the built-in endpoints over HTTP/1.1",
		Long: `Serve answers these paths:

  /            a page that says what this is
  /plaintext   "Hello, World!"
  /json        {"message":"Hello, World!"}
  /echo        the request's body
  /stream      ten lines, one every 200 ms (?n=LINES&ms=PAUSE)
  /sleep       after a pause (?ms=MILLISECONDS)

Ctrl-C (or SIGTERM) stops accepting, lets running requests finish and exits; a
second one exits at once.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.addr, "addr", "127.0.0.1:8080", "address to listen on, host:port")
	flags.TextVar(&o.engine, "engine", sluice.EngineAuto, "how connections are served: perconn (a goroutine for each), epoll (Linux), or auto")
	flags.BoolVar(&o.tlsSelfSigned, "tls-self-signed", false, "serve HTTPS with a certificate made at start")
	flags.DurationVar(&o.readTimeout, "read-timeout", 30*time.Second, "bound for receiving a request")
	flags.DurationVar(&o.idleTimeout, "idle-timeout", 2*time.Minute, "bound for an idle connection")
	flags.IntVar(&o.maxBody, "max-body", sluice.DefaultMaxRequestBodySize, "bound of a request body, in bytes")
	flags.DurationVar(&o.drain, "drain", 10*time.Second, "how long running requests may go on after Ctrl-C")
	return cmd
}

// serve runs a server until it fails or a signal ends it.
func serve(ctx context.Context, o serveOptions) error {
	logger := log.New(os.Stderr, "sluice: ", log.LstdFlags)
	server := &sluice.Server{
		Handler:            handle,
		Logger:             logger,
		Engine:             o.engine,
		ReadTimeout:        o.readTimeout,
		IdleTimeout:        o.idleTimeout,
		MaxRequestBodySize: o.maxBody,
	}
	lc := net.ListenConfig{KeepAlive: -1} // idle connections end by --idle-timeout
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(ctx, "tcp", o.addr)
	if err != nil {
		return err
	}
	defer ln.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	served := make(chan error, 1)
	scheme := "http"
	if o.tlsSelfSigned {
		scheme = "https"
		cert, key, err := sluice.GenerateTestCertificate(hostOf(o.addr))
		if err != nil {
			return fmt.Errorf("cannot make a certificate: %w", err)
		}
		go func() { served <- server.ServeTLSEmbed(ln, cert, key) }()
	} else {
		go func() { served <- server.Serve(ln) }()
	}
	logger.Printf("pid %d serves %s://%s, engine %v", os.Getpid(), scheme, ln.Addr(), server.EngineInfo(ln))
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stop() // a second signal ends the process the ordinary way
	return drain(server, logger, o.drain, served)
}

// drain ends the server and waits for its requests.
func drain(server *sluice.Server, logger *log.Logger, timeout time.Duration, served <-chan error) error {
	logger.Printf("stopping: %d open connections have %v to finish", server.GetOpenConnectionsCount(), timeout)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := server.ShutdownWithContext(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		logger.Printf("stopped: requests were cut off after %v", timeout)
		return errors.New("not every request could finish")
	}
	if err == nil {
		err = <-served
	}
	logger.Print("stopped")
	return err
}

// hostOf returns the host of an address to listen on.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return "localhost"
	}
	return host
}
