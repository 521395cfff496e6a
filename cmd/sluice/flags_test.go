package main

import (
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0": 0, "0.5": 500 * time.Millisecond, "1e-3": time.Millisecond, "5s": 5 * time.Second, "500ms": 500 * time.Millisecond,
		"1m30s": 90 * time.Second, "24h": 24 * time.Hour, "0s": 0, "1e9": 1e9 * time.Second, "1ns": 1,
	} {
		var d time.Duration
		if err := secondsOf(&d, time.Hour).Set(text); err != nil || d != want {
			t.Errorf("%q: %v, %v, want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "x", "5x", "-5", "-1s", "NaN", "inf", "-inf", "1e10", "1e300", "-1e300", "1e-10", "5 s", "9999999999h"} {
		d := time.Duration(7)
		if err := (*secondsFlag)(&d).Set(text); err == nil || d != 7 {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}

// TestDurationFlags: a number without a unit means seconds in every flag of every
// command.
func TestDurationFlags(t *testing.T) {
	durations := 0
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "duration" {
				t.Errorf("%s --%s takes no bare number: make it a secondsFlag", cmd.CommandPath(), f.Name)
			}
			seconds, ok := f.Value.(*secondsFlag)
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
