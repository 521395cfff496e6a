package sluice

import "testing"

func TestRequestURIAndHost(t *testing.T) {
	for name, test := range map[string]struct {
		set                   func(r *Request)
		uri, host, requestURI string
	}{
		"nothing":       {func(*Request) {}, "http:///", "", "/"},
		"absolute":      {func(r *Request) { r.SetRequestURI("http://Host/p?q#h") }, "http://host/p?q#h", "host", "/p?q"},
		"path and Host": {func(r *Request) { r.Header.SetHost("h"); r.SetRequestURI("/p?q") }, "http://h/p?q", "h", "/p?q"},
		"over TLS":      {func(r *Request) { r.isTLS = true; r.Header.SetHost("h"); r.SetRequestURI("/p") }, "https://h/p", "h", "/p"},
		"no slash, TLS": {func(r *Request) { r.isTLS = true; r.Header.SetHost("h"); r.SetRequestURI("p") }, "https://h/p", "h", "/p"},
		"absolute, TLS": {func(r *Request) { r.isTLS = true; r.SetRequestURI("http://h/p") }, "http://h/p", "h", "/p"},
		"two slashes":   {func(r *Request) { r.Header.SetHost("h"); r.SetRequestURI("//evil/p") }, "http://h/evil/p", "h", "/evil/p"},
		"SetHost":       {func(r *Request) { r.SetRequestURI("http://a/p"); r.SetHost("B") }, "http://b/p", "b", "/p"},
		"CONNECT":       {func(r *Request) { r.Header.SetMethod("CONNECT"); r.SetRequestURI("a:443") }, "http://a:443/a:443", "a:443", "a:443"},
		"CONNECT, URI": {func(r *Request) { r.Header.SetMethod("CONNECT"); r.SetRequestURI("a:443"); r.URI().SetPath("/x") },
			"http://a:443/x", "a:443", "a:443"},
		"bytes": {func(r *Request) { r.SetRequestURIBytes([]byte("http://a/p")); r.SetHostBytes([]byte("b")) },
			"http://b/p", "b", "/p"},
		"changed": {func(r *Request) { r.SetRequestURI("http://a/p?q"); r.URI().SetPath("/new") }, "http://a/new?q", "a", "/new?q"},
		"SetURI": {func(r *Request) {
			var u URI
			u.Parse(nil, []byte("http://u/p"))
			r.SetRequestURI("http://a/")
			r.SetURI(&u)
			u.SetHost("changed")
		}, "http://u/p", "u", "/p"},
		"SetURI(nil)": {func(r *Request) {
			r.SetRequestURI("http://a/p")
			r.URI().SetHost("b")
			r.SetURI(nil)
		}, "http://a/p", "a", "/p"},
		"malformed": {func(r *Request) { r.SetRequestURI("http://[/p") }, "http:///", "", "/"},
	} {
		var r Request
		test.set(&r)
		if got := r.URI().String(); got != test.uri {
			t.Errorf("%s: URI %q, want %q", name, got, test.uri)
		}
		if got := string(r.Host()); got != test.host {
			t.Errorf("%s: host %q", name, got)
		}
		if got := string(r.RequestURI()); got != test.requestURI {
			t.Errorf("%s: request URI %q", name, got)
		}
	}
}
