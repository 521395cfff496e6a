package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/tools/lab/load"
	"github.com/spf13/cobra"

	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// parseBench returns the options of a command line.
func parseBench(t *testing.T, args ...string) (benchOptions, error) {
	t.Helper()
	var o benchOptions
	cmd := &cobra.Command{Args: cli.OneArgument("URL")}
	o.addLoadFlags(cmd.Flags())
	o.addRequestFlags(cmd.Flags())
	o.addReportFlags(cmd.Flags())
	if err := cmd.ParseFlags(args); err != nil {
		return o, err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return o, err
	}
	o.url = cmd.Flags().Arg(0)
	return o, o.complete(cmd.Flags())
}

func TestBenchRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(file, []byte("from a file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const agent = "User-Agent: sluice-bench\r\n"
	const form = "Content-Type: application/x-www-form-urlencoded\r\n"
	for _, c := range []struct {
		args string // separated by |
		want string
	}{
		{"http://127.0.0.1", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + "\r\n"},
		{"127.0.0.1:81/a b?c d&é", "GET /a%20b?c%20d&%C3%A9 HTTP/1.1\r\nHost: 127.0.0.1:81\r\n" + agent + "\r\n"},
		{"127.0.0.1/../a//%41?q=\"50%\"&a[]={<^>}", "GET /../a//%41?q=%2250%25%22&a[]=%7B%3C%5E%3E%7D HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + "\r\n"},
		{"http://[::1]:81?q#fragment", "GET /?q HTTP/1.1\r\nHost: [::1]:81\r\n" + agent + "\r\n"},
		{"http://[::1%25lo]:81/", "GET / HTTP/1.1\r\nHost: [::1]:81\r\n" + agent + "\r\n"}, // zones are for this machine
		{"-X|HEAD|127.0.0.1/x", "HEAD /x HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + "\r\n"},
		{"http://a:b@127.0.0.1/", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + "Authorization: Basic YTpi\r\n\r\n"},
		{"http://us%40er:p%3Aw@127.0.0.1/", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + "Authorization: Basic dXNAZXI6cDp3\r\n\r\n"},
		{"--disable-keepalive|127.0.0.1", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + "Connection: close\r\n\r\n"},
		{"-b|a=1|127.0.0.1", "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + form + "Content-Length: 3\r\n\r\na=1"},
		{"-b||127.0.0.1", "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + form + "Content-Length: 0\r\n\r\n"},
		{"--data-raw|@x|--method|PUT|127.0.0.1", "PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + form + "Content-Length: 2\r\n\r\n@x"},
		{"-b|@" + file + "|127.0.0.1", "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + form + "Content-Length: 12\r\n\r\nfrom a file\n"},
		{"-H|host: other|-H|User-Agent:|-H|X-Empty;|-H|A: 1|-H|A: 2|127.0.0.1",
			"GET / HTTP/1.1\r\nhost: other\r\nX-Empty: \r\nA: 1\r\nA: 2\r\n\r\n"},
		{"-b|{}|-H|content-type: application/json|127.0.0.1",
			"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + agent + "content-type: application/json\r\nContent-Length: 2\r\n\r\n{}"},
	} {
		o, err := parseBench(t, strings.Split(c.args, "|")...)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		target, err := o.target(t.Context())
		if err != nil || string(target.request) != c.want {
			t.Errorf("%s: %v\n%q, not\n%q", c.args, err, target.request, c.want)
		}
		if target.url.User != nil {
			t.Errorf("%s: the password is shown", c.args)
		}
	}
}

// Ctrl-C ends the wait for a body that does not come.
func TestBodyInterrupted(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if body, err := readAll(ctx, in); !errors.Is(err, errInterrupted) {
		t.Errorf("%q, %v", body, err)
	}
	if body, err := readAll(t.Context(), strings.NewReader("abc")); err != nil || string(body) != "abc" {
		t.Errorf("%q, %v", body, err)
	}
}

func TestBenchConfig(t *testing.T) {
	for _, c := range []struct {
		args  string
		check func(c load.Config) bool
	}{
		{"127.0.0.1", func(c load.Config) bool {
			return c.Address == "127.0.0.1:80" && c.Duration == defaultBenchDuration && c.Connections == 64 && c.TLS == nil && !c.IsHead
		}},
		{"https://[::1]", func(c load.Config) bool {
			return c.Address == "[::1]:443" && c.TLS.ServerName == "::1" && c.Threads > 0
		}},
		{"-n 5 127.0.0.1", func(c load.Config) bool { return c.Requests == 5 && c.Duration == 0 && c.Connections == 5 }},
		{"-d 1.5 -c 7 -t 3 -R 0.5 -X HEAD --timeout 1m 127.0.0.1:8080", func(c load.Config) bool {
			return c.Duration.Milliseconds() == 1500 && c.Connections == 7 && c.Threads == 3 && c.Rate == 0.5 && c.IsHead && c.Timeout.Minutes() == 1
		}},
		{"--unix /x/y --pipeline 4 host.invalid", func(c load.Config) bool { return c.Network == "unix" && c.Address == "/x/y" && c.Depth == 4 }},
	} {
		o, err := parseBench(t, strings.Fields(c.args)...)
		if err != nil {
			t.Fatalf("%s: %v", c.args, err)
		}
		target, err := o.target(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", c.args, err)
		}
		if config, err := o.config(target); err != nil || !c.check(config) {
			t.Errorf("%s: %v, %+v", c.args, err, config)
		}
	}
}

// Of several addresses it is the first that accepts.
func TestResolveAddress(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	got, err := resolveAddress(t.Context(), &url.URL{Scheme: "http", Host: "localhost:" + port}, defaultBenchDuration)
	if err != nil || got != "127.0.0.1:"+port {
		t.Errorf("%s, %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := resolveAddress(ended, &url.URL{Scheme: "http", Host: "localhost.invalid"}, defaultBenchDuration); !errors.Is(err, context.Canceled) && err == nil {
		t.Errorf("%s without looking", got)
	}
}
