// Package stall measures what large bodies cost a server in memory: downloads
// whose clients stop reading, and files of gigabytes. Run it in the bench
// module, on Linux:
//
//	go -C tools/bench run . stall [--clients 1000] [--size 10MiB] [--engine perconn] [--tls]
//	go -C tools/bench run . stall --big 2GiB [--parallel 8]
//
// The first form has clients stall in the middle of a file, and of a body in
// memory; the server's memory then and before are compared, until its
// WriteTimeout has cut all of them. The second form moves files down and up
// and shows the most memory that the server had. Every case has a server
// process of its own.
package stall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// options are the command's flags.
type options struct {
	clients      int
	size         command.Size
	writeTimeout time.Duration
	patience     time.Duration
	bodies       string
	big          command.Size
	parallel     int
	engine       string
	tls          bool
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("stall", "Measure what large bodies cost a server in memory: with clients that stop reading (the default), or files of gigabytes (--big)", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	o.size = 10 * command.MiB
	flags.IntVar(&o.clients, "clients", 1000, "clients that stall")
	flags.Var(&o.size, "size", "`size` of the body that they stall in")
	flags.StringVar(&o.bodies, "bodies", "file,memory", "where the body is: file, memory or both")
	flags.DurationVar(&o.writeTimeout, "write-timeout", 10*time.Second, "the server's WriteTimeout, by which they are cut")
	flags.DurationVar(&o.patience, "patience", 30*time.Second, "how long the server may take beyond that")
	flags.Var(&o.big, "big", "`size` of the files to move down and up, instead of stalling: 2GiB")
	flags.IntVar(&o.parallel, "parallel", 8, "files that are moved at the same time with --big, after one alone")
	flags.StringVar(&o.engine, "engine", peers.Epoll, "engine: epoll or perconn")
	flags.BoolVar(&o.tls, "tls", false, "over TLS 1.3")
	return func() (_ options, err error) {
		if o.writeTimeout < time.Second || o.patience < 0 || o.size < command.MiB || o.parallel < 1 {
			return o, fmt.Errorf("--write-timeout %v --patience %v --size %v --parallel %d: want at least a second, nothing negative, at least 1MiB, and at least 1", o.writeTimeout, o.patience, o.size, o.parallel)
		}
		if o.bodies != fileBody && o.bodies != memoryBody && o.bodies != fileBody+","+memoryBody {
			return o, fmt.Errorf("--bodies %q: want file, memory or file,memory", o.bodies)
		}
		if o.engine != peers.Epoll && o.engine != peers.PerConn {
			return o, fmt.Errorf("--engine %q: want epoll or perconn", o.engine)
		}
		return o, process.CheckConnections(o.clients)
	}
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	root, err := os.MkdirTemp("", "sluice-stall-")
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	measure := stallAll
	if o.big > 0 {
		measure = moveAll
	}
	d.Sections, err = measure(ctx, o, root)
	return d, err
}

// startServer starts a server that may run on every CPU.
func startServer(ctx context.Context, o options, config serveConfig) (*process.Server, error) {
	config.Engine, config.TLS = o.engine, o.tls
	return process.StartService(ctx, process.Options{CPU: process.AnyCPU}, serveRole, config)
}

// over names how connections are made.
func (o options) over() string {
	if o.tls {
		return o.engine + " over TLS 1.3"
	}
	return o.engine
}

// content returns lines that differ, so that parts cannot be mistaken for
// others.
func content(size int) []byte {
	text := make([]byte, 0, size+32)
	for i := 0; len(text) < size; i++ {
		text = fmt.Appendf(text, "line %d of the body\n", i)
	}
	return text[:size:size]
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }
