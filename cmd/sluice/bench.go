package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// benchOptions are the flags of "sluice bench".
type benchOptions struct {
	url              string
	connections      int
	threads          int
	duration         time.Duration
	requests         int64
	rate             float64
	pipeline         int
	http2            bool
	http3            bool
	streams          int
	warmUp           bool
	messageSize      int
	sse              bool
	method           string
	headers          []string
	data             string
	dataRaw          string
	hasBody          bool
	disableKeepAlive bool
	timeout          time.Duration
	insecure         bool
	caFile           string
	unixPath         string
	json             string
	latency          bool
	progress         bool
	quiet            bool
}

const benchHelp = `Bench puts load on the server of URL and tells how it answers.

Closed loop, without --rate: a connection sends its next request when it has the
response, as with wrk. This finds what a server can do at most. A server that
stalls is asked nothing meanwhile, so that its pauses hardly show in percentiles.

Open loop, with --rate: requests are due at even intervals whatever the server
does, and latency counts from when they were due, as with wrk2. This finds what
users see at that rate.

With --http2 a connection has --streams requests under way, and sends the next one
when one is answered: over TLS by ALPN, in plain text without asking before. So it
has with --http3, over QUIC; bytes are those of bodies then.

With a URL of ws:// or wss:// the requests are messages of WebSocket, and each message
that comes back is the response to one: put load on a server that echoes.

With --sse the response to each request is a stream of server-sent events, which is
read for as long as the run lasts; something else must publish. A stream that ends is
opened again, and continues where it was (Last-Event-ID). --requests counts events.

Responses are read by a strict parser: what is no response, is cut off or comes
unasked counts as an error. Those with other statuses than 2xx and 3xx are
responses, with their latency; the summary and the JSON have them by status.

Ctrl-C ends the run, and prints what was measured.

Exit status: 0 if there was a response (with --sse: a stream), 1 if there was none,
2 for wrong use.`

const benchExamples = `  sluice bench localhost:8080/                       64 connections, 10 s
  sluice bench -c 512 -t 4 -d 30s --latency URL      as wrk -c 512 -t 4 -d 30s --latency
  sluice bench -R 20000 -d 1m --latency URL          20,000 requests per second
  sluice bench -n 100000 --pipeline 16 URL           100,000 requests, 16 at once
  sluice bench --http2 -c 64 -m 32 URL               HTTP/2, as h2load -c 64 -m 32
  sluice bench --http3 -c 8 -m 32 https://URL        HTTP/3
  sluice bench -c 1000 --message-size 200 ws://localhost:8080/ws
  sluice bench --sse -c 1000 -d 10s http://localhost:8080/events
  sluice bench -b @body.json -H 'Content-Type: application/json' URL
  sluice bench --disable-keepalive URL               a connection per request
  sluice bench -o run.json --quiet URL               for programs`

func newBenchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:     "bench URL",
		Short:   "Put load on a server",
		Long:    benchHelp,
		Example: benchExamples,
		Args:    cli.OneArgument("URL"),

		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			if err := o.complete(cmd.Flags()); err != nil {
				return cli.Misuse(err)
			}
			return runBench(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.addLoadFlags(flags)
	o.addRequestFlags(flags)
	o.addReportFlags(flags)
	return cmd
}

func (o *benchOptions) addLoadFlags(flags *pflag.FlagSet) {
	flags.IntVarP(&o.connections, "connections", "c", 64, "how many connections `N` are used at a time")
	flags.IntVarP(&o.threads, "threads", "t", 0, "how many threads `N`, and so processors, share them; default all")
	flags.VarP(cli.SecondsOf(&o.duration, 0), "duration", "d", "for how long, in `SECONDS` or as 1m30s; default 10s without --requests")
	flags.Int64VarP(&o.requests, "requests", "n", 0, "how many requests `N`; with --duration, whichever comes first")
	flags.Float64VarP(&o.rate, "rate", "R", 0, "an open loop with `N` requests per second in all")
	flags.IntVar(&o.pipeline, "pipeline", 1, "send `N` requests at once, and the next when all are answered")
	flags.BoolVar(&o.http2, "http2", false, "speak HTTP/2: by ALPN over TLS, by prior knowledge (h2c) otherwise")
	flags.BoolVar(&o.http3, "http3", false, "speak HTTP/3, to https: URLs")
	flags.IntVarP(&o.streams, "streams", "m", 1, "with --http2 or --http3: how many requests `N` a connection has under way")
	flags.IntVar(&o.messageSize, "message-size", 32, "with ws:// and without --data: send text of `N` bytes")
	flags.BoolVar(&o.sse, "sse", false, "read streams of server-sent events, one on each connection")
	flags.BoolVar(&o.warmUp, "warm-up", false, "make all connections first, and let each have a few responses, which do not count")
	flags.BoolVar(&o.disableKeepAlive, "disable-keepalive", false, "a connection per request; connecting is a part of its latency")
	flags.Var(cli.SecondsOf(&o.timeout, 2*time.Second), "timeout", "bound for connecting, and for a complete response, in `SECONDS` or as 500ms")
}

