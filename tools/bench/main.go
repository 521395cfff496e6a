// Command bench compares servers and clients: each subcommand measures one thing
// and prints a report. "go -C tools/bench run . --help" lists them. The benchmarks beside
// it compare servers in memory, one at a time; "ratios" interleaves them.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice/tools/bench/internal/attacks"
	"github.com/sluicehttp/sluice/tools/bench/internal/client"
	"github.com/sluicehttp/sluice/tools/bench/internal/fairness"
	"github.com/sluicehttp/sluice/tools/bench/internal/h2"
	"github.com/sluicehttp/sluice/tools/bench/internal/h3"
	"github.com/sluicehttp/sluice/tools/bench/internal/hold"
	"github.com/sluicehttp/sluice/tools/bench/internal/idle"
	"github.com/sluicehttp/sluice/tools/bench/internal/instructions"
	"github.com/sluicehttp/sluice/tools/bench/internal/late"
	"github.com/sluicehttp/sluice/tools/bench/internal/mix"
	"github.com/sluicehttp/sluice/tools/bench/internal/prefork"
	"github.com/sluicehttp/sluice/tools/bench/internal/profile"
	"github.com/sluicehttp/sluice/tools/bench/internal/proxies"
	"github.com/sluicehttp/sluice/tools/bench/internal/ratios"
	"github.com/sluicehttp/sluice/tools/bench/internal/seeds"
	"github.com/sluicehttp/sluice/tools/bench/internal/servers"
	"github.com/sluicehttp/sluice/tools/bench/internal/stall"
	"github.com/sluicehttp/sluice/tools/bench/internal/websockets"
	"github.com/sluicehttp/sluice/tools/bench/internal/wire"
	"github.com/sluicehttp/sluice/tools/lab/process"
)

func main() {
	process.Main(roles())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{Use: "bench", Short: "Compare Sluice with other servers and clients", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(
		wire.Command(), idle.Command(), fairness.Command(), mix.Command(), hold.Command(), wire.FilesCommand(), h2.Command(), h2.StreamsCommand(), h3.Command(), websockets.Command(), attacks.Command(), client.Command(), stall.Command(), late.Command(), proxies.Command(),
		prefork.Command(), ratios.Command(), instructions.Command(), profile.Command(), seeds.Command(),
	)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// roles are what the processes do that subcommands start.
func roles() map[string]process.Role {
	all := servers.Roles()
	for _, more := range []map[string]process.Role{prefork.Roles(), stall.Roles(), fairness.Roles(), late.Roles(), client.Roles(), h2.Roles(), h3.Roles(), websockets.Roles(), proxies.Roles()} {
		maps.Copy(all, more)
	}
	return all
}
