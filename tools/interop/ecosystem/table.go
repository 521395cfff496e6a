package main

import (
	"fmt"
	"strings"
)

const tableHead = "| module | version | fasthttp | tests passed with it | with Sluice | only with fasthttp |\n|---|---|---|---|---|---|\n"

// row is a line of the table, with subtests counted as tests.
func (o *outcome) row() string {
	if o.err != nil {
		return fmt.Sprintf("| %s | %s | – | – | – | not run |\n", o.suite.Module, o.suite.Version)
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %d | %d |\n", o.suite.Module, o.suite.Version, o.fasthttp,
		o.real.passed(), o.ours.passed(), len(o.different()))
}

func (r results) passed() int {
	count := 0
	for _, result := range r {
		if result == "pass" {
			count++
		}
	}
	return count
}

// explain writes the differences and their reasons, those with a reason only if
// all are asked for, and returns how many have none.
func (o *outcome) explain(notes *strings.Builder, all bool) int {
	if o.err != nil {
		fmt.Fprintf(notes, "%s: %v\n", o.suite.Module, o.err)
		return 1
	}
	unexplained := 0
	for _, test := range o.different() {
		reason := o.suite.reason(test)
		if reason == "" && o.isSameWithNewest(test) {
			reason = "so it is with fasthttp " + newest
		}
		if reason == "" {
			unexplained++
			reason = "no reason known"
		} else if !all {
			continue
		}
		result := o.ours[test]
		if result == "" {
			result = "missing"
		}
		fmt.Fprintf(notes, "%s: %s: %s\n", result, test, reason)
	}
	return unexplained
}

// isSameWithNewest reports whether the test does not pass with the newest fasthttp
// either, or the package cannot be run.
func (o *outcome) isSameWithNewest(test string) bool {
	if o.newest == nil {
		return false
	}
	if !strings.Contains(test, " ") {
		return o.newest[test] == "broken"
	}
	return o.newest[test] != "pass"
}

// reason finds why a test differs: under its name, or that of the test or the
// package that it belongs to.
func (s *suite) reason(test string) string {
	for name := test; ; {
		if reason := s.Differences[name]; reason != "" {
			return reason
		}
		cut := strings.LastIndexAny(name, "/ ")
		if cut < 0 || !strings.Contains(name, " ") {
			return ""
		}
		name = name[:cut]
	}
}
