// Package cli is what the flags and arguments of several commands have in
// common.
package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// Seconds is a duration of 0 or more, in seconds if there is no unit. It is the
// pflag.Value of all flags that are durations.
type Seconds time.Duration

// SecondsOf makes d, which gets a default, the place of a flag's duration.
func SecondsOf(d *time.Duration, byDefault time.Duration) *Seconds {
	*d = byDefault
	return (*Seconds)(d)
}

// Set implements pflag.Value.
func (s *Seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if seconds, numberErr := strconv.ParseFloat(text, 64); numberErr == nil {
		ns := seconds * float64(time.Second)
		if !(math.Abs(ns) < math.MaxInt64) || seconds != 0 && math.Abs(ns) < 1 {
			return errors.New("out of range")
		}
		d, err = time.Duration(ns), nil
	}
	if err != nil {
		return fmt.Errorf("%s is no duration: 5 and 5s are five seconds, 500ms and 1m30s others", text)
	}
	if d < 0 {
		return errors.New("a duration cannot be negative")
	}
	*s = Seconds(d)
	return nil
}

// String implements pflag.Value.
func (s *Seconds) String() string {
	if *s == 0 {
		return "0" // a default of this is not shown
	}
	return time.Duration(*s).String()
}

// Type implements pflag.Value.
func (s *Seconds) Type() string { return "SECONDS" }

// Values offers a shell the values of a flag, which cmd must have.
func Values(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // a mistake in the program: there is no such flag, or it has values already
	}
}

// AtMostOneArgument is for commands that have one argument, which name says, or none.
func AtMostOneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return OneArgument(name)(cmd, args)
	}
}

// OneArgument is for commands with one argument, which name says.
func OneArgument(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return fmt.Errorf("%s is missing; see %s --help", name, cmd.CommandPath())
		case 1:
			return nil
		}
		return fmt.Errorf("one %s only, and there are %d arguments: %q", name, len(args), args)
	}
}

// NoArguments checks that a command has no arguments.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("there are no arguments, only flags: %q; see %s --help", args, cmd.CommandPath())
	}
	return nil
}
