package main

import (
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// TestDurationFlags: a number without a unit means seconds in every flag of every
// command.
func TestDurationFlags(t *testing.T) {
	durations := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "duration" {
				t.Errorf("%s --%s takes no bare number: make it a cli.Seconds", cmd.CommandPath(), f.Name)
			}
			seconds, ok := f.Value.(*cli.Seconds)
			if !ok {
				return
			}
			durations++
			if err := cmd.Flags().Set(f.Name, "5"); err != nil || time.Duration(*seconds) != 5*time.Second {
				t.Errorf("%s --%s 5: %v, %v", cmd.CommandPath(), f.Name, time.Duration(*seconds), err)
			}
		})
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(newRootCommand())
	if durations < 10 {
		t.Errorf("there are only %d durations", durations)
	}
}

// TestCompletion: a shell is offered the values that a flag or an argument takes.
func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"serve --engine ":            "\nperconn\n",
		"serve --prefork=":           "auto\n",
		"serve --proxy-protocol ":    "\nrequire\n",
		"serve ":                     ":16\n", // folders
		"lab run ":                   "\n7_server_prefork\n",
		"lab run custom ":            ":4\n", // nothing
		"lab run 6 --server ws":      "\nws-prefork\n",
		"lab run 6 --client ":        "\ngoroutine\n",
		"lab preflight ":             "\nseeds\n",
		"get ":                       ":4\n",
		"":                           "\nproxy\n",
		"ctl ":                       "\nrestart\n",
		"completion ":                "\nfish\n",
		"serve --access":             "\n--access-log-every\n",
		"proxy --balance ":           "\nsticky\n",
		"proxy --forwarded ":         "\nappend\n",
		"proxy --access-log-format ": "\njson\n",
		"proxy --config ":            "\n:0\n", // files
		"serve --tls-cert ":          "\n:0\n",
		"serve --acme-cache ":        "\n:16\n",
		"serve --addr ":              "\n:4\n",
		"ctl --admin ":               "\n:4\n",
		"proxy ":                     "\n:4\n",
		"man ":                       "\n:16\n",
	} {
		if strings.HasPrefix(args, "lab ") && runtime.GOOS != "linux" {
			continue
		}
		var out strings.Builder
		root := newRootCommand()
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(args, " ")...))
		if err := root.Execute(); err != nil || !strings.Contains("\n"+out.String(), want) {
			t.Errorf("%q: %v\n%s", args, err, out.String())
		}
	}
}
