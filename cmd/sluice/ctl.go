package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// The exit statuses of "sluice ctl", besides 0 and the 2 of wrong use.
const (
	ctlFailed   = 1 // the order was not carried out
	ctlNoAnswer = 3 // nothing that takes orders answers on the address
	ctlTimedOut = 4 // the order goes on
)

const (
	maxCtlAnswer = 16 << 20
	ctlDialTime  = 10 * time.Second
	ctlPatience  = 10 * time.Second
	// After the death of a manager, ctl looks so often for the end of its order, with these
	// pauses, before it gives up.
	ctlPolls    = 50
	ctlPollTime = 100 * time.Millisecond
)

// ctlOptions are the flags of "sluice ctl".
type ctlOptions struct {
	admin   string
	waits   bool
	timeout time.Duration
	asJSON  bool
	client  *sluice.HostClient
	// patience bounds the time for which the server says nothing.
	patience time.Duration
}

const ctlHelp = `Ctl gives orders to a running "sluice serve --prefork --admin ADDR", or to any
program that serves prefork.ControlHandler on its admin address.

A restart replaces the workers one by one, and no connection is lost. It is over
when all new workers have served for ten seconds. If one of them fails before,
all get the version from before back, and ctl says why.

Exit status: 0 if the order was carried out; 1 if it was not, with the reason in
one line on stderr; 2 for wrong use; 3 if nothing that takes orders answers on
ADDR, or says nothing for ten seconds; 4 if --timeout is over, and the order
goes on.`

const ctlExamples = `  sluice serve . --prefork auto --admin unix:/run/sluice.sock
  sluice ctl --admin unix:/run/sluice.sock status
  sluice ctl --admin unix:/run/sluice.sock reload
  mv sluice.new /usr/local/bin/sluice && sluice ctl --admin unix:/run/sluice.sock upgrade
  sluice ctl --admin unix:/run/sluice.sock scale 8`

func newCtlCommand() *cobra.Command {
	o := ctlOptions{patience: ctlPatience}
	cmd := &cobra.Command{
		Use:     "ctl",
		Short:   "Restart, upgrade and scale a running server",
		Long:    ctlHelp,
		Example: ctlExamples,
	}
	flags := cmd.PersistentFlags()
	flags.SortFlags = false
	flags.StringVar(&o.admin, "admin", "", "the server's admin address `ADDR`, HOST:PORT or unix:PATH")
	flags.BoolVar(&o.waits, "wait", true, "wait until the order is carried out; --wait=false: give it and exit")
	flags.Var(cli.SecondsOf(&o.timeout, 0), "timeout", "bound for the wait; 0 is none")
	flags.BoolVar(&o.asJSON, "json", false, "print a JSON object for each step; for status, the status as JSON")
	add := func(c *cobra.Command, path func(args []string) string) {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return cli.Misuse(err)
			}
			if status := o.run(cmd.Context(), c.Name(), path(args)); status != 0 {
				os.Exit(status)
			}
			return nil
		}
		cmd.AddCommand(c)
	}
	plain := func(path string) func([]string) string { return func([]string) string { return path } }
	add(&cobra.Command{Use: "status", Short: "Print what the workers do", Args: cli.NoArguments}, plain("/status"))
	add(&cobra.Command{
		Use: "restart", Aliases: []string{"reload"}, Args: cli.NoArguments,
		Short: "Replace the workers; new ones read certificates and files again",
	}, plain("/restart"))
	add(&cobra.Command{
		Use: "upgrade", Args: cli.NoArguments,
		Short: "Open the program's file again and replace the workers by those of the new binary; with --upgrade, then the master, too",
	}, plain("/upgrade"))
	add(&cobra.Command{Use: "scale N", Short: "Change the number of workers", Args: numberOfWorkers},
		func(args []string) string { return "/scale?workers=" + url.QueryEscape(args[0]) })
	return cmd
}

