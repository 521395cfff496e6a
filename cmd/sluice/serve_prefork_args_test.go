package main

import (
	"slices"
	"strings"
	"testing"
)

func TestWithWorkers(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{nil, nil},
		{[]string{"serve", "--prefork"}, []string{"serve", "--prefork"}},
		{[]string{"serve", "--prefork", "4"}, []string{"serve", "--prefork=4"}},
		{[]string{"serve", "--prefork", "auto", "docs"}, []string{"serve", "--prefork=auto", "docs"}},
		{[]string{"serve", "--prefork", "docs"}, []string{"serve", "--prefork", "docs"}},
		{[]string{"serve", "--prefork", "-7"}, []string{"serve", "--prefork=-7"}},
		{[]string{"serve", "--prefork", "./4"}, []string{"serve", "--prefork", "./4"}},
		{[]string{"serve", "--prefork=2", "4"}, []string{"serve", "--prefork=2", "4"}},
		{[]string{"serve", "--", "--prefork", "4"}, []string{"serve", "--", "--prefork", "4"}},
	} {
		if got := withWorkers(c.args); !slices.Equal(got, c.want) {
			t.Errorf("%q became %q, want %q", c.args, got, c.want)
		}
	}
}

// TestPreforkFlag: the number may be left out, and stand apart from the flag.
func TestPreforkFlag(t *testing.T) {
	automaticCount := new(workerCount)
	if err := automaticCount.Set(automatic); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"0", "-1", "1001", "100000", "", "many", "1.5"} {
		if err := new(workerCount).Set(text); err == nil || !strings.Contains(err.Error(), "at least 1 and at most 1000") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, c := range []struct {
		args []string
		want workerCount
		rest []string
	}{
		{[]string{"--prefork"}, *automaticCount, nil},
		{[]string{"--prefork", "3", "docs"}, 3, []string{"docs"}},
		{[]string{"--prefork", "docs"}, *automaticCount, []string{"docs"}},
		{[]string{"docs"}, 0, []string{"docs"}},
	} {
		flags := newServeCommand().Flags()
		if err := flags.Parse(withWorkers(c.args)); err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		if got := *flags.Lookup("prefork").Value.(*workerCount); got != c.want || !slices.Equal(flags.Args(), c.rest) {
			t.Errorf("%q: %d workers and %q, want %d and %q", c.args, got, flags.Args(), c.want, c.rest)
		}
	}
}
