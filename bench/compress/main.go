// Command compress measures what it costs to encode JSON by gzip, deflate, br
// and zstd: with the functions of ours and of fasthttp, with the handlers of
// both that compress, and with the compressors themselves. Run it in the bench
// module, on Linux:
//
//	go -C bench run ./compress [-case REGEXP] [-rounds 41] [-turn 4ms]
//	go -C bench run ./compress -levels
//	go -C bench run ./compress -file /usr/local/go/doc/go_spec.html -case br
//
// The contenders take turns in random order in every round, in one process and
// in memory. What is counted is the process's CPU time, which includes garbage
// collection and leaves out what other processes take.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/command"
)

func main() {
	command.Main("compress", parseFlags, run)
}

// options are the command's flags.
type options struct {
	cases  *regexp.Regexp
	rounds int
	turn   time.Duration
	levels bool
	text   []byte // instead of JSON

	markdown, commandLine string
}

func parseFlags(args []string) (o options, err error) {
	flags := command.NewFlagSet("compress", "Command compress compares what it costs to encode JSON: ours, fasthttp, and the compressors used directly.")
	pattern := flags.String("case", ".", "regular expression of the cases to run, such as '^gzip.*64 KiB'")
	flags.IntVar(&o.rounds, "rounds", 41, "rounds")
	flags.DurationVar(&o.turn, "turn", 4*time.Millisecond, "CPU time of one contender in one round, at least")
	flags.BoolVar(&o.levels, "levels", false, "what the levels cost: ours only, with messages of 8 KiB")
	file := flags.String("file", "", "`file` of 64 KiB or more with the text of the messages, instead of JSON")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.markdown, o.commandLine = flags.Markdown, flags.CommandLine()
	if o.rounds < 1 || o.turn < time.Millisecond {
		return o, fmt.Errorf("-rounds %d -turn %v: want at least one round of 1ms", o.rounds, o.turn)
	}
	if *file != "" {
		if o.text, err = os.ReadFile(*file); err != nil {
			return o, err
		}
		if largest := sizes[len(sizes)-1]; len(o.text) < largest {
			return o, fmt.Errorf("-file %s: has %d bytes, want at least %d", *file, len(o.text), largest)
		}
	}
	if o.cases, err = regexp.Compile(*pattern); err != nil {
		return o, err
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	cases, err := newCases(o)
	if err != nil {
		return err
	}
	for round := range o.rounds {
		for i, at := range rand.Perm(len(cases)) {
			command.Progress("round %d/%d, case %d/%d", round+1, o.rounds, i+1, len(cases))
			if err := cases[at].round(o.turn); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	command.Progress("")
	return document(o, cases).Publish(os.Stdout, o.markdown)
}

// newCases returns the cases that the flags want, checked.
func newCases(o options) ([]*benchCase, error) {
	var cases []*benchCase
	add := func(c *benchCase) error {
		if !o.cases.MatchString(c.name()) {
			return nil
		}
		cases = append(cases, c)
		return c.check()
	}
	if o.levels {
		messages := o.messages(levelsSize)
		for _, coding := range allLevels() {
			if err := add(&benchCase{coding: coding, size: levelsSize, messages: messages, contenders: []int{ourFunction}}); err != nil {
				return nil, err
			}
		}
	} else {
		for _, size := range sizes {
			messages := o.messages(size)
			for _, coding := range codings() {
				if err := add(&benchCase{coding: coding, size: size, messages: messages, contenders: allContenders[:]}); err != nil {
					return nil, err
				}
			}
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("-case '%s' matches none", o.cases)
	}
	return cases, nil
}
