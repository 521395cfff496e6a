// Package proxy is a reverse proxy: a handler of package sluice that forwards requests to
// upstreams.
//
//	p, err := proxy.New(proxy.Options{To: []string{"http://10.0.0.7:9000", "http://10.0.0.8:9000"}})
//	server := &sluice.Server{Handler: p.Handle, StreamRequestBody: true, WriteTimeout: time.Minute}
//
// What is sent to an upstream is built from the request that the server has parsed, and
// never copied from the client's bytes: the head is written anew, and the body is framed
// anew. The same is true of the response. Fields that concern a connection are not
// forwarded (RFC 9110 section 7.6.1).
//
// Bodies go through in both directions while they arrive, in constant memory, and so do
// trailer fields. Upgrades, such as WebSockets, become tunnels.
package proxy
