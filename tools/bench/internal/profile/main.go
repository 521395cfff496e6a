// Package profile makes the profile with which the compiler optimises the command sluice
// (cmd/sluice/default.pgo). Run it in the bench module, on Linux with taskset and two CPUs:
//
//	go -C tools/bench run . profile [--duration D] [--case REGEXP] [--to FILE]
//
// "sluice serve" and "sluice proxy" have one load after the other, each in a process of its own
// on CPU 0; what they forward to and the client are on CPU 1. The profiles are those of --admin,
// and one file has the sum of them.
package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/tools/bench/internal/command"
	"github.com/sluicehttp/sluice/tools/bench/internal/load"
	"github.com/sluicehttp/sluice/tools/lab/process"
	"github.com/sluicehttp/sluice/tools/lab/report"
)

// The CPUs of what is profiled, and of the client and the upstream.
const (
	serverCPU = 0
	clientCPU = 1
)

// options are the command's flags.
type options struct {
	duration time.Duration // of each load; whole seconds
	to       string
	cases    []profiled
	program  string // the command; "": it is built
}

// Command returns the subcommand.
func Command() *cobra.Command {
	return command.New("profile", "Make the profile with which the compiler optimises the command", flags, run)
}

func flags(flags *pflag.FlagSet) func() (options, error) {
	var o options
	flags.DurationVar(&o.duration, "duration", 10*time.Second, "time of each load, in whole seconds")
	flags.StringVar(&o.to, "to", "../../cmd/sluice/default.pgo", "`file` of the profile")
	pattern := flags.String("case", ".", "regular `expression` of the loads")
	return func() (_ options, err error) {
		if o.duration < time.Second || o.duration%time.Second != 0 {
			return o, fmt.Errorf("--duration %v: want whole seconds", o.duration)
		}
		o.cases, err = command.Choose("case", *pattern, allProfiled(), profiled.String)
		return o, err
	}
}

// What of the command is profiled.
const (
	files     = "files"
	endpoints = "endpoints" // that are built in
	proxy     = "proxy"     // before the endpoints
)

// A profiled is a part of the command, and its load.
type profiled struct {
	part, name string
	load       load.Load
}

// String returns the name of a row, "proxy, TLS".
func (p profiled) String() string { return p.part + ", " + p.name }

// allProfiled returns what users have the command do.
func allProfiled() (all []profiled) {
	get := func(target string, h load.Head) []byte {
		return []byte("GET " + target + " HTTP/1.1\r\n" + h.Lines("") + "\r\n")
	}
	post := slices.Concat([]byte("POST /echo HTTP/1.1\r\n"+load.TwoFields.Lines("Content-Length: 1024\r\n")+"\r\n"), make([]byte, 1024))
	for _, part := range []string{files, endpoints, proxy} {
		small, json := get("/plaintext", load.TwoFields), get("/json", load.Browser)
		if part == files {
			small, json = get("/small.txt", load.TwoFields), get("/page.html", load.Browser)
		}
		all = append(all,
			profiled{part, "two fields", load.Load{Conns: 64, Request: small}},
			profiled{part, "browser head", load.Load{Conns: 512, Request: json}},
			profiled{part, "pipeline of 16", load.Load{Conns: 64, Depth: 16, Request: small}},
			profiled{part, "TLS", load.Load{Conns: 64, TLS: true, Request: json}},
			profiled{part, "HTTP/2", load.Load{Conns: 32, Depth: 10, HTTP2: true, Request: json}})
		if part != files {
			all = append(all,
				profiled{part, "POST 1 KiB", load.Load{Conns: 64, Request: post}},
				profiled{part, "WebSocket", load.Load{Conns: 64, Request: load.Get("/ws", ""), Message: []byte("a message")}})
		}
	}
	return all
}

