// Command idle compares what an idle keep-alive connection costs a server in
// memory. Run it in the bench module, on Linux:
//
//	go -C bench run ./idle [-conns 15000]
//
// Every server runs in a process of its own. Other processes open the
// connections, send two requests on each and hold it. What the server's heap
// and stacks grew by (RssAnon) is divided by the connections, as it is then and
// after a garbage collection.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/peers"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/report"
	"golang.org/x/sys/unix"
)

// maxPerClient bounds the descriptors of a client process.
const maxPerClient = 15_000

func main() {
	process.Main(map[string]process.Role{holdRole: hold})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	conns := flag.Int("conns", 15_000, "connections to hold")
	flag.Parse()
	if err := run(ctx, *conns); err != nil {
		fmt.Fprintln(os.Stderr, "idle:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, conns int) error {
	if err := checkLimits(conns); err != nil {
		return err
	}
	var rows [][]string
	for _, kind := range []string{peers.Sluice, peers.FastHTTP, peers.FastHTTPReduced, peers.NetHTTP} {
		fmt.Fprintf(os.Stderr, "\r\033[K%s", kind)
		f, err := measure(ctx, kind, conns)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		rows = append(rows, []string{kind, f.perConn(f.held), f.perConn(f.settled), fmt.Sprintf("%.1f", float64(f.before)/(1<<20))})
	}
	fmt.Fprint(os.Stderr, "\r\033[K")
	report.Header(os.Stdout, fmt.Sprintf("go -C bench run ./idle -conns %d", conns))
	return report.Table(os.Stdout, []string{"server", "bytes/connection", "after GC", "MiB before"}, rows)
}

// checkLimits says whether a server may have so many connections.
func checkLimits(conns int) error {
	const spare = 100 // descriptors for other purposes
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if conns < 1 || uint64(conns)+spare > limit.Max {
		return fmt.Errorf("-conns %d: want 1 to %d, a process may have %d descriptors (ulimit -Hn)", conns, limit.Max-spare, limit.Max)
	}
	return nil
}

// figures are the server's bytes of anonymous memory.
type figures struct {
	conns                 int64
	before, held, settled int64
}

func (f figures) perConn(bytes int64) string {
	return strconv.FormatInt((bytes-f.before)/f.conns, 10)
}

// measure holds connections to a server of the kind.
func measure(ctx context.Context, kind string, conns int) (f figures, err error) {
	f.conns = int64(conns)
	server, err := process.StartServer(ctx, process.AnyCPU, kind)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()

	// What the first connection makes the server allocate is not per
	// connection.
	first, err := startClients(ctx, server.Addr, 1)
	if err != nil {
		return f, err
	}
	if err := errors.Join(stopAll(first), server.Settle()); err != nil {
		return f, err
	}
	if f.before, err = server.AnonymousMemory(); err != nil {
		return f, err
	}

	clients, err := startClients(ctx, server.Addr, conns)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, stopAll(clients)) }()
	if f.held, err = steadyMemory(ctx, server); err != nil {
		return f, err
	}
	if err := server.Settle(); err != nil {
		return f, err
	}
	f.settled, err = steadyMemory(ctx, server)
	return f, err
}

// startClients opens conns connections from as many processes as it takes, each
// from an address of its own, and returns when all have had two answers.
func startClients(ctx context.Context, addr string, conns int) (clients []*process.Child, err error) {
	for source := 2; conns > 0; source++ {
		n := min(conns, maxPerClient)
		conns -= n
		client, err := process.Start(ctx, process.AnyCPU, nil, holdRole, addr, strconv.Itoa(n), fmt.Sprintf("127.0.0.%d", source))
		if err != nil {
			return clients, errors.Join(err, stopAll(clients))
		}
		clients = append(clients, client)
		if _, err := client.Line(); err != nil {
			return nil, errors.Join(err, stopAll(clients[:len(clients)-1]))
		}
	}
	return clients, nil
}

func stopAll(clients []*process.Child) error {
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.Stop())
	}
	return errors.Join(errs...)
}

// steadyMemory waits until the server's memory stops changing by more than 1 %
// within a second, for at most ten.
func steadyMemory(ctx context.Context, server *process.Server) (int64, error) {
	last, err := server.AnonymousMemory()
	for range 10 {
		if err != nil {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Second):
		}
		previous := last
		if last, err = server.AnonymousMemory(); max(last-previous, previous-last) < last/100 {
			break
		}
	}
	return last, err
}
