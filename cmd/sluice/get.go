package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// getOptions are the flags of "sluice get".
type getOptions struct {
	url            string
	method         string
	headers        []string
	data           []dataPart
	user           string
	agent          string
	byteRange      string
	output         string
	include        bool
	head           bool
	compressed     bool
	follow         bool
	maxRedirects   int
	maxTime        time.Duration
	connectTimeout time.Duration
	insecure       bool
	caFile         string
	proxy          string
	http2          bool
	http3          bool
	http3Only      bool
	hasProxy       bool // --proxy was given, maybe an empty one
	fail           bool
	silent         bool
	showError      bool
	verbose        bool
	trace          bool
	repeat         int
}

const getHelp = `Get requests URL and writes the body of the response to stdout, or to a file.
Flags are those of curl where they do the same. Bodies are streamed in both
directions, so their size does not matter.

What is different from curl: --data of a file is sent as it is, line breaks
included; http: and https: only; redirects (--location) drop credentials that
were meant for another origin, and turn POST into GET for 301, 302 and 303 also
where --request was given.

Ctrl-C ends the request. What has come of a file stays.

Exit status: 0 for a response, whatever its status; 1 if there is none, or only
a part of it; 2 for wrong use; 22 with --fail if the status is 400 or more.`

const getExamples = `  sluice get localhost:8080/json                 http:// is added
  sluice get -L -o big.iso https://example.com/  follow redirects, write a file
  sluice get -d a=1 -d b=2 localhost:8080/echo   POST a form
  tar c . | sluice get -d @- localhost:8080/echo POST a stream
  sluice get --trace --repeat 3 -o /dev/null URL how long each phase takes`

func newGetCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:     "get URL",
		Short:   "Request a URL",
		Long:    getHelp,
		Example: getExamples,
		Args:    cli.OneArgument("URL"),

		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			if err := o.complete(cmd.Flags()); err != nil {
				return cli.Misuse(err)
			}
			if status := runGet(cmd.Context(), o); status != 0 {
				os.Exit(status)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.addRequestFlags(flags)
	o.addResponseFlags(flags)
	o.addConnectionFlags(flags)
	return cmd
}

func (o *getOptions) addRequestFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.method, "request", "X", "", "the `METHOD`; GET, or POST with --data")
	flags.StringVar(&o.method, "method", "", "the `METHOD`, too")
	flags.StringArrayVarP(&o.headers, "header", "H", nil, "add the field `'NAME: VALUE'`; 'NAME:' leaves a usual one out, 'NAME;' sends it empty")
	flags.VarP(&dataFlag{parts: &o.data, readsFiles: true}, "data", "d", "send `DATA`, or the file behind @; @- is stdin; several are joined with &")
	flags.Var(&dataFlag{parts: &o.data}, "data-raw", "send `DATA` also if it begins with @")
	flags.StringVarP(&o.user, "user", "u", "", "log in with `NAME:PASSWORD` (Basic)")
	flags.StringVarP(&o.agent, "user-agent", "A", "", "the `NAME` of the user agent")
	flags.StringVarP(&o.byteRange, "range", "r", "", "ask for the bytes of `RANGE` only, such as 0-99 or -500")
	flags.BoolVar(&o.compressed, "compressed", false, "ask for gzip, br, zstd or deflate, and decode it")
	flags.BoolVarP(&o.head, "head", "I", false, "ask for the head only, and print it")
}

func (o *getOptions) addResponseFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.output, "output", "o", "", "write the body to `FILE`; - is stdout")
	flags.BoolVarP(&o.include, "include", "i", false, "print the head of the response, too")
	flags.BoolVarP(&o.fail, "fail", "f", false, "print nothing and exit with 22 if the status is 400 or more")
	flags.BoolVarP(&o.silent, "silent", "s", false, "no error messages")
	flags.BoolVarP(&o.showError, "show-error", "S", false, "error messages also with --silent")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "tell on stderr what is sent and received")
	flags.BoolVar(&o.trace, "trace", false, "tell on stderr how long each phase took")
	flags.IntVar(&o.repeat, "repeat", 1, "do it `N` times, one after the other")
}

func (o *getOptions) addConnectionFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&o.follow, "location", "L", false, "follow redirects")
	flags.IntVar(&o.maxRedirects, "max-redirs", 10, "how many redirects --location follows, at most")
	flags.VarP(cli.SecondsOf(&o.maxTime, 0), "max-time", "m", "bound for all of it, in `SECONDS` or as 500ms")
	flags.Var(cli.SecondsOf(&o.connectTimeout, 30*time.Second), "connect-timeout", "bound for looking up and connecting, in `SECONDS` or as 500ms")
	flags.StringVar(&o.proxy, "proxy", "", "connect through the http, https or socks5 proxy at `URL`; '' is none, else the environment says (https_proxy ...)")
	flags.BoolVar(&o.http2, "http2", false, "speak HTTP/2: over TLS if the server chooses it, and without asking to http: URLs")
	flags.BoolVar(&o.http3, "http3", false, "speak HTTP/3 to https: URLs, or what the server has over TCP if that is there first")
	flags.BoolVar(&o.http3Only, "http3-only", false, "speak HTTP/3, and nothing else")
	flags.BoolVarP(&o.insecure, "insecure", "k", false, "accept any certificate")
	flags.StringVar(&o.caFile, "cacert", "", "accept certificates signed by those in `FILE` (PEM)")
}

// complete checks the flags against each other and fills in what follows from
// them.
func (o *getOptions) complete(flags flagSet) error {
	if flags.Changed("request") && flags.Changed("method") {
		return errors.New("--request and --method are the same")
	}
	if err := o.completeURL(); err != nil {
		return err
	}
	if o.method == "" {
		switch {
		case o.head:
			o.method = "HEAD"
		case len(o.data) > 0:
			o.method = "POST"
		default:
			o.method = "GET"
		}
	}
	if !isToken(o.method) {
		return fmt.Errorf("--request: %q is not a method", o.method)
	}
	if err := checkHeaders(o.headers); err != nil {
		return err
	}
	if strings.ContainsAny(o.agent+o.byteRange, "\r\n\x00") {
		return errors.New("there is a line break in the value of a flag")
	}
	o.hasProxy = flags.Changed("proxy")
	return o.checkPairs(flags)
}

// checkPairs finds flags that exclude each other.
func (o *getOptions) checkPairs(flags flagSet) error {
	switch {
	case flags.Changed("output") && o.output == "":
		return errors.New("--output is empty")
	case o.repeat < 1:
		return errors.New("--repeat takes a number from 1 on")
	case o.repeat > 1 && readsStdin(o.data):
		return errors.New("--repeat cannot send stdin more than once")
	case o.maxRedirects < 0:
		return errors.New("--max-redirs cannot be negative")
	case o.http3 && o.http3Only:
		return errors.New("--http3 and --http3-only exclude each other")
	case o.http2 && o.http3Only:
		return errors.New("--http2 and --http3-only exclude each other")
	case (o.http3 || o.http3Only) && o.proxy != "":
		return errors.New("--proxy excludes --http3 and --http3-only: QUIC does not go through proxies")
	case o.insecure && o.caFile != "":
		return errors.New("--insecure and --cacert exclude each other")
	}
	return checkData(o.data)
}
