// Package command is what the subcommands have in common: their flags, progress
// and report.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/lab/report"
)

// Flags defines a subcommand's flags. What it returns makes options of them when
// they have been parsed.
type Flags[Options any] func(*pflag.FlagSet) func() (Options, error)

// New returns a subcommand. What run returns is printed, also beside an error;
// with --out it is written as Markdown, with its plots.
func New[Options any](name, summary string, flags Flags[Options], run func(context.Context, Options) (report.Document, error)) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: summary, Args: cobra.NoArgs}
	out := cmd.Flags().String("out", "", "`folder` for the report as "+name+".md, with its plots; relative to the module bench")
	options := flags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error {
		o, err := options()
		if err != nil {
			return err
		}
		document, failure := run(cmd.Context(), o)
		Progress("")
		if document.Sections == nil {
			return failure
		}
		document.Command = commandLine(cmd)
		err = document.Publish(cmd.OutOrStdout())
		if *out != "" {
			err = errors.Join(err, document.PublishFolder(*out, name))
		}
		return errors.Join(failure, err)
	}
	return cmd
}

// Parse returns the options that arguments make.
func Parse[Options any](flags Flags[Options], args ...string) (o Options, err error) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	options := flags(set)
	if err := set.Parse(args); err != nil {
		return o, err
	}
	return options()
}

// ParseProcs reads a list of values of GOMAXPROCS, such as "1,2".
func ParseProcs(list string) (procs []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--procs %q: want numbers, such as 1,2", list)
		}
		procs = append(procs, n)
	}
	return procs, nil
}

// commandLine returns how to call the command with the same flags.
func commandLine(cmd *cobra.Command) string {
	line := "go -C tools/bench run . " + cmd.Name()
	cmd.Flags().Visit(func(set *pflag.Flag) {
		if set.Name == "out" {
			return
		}
		value := set.Value.String()
		if value == "" || strings.ContainsAny(value, " *?[]()|$\\;&<>") {
			value = "'" + value + "'"
		}
		line += fmt.Sprintf(" --%s=%s", set.Name, value)
	})
	return line
}

// ParsePrograms reads the values of a flag --program, NAME=COMMAND. It returns the commands by
// their names, which must differ from each other and from those that are taken.
func ParsePrograms(programs, taken []string) (names []string, commands map[string]string, err error) {
	commands = make(map[string]string)
	for _, program := range programs {
		name, line, _ := strings.Cut(program, "=")
		if name == "" || strings.TrimSpace(line) == "" || slices.Contains(taken, name) || commands[name] != "" {
			return nil, nil, fmt.Errorf("--program %q: want NAME=COMMAND, with a name that no other server has", program)
		}
		names, commands[name] = append(names, name), line
	}
	return names, commands, nil
}

// Progress shows what the command is doing, on one line of standard error.
// Nothing: the line is cleared.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
}

// Require says what the machine lacks: a second CPU, for server and client to
// have one each, or one of the tools.
func Require(tools ...string) error {
	packages := map[string]string{"taskset": "util-linux", "h2load": "nghttp2-client", "valgrind": "valgrind"}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed (Debian: package %s)", tool, packages[tool])
		}
	}
	if runtime.GOOS != "linux" || runtime.NumCPU() < 2 {
		return errors.New("needs Linux and two CPUs: one for the server and one for the clients")
	}
	return nil
}
