package fasthttpadaptor

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"

	"github.com/sluicehttp/sluice"
)

// traced returns the context of a request, by which state is filled if the connection has
// TLS. The functions of an httptrace.ClientTrace in it are called instead of those of base.
func traced(r *http.Request, base *sluice.ClientTrace, state **tls.ConnectionState) context.Context {
	ctx := r.Context()
	hooks := httptrace.ContextClientTrace(ctx)
	var trace sluice.ClientTrace
	switch {
	case hooks != nil:
		trace = converted(hooks)
	case r.URL.Scheme == "http":
		return ctx
	case base != nil:
		trace = *base
	}
	next := trace.GotConn
	trace.GotConn = func(info sluice.GotConnInfo) {
		if conn, ok := info.Conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
			s := conn.ConnectionState()
			*state = &s
		}
		if next != nil {
			next(info)
		}
	}
	return sluice.WithClientTrace(ctx, &trace)
}

// interim returns the function that passes interim responses on to the httptrace.ClientTrace in
// ctx, nil without one. Its first error is stored in refused, and ends the request when the
// final response comes.
func interim(ctx context.Context, refused *error) func(*sluice.ResponseHeader) {
	hooks := httptrace.ContextClientTrace(ctx)
	if hooks == nil || hooks.Got1xxResponse == nil {
		return nil
	}
	return func(h *sluice.ResponseHeader) {
		fields := make(textproto.MIMEHeader, h.Len())
		for name, value := range h.All() {
			fields.Add(string(name), string(value))
		}
		if err := hooks.Got1xxResponse(h.StatusCode(), fields); err != nil && *refused == nil {
			*refused = err
		}
	}
}

// converted returns a trace that calls the functions of hooks. Package net calls those of connecting, by the context.
func converted(hooks *httptrace.ClientTrace) sluice.ClientTrace {
	trace := sluice.ClientTrace{
		GetConn:         hooks.GetConn,
		TLSStart:        hooks.TLSHandshakeStart,
		TLSDone:         hooks.TLSHandshakeDone,
		Wait100Continue: hooks.Wait100Continue,
		Got100Continue:  hooks.Got100Continue,
		FirstByte:       hooks.GotFirstResponseByte,
	}
	if f := hooks.GotConn; f != nil {
		trace.GotConn = func(info sluice.GotConnInfo) { f(httptrace.GotConnInfo{Conn: info.Conn, Reused: info.IsReused}) }
	}
	if f := hooks.DNSStart; f != nil {
		trace.DNSStart = func(host string) { f(httptrace.DNSStartInfo{Host: host}) }
	}
	if f := hooks.DNSDone; f != nil {
		trace.DNSDone = func(addrs []net.IPAddr, err error) { f(httptrace.DNSDoneInfo{Addrs: addrs, Err: err}) }
	}
	if f := hooks.WroteRequest; f != nil {
		trace.WroteRequest = func(err error) { f(httptrace.WroteRequestInfo{Err: err}) }
	}
	return trace
}
