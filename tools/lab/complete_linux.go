package lab

import (
	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice/tools/lab/cli"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
)

// completeScenario offers a shell the scenarios, each with what it is.
func completeScenario(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(args) == 0 {
		for _, s := range scenario.All() {
			names = append(names, cobra.CompletionWithDesc(s.Name, s.Summary))
		}
		names = append(names, customScenario, "seeds", "all")
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeFlags offers a shell the values of the flags that addScenario adds.
func completeFlags(cmd *cobra.Command) {
	var servers []string
	for _, p := range scenario.Protocols() {
		for _, kind := range scenario.ServerKinds() {
			s := scenario.Scenario{Protocol: p, Server: kind}
			servers = append(servers, s.ServerName())
		}
	}
	cli.Values(cmd, "server", servers...)
	cli.Values(cmd, "client", string(scenario.EpollClient), string(scenario.GoroutineClient))
	cli.Values(cmd, "workload", string(scenario.Echo), string(scenario.Discard), string(scenario.IO)+"=10ms", string(scenario.Pow)+"=12")
}
