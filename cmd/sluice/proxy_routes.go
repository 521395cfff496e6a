package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/sluicehttp/sluice/proxy"
)

// A route says to which servers requests go.
type route struct {
	host    string // in lower case; "": every one; ".example.com": those below it
	path    string // a prefix, which begins with a slash
	options proxy.Options
}

// routeText is a route in the file of --config.
type routeText struct {
	Host           string   `toml:"host"`
	Path           string   `toml:"path"`
	To             []string `toml:"to"`
	Balance        string   `toml:"balance"`
	Health         string   `toml:"health"`
	HealthInterval duration `toml:"health-interval"`
	Timeout        duration `toml:"timeout"`
	TunnelTimeout  duration `toml:"tunnel-timeout"`
	MaxConns       int      `toml:"max-conns"`
	MaxBody        int64    `toml:"max-body"`
	Attempts       int      `toml:"attempts"`
	HedgeAfter     duration `toml:"hedge-after"`
	RewriteHost    bool     `toml:"rewrite-host"`
	Forwarded      string   `toml:"forwarded"`
	Via            string   `toml:"via"`
	StickyKey      string   `toml:"sticky-key"`
}

// A duration is a time.Duration in TOML: "1m30s".
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	value, err := time.ParseDuration(string(text))
	if err == nil && value <= 0 {
		err = fmt.Errorf("%s is no time to wait", text)
	}
	*d = duration(value)
	return err
}

// readRoutes reads the file of --config.
func readRoutes(name string) ([]route, error) {
	var file struct {
		Route []routeText `toml:"route"`
	}
	data, err := toml.DecodeFile(name, &file)
	if err != nil {
		return nil, fmt.Errorf("--config %s: %w", name, err)
	}
	if unknown := data.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("--config %s: there is no %q", name, unknown[0].String())
	}
	if len(file.Route) == 0 {
		return nil, fmt.Errorf("--config %s: there is no [[route]]", name)
	}
	routes := make([]route, 0, len(file.Route))
	for i, text := range file.Route {
		r, err := text.route()
		if err == nil && slices.ContainsFunc(routes, func(other route) bool { return other.host == r.host && other.path == r.path }) {
			err = errors.New("another one has the same host and path")
		}
		if err != nil {
			return nil, fmt.Errorf("--config %s: route %d: %w", name, i+1, err)
		}
		routes = append(routes, r)
	}
	return routes, nil
}

// route checks the text.
func (t *routeText) route() (route, error) {
	r := route{host: strings.ToLower(t.Host), path: t.Path}
	if r.path == "" {
		r.path = "/"
	}
	if strings.HasPrefix(r.host, "*.") {
		r.host = r.host[1:]
	}
	balance, isBalance := balanceOf(t.Balance)
	forwarded, isForwarded := forwardedOf(t.Forwarded)
	switch {
	case strings.ContainsAny(r.host, "*/:"):
		return r, fmt.Errorf("host %q is no name without a port, or *. before one", t.Host)
	case r.path[0] != '/':
		return r, fmt.Errorf("path %q does not begin with a slash", t.Path)
	case !isBalance:
		return r, fmt.Errorf("balance %q is none of least-loaded, hash and sticky", t.Balance)
	case !isForwarded:
		return r, fmt.Errorf("forwarded %q is none of replace, append and drop", t.Forwarded)
	case t.MaxConns < 0 || t.MaxBody < 0 || t.Attempts < 0:
		return r, errors.New("a limit is below zero")
	}
	r.options = proxy.Options{
		To: t.To, Balance: balance, HealthPath: t.Health, HealthInterval: time.Duration(t.HealthInterval), Timeout: time.Duration(t.Timeout),
		TunnelTimeout: time.Duration(t.TunnelTimeout), MaxConns: t.MaxConns, MaxBody: t.MaxBody, Attempts: t.Attempts, HedgeAfter: time.Duration(t.HedgeAfter), RewriteHost: t.RewriteHost, Forwarded: forwarded, Via: t.Via, StickyKey: t.StickyKey,
	}
	return r, nil
}