// numberOfWorkers checks the argument of scale.
func numberOfWorkers(cmd *cobra.Command, args []string) error {
	if err := cli.OneArgument("N")(cmd, args); err != nil {
		return err
	}
	if n, err := strconv.Atoi(args[0]); err != nil || n < 1 {
		return fmt.Errorf("scale takes a number of workers, at least 1, not %q", args[0])
	}
	return nil
}

// check checks the flags.
func (o *ctlOptions) check() error {
	if o.admin == "" {
		return errors.New("--admin is needed: it is what the server was started with")
	}
	return checkAdmin(o.admin)
}

// run gives an order, or asks for the status, and returns the exit status.
func (o *ctlOptions) run(parent context.Context, verb, path string) int {
	ctx, stop := untilInterrupted(parent)
	defer stop()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	asked := make(chan ctlAnswer, 1)
	go func() { asked <- o.ask(ctx, verb, path) }()
	var a ctlAnswer
	select {
	case a = <-asked:
	case <-ctx.Done():
		if a = (ctlAnswer{ctlTimedOut, errors.New("not over yet; it goes on")}); verb == "status" {
			a = ctlAnswer{ctlNoAnswer, fmt.Errorf("no answer from %s yet", o.admin)}
		}
	}
	if a.err != nil {
		fmt.Fprintf(os.Stderr, "sluice ctl %s: %s\n", verb, strings.TrimSpace(cli.Message(a.err)))
	}
	return a.status
}

// A ctlAnswer is how an order ended: an exit status, and why it is not 0.
type ctlAnswer struct {
	status int
	err    error
}

// ask sends the request and prints what comes.
func (o *ctlOptions) ask(ctx context.Context, verb, path string) ctlAnswer {
	var dialErr error
	client := &sluice.HostClient{Addr: "admin", StreamResponseBody: true, Name: "sluice-ctl", DialTimeout: func(string, time.Duration) (net.Conn, error) {
		network, addr := "tcp", o.admin
		if name, isUnix := strings.CutPrefix(o.admin, "unix:"); isUnix {
			network, addr = "unix", name
		}
		c, err := net.DialTimeout(network, addr, ctlDialTime)
		if dialErr = err; err != nil {
			return nil, err
		}
		return impatientConn{c, o.patience}, nil
	}}
	defer client.CloseIdleConnections()
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	req.SetRequestURI("http://localhost" + path) // an address on loopback refuses other hosts
	if verb != "status" {
		req.Header.SetMethod(sluice.MethodPost)
		wait := "no"
		if o.waits {
			wait = "progress"
		}
		req.URI().QueryArgs().Set("wait", wait)
	} else if o.asJSON {
		req.URI().QueryArgs().Set("format", "json")
	}
	if err := client.DoContext(ctx, req, resp); err != nil {
		if dialErr != nil {
			err = explainDial(o.admin, dialErr)
		}
		return ctlAnswer{ctlNoAnswer, fmt.Errorf("no answer from %s: %w", o.admin, o.explainSilence(err))}
	}
	o.client = client
	body := io.LimitReader(resp.BodyStream(), maxCtlAnswer)
	switch code := resp.StatusCode(); {
	case verb == "status" && code == sluice.StatusOK:
		if _, err := io.Copy(os.Stdout, body); err != nil {
			return ctlAnswer{ctlNoAnswer, err}
		}
		return ctlAnswer{}
	case code == sluice.StatusAccepted:
		return ctlAnswer{}
	case code == sluice.StatusInternalServerError:
		text, _ := io.ReadAll(body)
		return ctlAnswer{ctlFailed, errors.New(string(text))}
	case code != sluice.StatusOK || string(resp.Header.ContentType()) != "application/x-ndjson":
		return ctlAnswer{ctlNoAnswer, fmt.Errorf("%s takes no orders (status %d): it must be the --admin of a server with --prefork, or have prefork.ControlHandler", o.admin, code)}
	}
	return o.follow(ctx, body)
}

// An impatientConn bounds each Read: during an order a server tells something every two seconds.
type impatientConn struct {
	net.Conn
	patience time.Duration
}

func (c impatientConn) Read(p []byte) (int, error) {
	c.SetReadDeadline(time.Now().Add(c.patience))
	return c.Conn.Read(p)
}

