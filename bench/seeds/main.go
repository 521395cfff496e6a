// Command seeds repeats the measurements that fasthttp's README and the prefork
// packages published, with Sluice beside fasthttp and net/http, and sets the
// published figures next to them. Run it in the bench module:
//
//	go -C bench run ./seeds [-part REGEXP] [-cpu 1,2,4] [-out DIR]
//
// The parts are: server, the in-memory table of servers (it runs ratios);
// client, that of clients (it runs client); prefork, wrk with 512 connections
// and 4 threads against one process and against a process per CPU, which needs
// Linux and wrk.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/sluicehttp/sluice/bench/internal/command"
	"github.com/sluicehttp/sluice/bench/internal/process"
	"github.com/sluicehttp/sluice/bench/internal/report"
)

func main() {
	process.Main(map[string]process.Role{serverRole: serve})
	command.Main("seeds", parseFlags, run)
}

// options are the command's flags.
type options struct {
	part      *regexp.Regexp
	cpus      string
	count     int
	benchTime time.Duration
	rounds    int
	duration  time.Duration
	out       string

	markdown, commandLine string
}

// Parts of the report.
const (
	serverPart  = "server"
	clientPart  = "client"
	preforkPart = "prefork"
)

func parseFlags(args []string) (o options, err error) {
	flags := command.NewFlagSet("seeds", "Command seeds repeats what fasthttp's README and the prefork packages published.")
	part := flags.String("part", ".", "regular `expression` of the parts: server, client, prefork")
	flags.StringVar(&o.cpus, "cpu", "1,2,4", "values of GOMAXPROCS, in memory")
	flags.IntVar(&o.count, "count", 4, "rounds of the benchmarks of servers in memory")
	flags.DurationVar(&o.benchTime, "benchtime", 100*time.Millisecond, "time of one of them in one round")
	flags.IntVar(&o.rounds, "rounds", 4, "rounds of prefork")
	flags.DurationVar(&o.duration, "duration", 2*time.Second, "time of one server in one of them; whole seconds")
	flags.StringVar(&o.out, "out", "", "`folder` for the report as seeds.md, with its plots; relative to the module bench")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.markdown, o.commandLine = flags.Markdown, flags.CommandLine()
	if o.count < 1 || o.rounds < 1 || o.duration < time.Second || o.duration%time.Second != 0 || o.benchTime <= 0 {
		return o, fmt.Errorf("-count %d -benchtime %v -rounds %d -duration %v: want at least one round, and whole seconds", o.count, o.benchTime, o.rounds, o.duration)
	}
	if o.part, err = regexp.Compile(*part); err != nil {
		return o, err
	}
	for _, name := range []string{serverPart, clientPart, preforkPart} {
		if o.part.MatchString(name) {
			return o, nil
		}
	}
	return o, fmt.Errorf("-part %q matches no part", *part)
}

func run(ctx context.Context, o options) (err error) {
	folder, err := os.MkdirTemp("", "seeds")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	d := report.Document{Title: "The published benchmarks, repeated", Command: o.commandLine}
	for _, p := range []struct {
		name    string
		measure func(context.Context, options, string) ([]report.Section, error)
	}{{serverPart, servers}, {clientPart, clients}, {preforkPart, preforks}} {
		if !o.part.MatchString(p.name) {
			continue
		}
		sections, err := p.measure(ctx, o, folder)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		d.Sections = append(d.Sections, sections...)
	}
	command.Progress("")
	if err := d.Publish(os.Stdout, o.markdown); err != nil || o.out == "" {
		return err
	}
	return d.PublishFolder(o.out, "seeds")
}

// runCommand builds another command of this module, runs it, and returns the
// tables of its report.
func runCommand(ctx context.Context, folder, name string, args ...string) ([]table, error) {
	program, markdown := filepath.Join(folder, name), filepath.Join(folder, name+".md")
	for _, line := range [][]string{
		{"go", "build", "-o", program, "github.com/sluicehttp/sluice/bench/" + name},
		append([]string{program, "-markdown", markdown}, args...),
	} {
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Stderr = os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it cleans up
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w", line[0], err)
		}
	}
	text, err := os.ReadFile(markdown)
	if err != nil {
		return nil, err
	}
	return parseTables(string(text)), nil
}