func (o *benchOptions) addRequestFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.method, "request", "X", "", "the `METHOD`; GET, or POST with --data")
	flags.StringVar(&o.method, "method", "", "the `METHOD`, too")
	flags.StringArrayVarP(&o.headers, "header", "H", nil, "add the field `'NAME: VALUE'`; 'NAME:' leaves a usual one out, 'NAME;' sends it empty")
	flags.StringVarP(&o.data, "data", "b", "", "send the body `DATA`, or the file behind @; @- is stdin")
	flags.StringVar(&o.dataRaw, "data-raw", "", "send the body `DATA` also if it begins with @")
	flags.BoolVarP(&o.insecure, "insecure", "k", false, "accept any certificate")
	flags.StringVar(&o.caFile, "cacert", "", "accept certificates signed by those in `FILE` (PEM)")
	flags.StringVar(&o.unixPath, "unix", "", "connect to the Unix socket `FILE`; URL says what to ask for")
}

func (o *benchOptions) addReportFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.latency, "latency", false, "more percentiles")
	flags.StringVarP(&o.json, "json", "o", "", "write the result to `FILE`, too, as JSON; - is stdout, and the summary goes to stderr")
	flags.BoolVar(&o.progress, "progress", false, "tell every second how it goes also where stderr is no terminal")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "neither progress nor summary")
}

const defaultBenchDuration = 10 * time.Second

// complete checks the flags against each other and fills in what follows from
// them.
func (o *benchOptions) complete(flags flagSet) error {
	if err := o.check(flags); err != nil {
		return err
	}
	if o.threads == 0 {
		o.threads = runtime.GOMAXPROCS(0)
	}
	if o.requests == 0 && o.duration == 0 {
		o.duration = defaultBenchDuration
	}
	o.hasBody = flags.Changed("data") || flags.Changed("data-raw")
	if o.method == "" {
		o.method = "GET"
		if o.hasBody && !o.isWebSocket() {
			o.method = "POST"
		}
	}
	switch {
	case !isToken(o.method):
		return fmt.Errorf("--request: %q is not a method", o.method)
	case o.method == "CONNECT":
		return errors.New("--request: CONNECT is for proxies")
	}
	if strings.Contains(o.url, "#") {
		o.url, _, _ = strings.Cut(o.url, "#")
	}
	return checkHeaders(o.headers)
}

// hasStreams reports whether connections have several requests under way.
func (o *benchOptions) hasStreams() bool { return o.http2 || o.http3 }

// check finds flags that make no sense, alone or together.
func (o *benchOptions) check(flags flagSet) error {
	switch {
	case o.connections < 1:
		return errors.New("--connections takes a number from 1 on")
	case flags.Changed("threads") && o.threads < 1:
		return errors.New("--threads takes a number from 1 on")
	case flags.Changed("requests") && o.requests < 1:
		return errors.New("--requests takes a number from 1 on")
	case flags.Changed("duration") && o.duration <= 0:
		return errors.New("--duration takes a time above 0")
	case o.timeout <= 0:
		return errors.New("--timeout takes a time above 0")
	case flags.Changed("rate") && !(o.rate > 0 && o.rate <= maxRate):
		return fmt.Errorf("--rate takes a number above 0, up to %.0e", maxRate)
	case o.pipeline < 1 || o.pipeline > maxPipeline:
		return fmt.Errorf("--pipeline takes a number from 1 to %d", maxPipeline)
	case o.streams < 1 || o.streams > maxStreams:
		return fmt.Errorf("--streams takes a number from 1 to %d", maxStreams)
	case flags.Changed("streams") && !o.hasStreams():
		return errors.New("--streams needs --http2 or --http3")
	case o.pipeline > 1 && o.hasStreams():
		return errors.New("--pipeline excludes --http2 and --http3: see --streams")
	case o.http3 && (o.http2 || flags.Changed("unix") || !strings.HasPrefix(strings.ToLower(o.url), "https://")):
		return errors.New("--http3 needs a URL of https://, and excludes --http2 and --unix")
	case o.pipeline*o.streams > 1 && o.disableKeepAlive:
		return errors.New("--disable-keepalive and --pipeline or --streams exclude each other")
	case o.messageSize < 0 || o.messageSize > maxMessage:
		return fmt.Errorf("--message-size takes a number from 0 to %d", maxMessage)
	case flags.Changed("message-size") && !o.isWebSocket():
		return errors.New("--message-size needs a URL of ws:// or wss://")
	case o.isWebSocket() && (o.hasStreams() || o.disableKeepAlive || o.method != ""):
		return errors.New("ws:// excludes --http2, --disable-keepalive and --request")
	case flags.Changed("message-size") && (flags.Changed("data") || flags.Changed("data-raw")):
		return errors.New("--message-size and --data exclude each other")
	case o.sse && (o.hasStreams() || o.isWebSocket() || o.disableKeepAlive || o.warmUp || o.pipeline > 1 || o.rate > 0 || o.method == "HEAD"):
		return errors.New("--sse excludes --http2, --http3, ws://, --disable-keepalive, --warm-up, --pipeline, --rate and HEAD")
	case o.warmUp && o.disableKeepAlive:
		return errors.New("--disable-keepalive and --warm-up exclude each other")
	case flags.Changed("request") && flags.Changed("method"):
		return errors.New("--request and --method are the same")
	case flags.Changed("data") && flags.Changed("data-raw"):
		return errors.New("--data and --data-raw exclude each other")
	case o.insecure && o.caFile != "":
		return errors.New("--insecure and --cacert exclude each other")
	case o.quiet && o.progress:
		return errors.New("--quiet and --progress exclude each other")
	case flags.Changed("json") && o.json == "":
		return errors.New("--json is empty")
	case flags.Changed("unix") && o.unixPath == "":
		return errors.New("--unix is empty")
	}
	return nil
}

const (
	maxRate     = 1e9
	maxPipeline = 1024
	maxStreams  = 10_000
	maxMessage  = 1 << 28 // bytes
)