// explainSilence says that a server has taken the connection, and no more.
func (o *ctlOptions) explainSilence(err error) error {
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		return fmt.Errorf("it has said nothing for %v: the process hangs or is stopped", o.patience)
	}
	return err
}

// explainDial says why nothing answers on an admin address.
func explainDial(admin string, err error) error {
	path, isUnix := strings.CutPrefix(admin, "unix:")
	info, statErr := os.Stat(path)
	switch {
	case isUnix && statErr == nil && info.Mode()&fs.ModeSocket == 0:
		return errors.New("it is not a socket; what was the server's --admin?")
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("there is no such socket; is the server running, with this --admin?")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("permission denied; only root and the user that the server runs as may use it")
	case errors.Is(err, syscall.ECONNREFUSED) && isUnix:
		return errors.New("nothing listens on the socket; its server was killed, and has not been started again")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("nothing listens there; is the server running, with this --admin?")
	}
	return err
}

// follow prints the progress of an order.
func (o *ctlOptions) follow(ctx context.Context, body io.Reader) ctlAnswer {
	var first, shown, last prefork.Progress
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			return ctlAnswer{ctlNoAnswer, fmt.Errorf("not a line of progress: %w", err)}
		}
		if first == (prefork.Progress{}) {
			first = last
		}
		if last == shown {
			continue
		}
		shown = last
		if o.asJSON {
			fmt.Printf("%s\n", lines.Bytes()) // also what is new in it
		} else if last.Error == "" {
			fmt.Println(last)
		}
	}
	switch err := lines.Err(); {
	case err != nil && o.explainSilence(err) != err:
		return ctlAnswer{ctlNoAnswer, fmt.Errorf("no more answer from %s: %w", o.admin, o.explainSilence(err))}
	case last.State == "done":
		return ctlAnswer{}
	case last.Error != "":
		return ctlAnswer{ctlFailed, errors.New(last.Error)}
	}
	return o.await(ctx, first, last)
}

// print prints the last step of an order. The reason for a failure is printed elsewhere, too.
func (o *ctlOptions) print(p prefork.Progress) {
	if o.asJSON {
		text, _ := json.Marshal(p) // numbers and texts
		fmt.Printf("%s\n", text)
	} else if p.Error == "" {
		fmt.Println(p)
	}
}

// await waits for the end of an order whose manager has died, if another one follows
// (Prefork.Upgrade). first and last are what the one that died has told.
func (o *ctlOptions) await(ctx context.Context, first, last prefork.Progress) ctlAnswer {
	target := last.Version
	hasBegun := last.State != first.State || last.State != "waiting"
	if !hasBegun {
		target = first.Version + 1
	}
	ticker := time.NewTicker(ctlPollTime)
	defer ticker.Stop()
	for quiet := 0; quiet < ctlPolls; {
		select {
		case <-ctx.Done():
			return ctlAnswer{ctlTimedOut, ctx.Err()}
		case <-ticker.C:
		}
		s, err := o.status(ctx)
		switch {
		case err != nil:
			quiet++
		case s.Rolling || s.Soaking:
			quiet = 0
		case !s.Ready:
			quiet++
		case hasBegun && s.Version < target && s.RestartError != "":
			o.print(prefork.Progress{State: "failed", Version: s.Version, Replaced: s.Wanted, Wanted: s.Wanted, Error: s.RestartError})
			return ctlAnswer{ctlFailed, errors.New(s.RestartError)}
		case s.Version >= target:
			o.print(prefork.Progress{State: "done", Version: s.Version, Replaced: s.Wanted, Wanted: s.Wanted})
			return ctlAnswer{}
		default:
			quiet++
		}
	}
	return ctlAnswer{ctlFailed, errors.New("the server ended before the order was carried out")}
}

// status asks for the server's status.
func (o *ctlOptions) status(ctx context.Context) (s prefork.Status, err error) {
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	req.SetRequestURI("http://admin/status?format=json")
	if err := o.client.DoContext(ctx, req, resp); err != nil {
		return s, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.BodyStream(), maxCtlAnswer))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}
