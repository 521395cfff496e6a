package main

import (
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/proxy"
	"github.com/sluicehttp/sluice/tools/lab/cli"
)

// gatewayOptions are the flags of "sluice proxy" alone.
type gatewayOptions struct {
	isOn        bool // the command is "sluice proxy"
	to          []string
	config      string // the name of a file; "": the flags have all
	balance     string
	health      string
	timeout     time.Duration
	maxConns    int
	rewriteHost bool
	forwarded   string
	maxBody     int64 // of --max-body, for routes without their own
}

const proxyHelp = `Proxy forwards requests to the servers of --to, or to those that the routes of
the --config file name. URLs are http, https, h2c or h2://HOST:PORT, or unix:PATH.

  # routes.toml: the most specific host, and then the longest path, decides.
  [[route]]
  path = "/"
  to   = ["http://10.0.0.7:9000", "http://10.0.0.8:9000"]

  [[route]]
  host     = "api.example.com"       # *.example.com is every host below it
  path     = "/v2/"                  # a prefix
  to       = ["h2c://10.0.0.9:9000"]
  balance  = "hash"                  # least-loaded, hash (of the address), sticky
  health   = "/healthz"
  timeout  = "30s"                   # for each wait for a server
  tunnel-timeout = "10m"             # ends silent WebSockets; 1h without it
  max-conns = 500                    # to each server
  max-body  = 1048576                # bytes; --max-body without it
  attempts  = 2
  hedge-after = "200ms"              # then a second server gets it, too
  forwarded = "append"               # replace, append, drop
  rewrite-host = true
  via = "edge"
  sticky-key = "a secret"            # the same on all machines

Requests without a route are answered with 404. SIGHUP reads the file again; what
is wrong with it is said, and the old routes stay. The other signals are those of
"sluice serve", and so are --prefork, --admin, TLS and the access log.`

const proxyExamples = `  sluice proxy --to http://127.0.0.1:9000
  sluice proxy --listen :80 --to http://10.0.0.7:9000,http://10.0.0.8:9000 --health /healthz
  sluice proxy --listen :443 --tls-cert cert.pem --tls-key key.pem --config routes.toml`

func newProxyCommand() *cobra.Command {
	o := serveOptions{gateway: gatewayOptions{isOn: true}}
	cmd := &cobra.Command{
		Use:     "proxy",
		Short:   "Forward requests to other servers",
		Long:    proxyHelp,
		Example: proxyExamples,
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.complete(cmd.Flags(), args); err != nil {
				return cli.Misuse(err)
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.gateway.addFlags(flags)
	o.addFlags(cmd, "listen")
	cli.Values(cmd, "balance", "least-loaded", "hash", "sticky")
	cli.Values(cmd, "forwarded", "replace", "append", "drop")
	return cmd
}

func (o *gatewayOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.to, "to", nil, "`URLS` of the servers to which requests go")
	flags.StringVar(&o.config, "config", "", "`FILE` with routes, in place of the other flags down to --forwarded")
	flags.StringVar(&o.balance, "balance", "least-loaded", "which server gets a request: least-loaded, hash (of the client's address), or sticky (a cookie)")
	flags.StringVar(&o.health, "health", "", "ask each server for `PATH` every five seconds, and leave out those that do not answer well")
	flags.Var(cli.SecondsOf(&o.timeout, time.Minute), "timeout", "bound for each wait for a server")
	flags.IntVar(&o.maxConns, "max-conns", 1024, "bound of connections to each server")
	flags.BoolVar(&o.rewriteHost, "rewrite-host", false, "send the server's own host in place of that of the request")
	flags.StringVar(&o.forwarded, "forwarded", "replace", "what happens to X-Forwarded-For and its like: replace, append (behind a proxy that you trust), or drop")
}

// routeFlags are the flags that mean nothing with --config.
var routeFlags = [...]string{"to", "balance", "health", "timeout", "max-conns", "rewrite-host", "forwarded"}

// complete checks the flags, and the file.
func (o *gatewayOptions) complete(flags flagSet) error {
	switch {
	case !o.isOn:
		return nil
	case o.config == "" && len(o.to) == 0:
		return errors.New("where do requests go? --to takes URLs, --config a file with routes")
	case o.config != "":
		for _, name := range routeFlags {
			if flags.Changed(name) {
				return errors.New("--" + name + " and --config exclude each other: a route of the file has it")
			}
		}
	}
	if prefork.IsManager() {
		return nil // the file may be wrong by now; see lead
	}
	_, err := o.check()
	return err
}

// check returns the routes, or what is wrong with them.
func (o *gatewayOptions) check() ([]route, error) {
	routes, err := o.routes()
	if err != nil {
		return nil, err
	}
	tried := slices.Clone(routes)
	for i := range tried {
		tried[i].options.HealthPath = "" // nothing is asked for
	}
	g, err := newGateway(tried)
	if err != nil {
		return nil, err
	}
	g.close()
	return routes, nil
}

// routes returns the routes of the flags, or reads them from the file.
func (o *gatewayOptions) routes() ([]route, error) {
	if o.config != "" {
		routes, err := readRoutes(o.config)
		for i := range routes {
			if body := &routes[i].options.MaxBody; *body == 0 {
				*body = o.maxBody
			}
		}
		return routes, err
	}
	r := routeText{
		To: o.to, Balance: o.balance, Health: o.health, Timeout: duration(o.timeout),
		MaxConns: o.maxConns, RewriteHost: o.rewriteHost, Forwarded: o.forwarded, MaxBody: o.maxBody,
	}
	one, err := r.route()
	return []route{one}, err
}

// balanceOf returns the value of --balance with a name.
func balanceOf(name string) (proxy.Balance, bool) {
	switch name {
	case "", "least-loaded":
		return proxy.LeastLoaded, true
	case "hash":
		return proxy.Hash, true
	case "sticky":
		return proxy.Sticky, true
	}
	return 0, false
}

// forwardedOf returns the value of --forwarded with a name.
func forwardedOf(name string) (proxy.Forwarded, bool) {
	switch name {
	case "", "replace":
		return proxy.ForwardedReplace, true
	case "append":
		return proxy.ForwardedAppend, true
	case "drop":
		return proxy.ForwardedDrop, true
	}
	return 0, false
}
