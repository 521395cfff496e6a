// Package command is what the measuring commands have in common: their flags'
// help, signals and exit status.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
)

// ErrDone is what a command's flags return when there is nothing more to do.
var ErrDone = errors.New("done")

// Main parses the flags and runs the command. It exits with status 1 and the
// error, if there is one.
func Main[Options any](name string, parse func(args []string) (Options, error), run func(context.Context, Options) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) || errors.Is(err, ErrDone) {
		return
	}
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// A FlagSet is a command's flags.
type FlagSet struct {
	*flag.FlagSet

	// Markdown is the value of -markdown, which every command has.
	Markdown string
}

// NewFlagSet returns the flags of a command. Its help says what the command
// does.
func NewFlagSet(name, summary string) *FlagSet {
	flags := &FlagSet{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "%s\n\n  go -C bench run ./%s [flags]\n\n", summary, name)
		flags.PrintDefaults()
	}
	flags.StringVar(&flags.Markdown, "markdown", "", "`file` for the report in Markdown, besides printing it; relative to the module bench")
	return flags
}

// Parse reads the arguments, which must all be flags.
func (f *FlagSet) Parse(args []string) error {
	if err := f.FlagSet.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return nil
}

// CommandLine returns how to call the command with the same flags.
func (f *FlagSet) CommandLine() string {
	line := "go -C bench run ./" + f.Name()
	f.Visit(func(set *flag.Flag) {
		if set.Name == "markdown" {
			return
		}
		value := set.Value.String()
		if value == "" || strings.ContainsAny(value, " *?[]()|$\\;&<>") {
			value = "'" + value + "'"
		}
		line += fmt.Sprintf(" -%s=%s", set.Name, value)
	})
	return line
}

// Progress shows what the command is doing, on one line of standard error.
// Nothing: the line is cleared.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
}

// Require says what the machine lacks: a second CPU, for server and client to
// have one each, or one of the tools.
func Require(tools ...string) error {
	packages := map[string]string{"wrk": "wrk", "taskset": "util-linux"}
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