// arguments returns those of the command, which listens on addr. Requests of a proxy go to upstream;
// folder has the files.
func (p profiled) arguments(addr, admin, upstream, folder string) []string {
	arguments := []string{"serve", "--addr", addr}
	switch p.part {
	case files:
		arguments = append(arguments, filepath.Join(folder, siteName), "--access-log", filepath.Join(folder, "log"))
	case proxy:
		arguments = []string{"proxy", "--listen", addr, "--to", "http://" + upstream}
	}
	if p.load.TLS {
		certificate := filepath.Join(folder, certificateName)
		arguments = append(arguments, "--tls-cert", certificate, "--tls-key", certificate)
	}
	return append(arguments, "--admin", admin, "--profiles")
}

// What a folder has.
const (
	siteName        = "site"
	certificateName = "certificate.pem"
)

// write writes the files that servers need into a folder.
func write(folder string) error {
	chain, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	site := filepath.Join(folder, siteName)
	return errors.Join(err,
		os.WriteFile(filepath.Join(folder, certificateName), append(chain, key...), 0o600),
		os.Mkdir(site, 0o755),
		os.WriteFile(filepath.Join(site, "small.txt"), []byte("Hello, World!"), 0o600),
		os.WriteFile(filepath.Join(site, "page.html"), []byte(strings.Repeat("<p>Hello, World!</p>\n", 500)), 0o600))
}

func run(ctx context.Context, o options) (d report.Document, err error) {
	if err := command.Require("taskset"); err != nil {
		return d, err
	}
	folder, err := os.MkdirTemp("", "profile")
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := write(folder); err != nil {
		return d, err
	}
	if o.program == "" { // the profile is to have no folders of this machine
		if o.program, err = command.BuildSluice(ctx, folder, "-trimpath"); err != nil {
			return d, err
		}
	}
	upstream, err := process.FreeAddress(ctx)
	if err != nil {
		return d, err
	}
	server, err := process.StartServer(ctx, clientCPU, upstream, o.program, "serve", "--addr", upstream)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	generator, err := load.Start(ctx, process.Options{CPU: clientCPU, Procs: 1})
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, generator.Stop()) }()
	section := report.Section{Title: "Loads of the profile", Head: []string{"load", "requests"}}
	merge := []string{"tool", "pprof", "-proto", "-output=" + o.to}
	for i, p := range o.cases {
		command.Progress("%v", p)
		part := filepath.Join(folder, fmt.Sprint(i))
		requests, err := p.profile(ctx, o, upstream, folder, part, generator)
		if err != nil {
			return d, fmt.Errorf("%v: %w", p, err)
		}
		merge = append(merge, part)
		section.Rows = append(section.Rows, []string{p.String(), fmt.Sprint(requests)})
	}
	if out, err := exec.CommandContext(ctx, "go", merge...).CombinedOutput(); err != nil {
		return d, fmt.Errorf("go tool pprof: %w\n%s", err, out)
	}
	d.Title, d.Sections = "A profile of the command", []report.Section{section}
	return d, nil
}

// profile writes a profile to a file, and returns how many requests were answered.
func (p profiled) profile(ctx context.Context, o options, upstream, folder, to string, generator *load.Generator) (requests int, err error) {
	l := p.load
	admin, err := process.FreeAddress(ctx)
	if err != nil {
		return 0, err
	}
	if l.Addr, err = process.FreeAddress(ctx); err != nil {
		return 0, err
	}
	server, err := process.StartServer(ctx, serverCPU, l.Addr, o.program, p.arguments(l.Addr, admin, upstream, folder)...)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	l.Duration = o.duration
	if err := generator.Open(l); err != nil {
		return 0, err
	}
	fetched := make(chan error, 1)
	go func() {
		fetched <- fetch(ctx, fmt.Sprintf("http://%s/workers/0/pprof/profile?seconds=%.0f", admin, o.duration.Seconds()), to)
	}()
	results, err := generator.Run()
	if err := errors.Join(err, <-fetched); err != nil {
		return 0, err
	}
	r := results[0]
	if r.Failures > 0 {
		return 0, errors.New(r.Errors())
	}
	return r.Requests, nil
}

// fetch writes what a URL answers with to a file.
func fetch(ctx context.Context, url, to string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, answer.Status, text)
	}
	return errors.Join(err, os.WriteFile(to, text, 0o600))
}
